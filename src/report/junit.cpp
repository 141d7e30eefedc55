#include "report/junit.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "report/markup.h"
#include "report/text.h"

namespace kvphase::report {
namespace {

using record::Result;

enum class State { kPassed, kFailed, kError, kSkipped };

struct Case {
  std::string name;
  std::string body;
  State state = State::kPassed;
};

State state_of(std::string_view outcome) {
  return outcome == "pass" ? State::kPassed : outcome == "fail" ? State::kFailed : State::kSkipped;
}

std::string value(const Result& r, const std::optional<double>& x) {
  return x ? value_text(*x, unit_of(r)) : std::string("undefined");
}

// The figures that a requirement is about, for its name.
std::string figures(const Result& r, const record::Requirement& requirement) {
  const record::Extreme& worst = r.folded ? r.folded->worst : r.worst;
  const char* group = r.folded ? "phase" : "residue";
  if (requirement.text.starts_with("gap")) {
    const record::Estimate& gap = r.folded ? r.folded->gap.estimate : r.gap.estimate;
    return fmt::format("gap {} over {}s", value(r, gap.value), group);
  }
  if (requirement.text.starts_with("no-period")) {
    return fmt::format("{}, p {}",
                       r.period.value ? fmt::format("period {}", *r.period.value) : "none found",
                       r.period.p_value ? fmt::format("{:.2g}", *r.period.p_value) : "undefined");
  }
  return fmt::format("worst {} {} at {}", group,
                     worst.group ? std::to_string(*worst.group) : "unknown",
                     value(r, worst.estimate.value));
}

Case case_of(const record::Requirement& requirement, const record::GateGroup& g) {
  std::string body =
      fmt::format("{} {}: {} of {} right", requirement.group, g.index, g.correct, g.n - g.missing);
  if (g.missing > 0) body += fmt::format(", {} without a reply", g.missing);
  if (g.low && g.high) {
    body += fmt::format("; at least {:.1f}% if missing is wrong, at most {:.1f}% if it is right",
                        100 * *g.low, 100 * *g.high);
  }
  return {.name = fmt::format("{}, {} {}: {} of {} right, {} missing", requirement.text,
                              requirement.group, g.index, g.correct, g.n - g.missing, g.missing),
          .body = body,
          .state = state_of(g.outcome)};
}

std::vector<Case> cases_of(const JunitSuite& suite) {
  const Result& r = suite.result;
  const record::Design& d = r.design;
  std::vector<Case> cases;
  cases.push_back(
      {.name =
           fmt::format("replies: {} of {} scored, {} missing", d.scored, d.observations, d.missing),
       .body = suite.too_much_missing ? "More replies are missing than --max-missing allows."
                                      : fmt::format("{} replies are missing.", d.missing),
       .state = suite.too_much_missing ? State::kError : State::kPassed});
  if (r.requirements.empty()) {
    const bool open = r.verdict.kind == record::VerdictKind::kInconclusive ||
                      r.verdict.kind == record::VerdictKind::kNotLearned;
    cases.push_back({.name = fmt::format("verdict: {}, mean {}", name_of(r.verdict.kind),
                                         value(r, r.mean.value)),
                     .body = r.verdict.sentence,
                     .state = open ? State::kSkipped : State::kPassed});
  }
  for (const record::Requirement& requirement : r.requirements) {
    cases.push_back({.name = fmt::format("{}: {}", requirement.text, figures(r, requirement)),
                     .body = requirement.sentence,
                     .state = state_of(requirement.outcome)});
    for (const record::GateGroup& group : requirement.groups) {
      cases.push_back(case_of(requirement, group));
    }
  }
  return cases;
}

std::string case_xml(const Case& c, std::string_view suite) {
  std::string xml = fmt::format("    <testcase classname=\"{}\" name=\"{}\">\n", escape_html(suite),
                                escape_html(c.name));
  const std::string body = escape_html(c.body);
  switch (c.state) {
    case State::kPassed:
      xml += fmt::format("      <system-out>{}</system-out>\n", body);
      break;
    case State::kFailed:
      xml += fmt::format("      <failure message=\"{0}\">{0}</failure>\n", body);
      break;
    case State::kError:
      xml += fmt::format("      <error message=\"{0}\">{0}</error>\n", body);
      break;
    case State::kSkipped:
      xml += fmt::format("      <skipped message=\"{0}\">{0}</skipped>\n", body);
      break;
  }
  return xml + "    </testcase>\n";
}

struct NamedCases {
  std::string name;
  std::vector<Case> cases;
};

std::string counts(const std::vector<Case>& cases) {
  const auto count = [&](State state) { return std::ranges::count(cases, state, &Case::state); };
  return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"", cases.size(),
                     count(State::kFailed), count(State::kError), count(State::kSkipped));
}

std::string write(const std::vector<NamedCases>& suites) {
  std::vector<Case> all;
  for (const NamedCases& suite : suites) {
    all.insert(all.end(), suite.cases.begin(), suite.cases.end());
  }
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  xml += fmt::format("<testsuites name=\"kvphase\" {}>\n", counts(all));
  for (const NamedCases& suite : suites) {
    xml +=
        fmt::format("  <testsuite name=\"{}\" {}>\n", escape_html(suite.name), counts(suite.cases));
    for (const Case& c : suite.cases) xml += case_xml(c, suite.name);
    xml += "  </testsuite>\n";
  }
  return xml + "</testsuites>\n";
}

}  // namespace

std::string junit_xml(std::span<const JunitSuite> suites) {
  std::vector<NamedCases> named;
  for (const JunitSuite& suite : suites) {
    named.push_back({.name = suite.result.title, .cases = cases_of(suite)});
  }
  return write(named);
}

std::string junit_error(std::string_view suite, std::string_view message) {
  return write({{.name = std::string(suite),
                 .cases = {{.name = "the audit could not be done",
                            .body = std::string(message),
                            .state = State::kError}}}});
}

}  // namespace kvphase::report
