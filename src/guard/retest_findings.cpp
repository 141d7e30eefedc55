#include "guard/retest_findings.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "guard/dispute.h"

namespace kvphase::guard {
namespace {

using base::Json;
using record::Figure;
using record::Findings;
using record::FindingsTable;

constexpr std::size_t kMostRows = 12;  // answers in a table or figure
constexpr std::size_t kContext = 40;   // characters beside a disputed one

// A, B, ... Z, 27, 28, ...
std::string letter(std::size_t group) {
  return group < 26 ? std::string(1, static_cast<char>('A' + group)) : std::to_string(group + 1);
}

std::string excerpt(const std::string& text) { return marked({{.text = text}}, 2 * kContext); }

// Bytes that are no UTF-8 must not break a record; they are replaced when it is written.
Json groups_json(const Agreement& a) {
  Json all = Json::array();
  for (std::size_t g = 0; g < a.groups.size(); ++g) {
    const AnswerGroup& group = a.groups[g];
    Json json = {{"name", letter(g)},
                 {"answer", group.answer},
                 {"as_given", group.as_given},
                 {"replies", group.replies},
                 {"offsets", group.offsets}};
    if (g > 0) {
      const Dispute d = dispute(a.groups[0].answer, group.answer);
      json["against_first"] = {{"first_difference", d.at},
                               {"disputed_characters", d.disputed},
                               {"first", marked(d.first, kContext)},
                               {"this", marked(d.second, kContext)}};
    }
    all.push_back(std::move(json));
  }
  return all;
}

std::optional<std::int64_t> residue_of(std::int64_t offset, std::int64_t modulus,
                                       const RetestSubject& subject) {
  if (!subject.position) return std::nullopt;
  return (*subject.position + offset) % modulus;
}

Json optional_json(const std::optional<std::int64_t>& number) {
  return number ? Json(*number) : Json();
}

Json offsets_json(const Agreement& a, const RetestSubject& subject) {
  Json all = Json::array();
  const std::int64_t k = std::ssize(a.offsets);
  for (std::int64_t o = 0; o < k; ++o) {
    const OffsetAnswers& offset = a.offsets[static_cast<std::size_t>(o)];
    Json json = {
        {"offset", o},
        {"position", subject.position ? Json(*subject.position + o) : Json()},
        {"residue", optional_json(residue_of(o, k, subject))},
        {"phase", subject.stride ? optional_json(residue_of(o, *subject.stride, subject)) : Json()},
        {"answered", offset.answered},
        {"missing", offset.missing},
        {"replies", offset.replies},
        {"answer", offset.most_frequent ? Json(letter(*offset.most_frequent)) : Json()},
        {"steady", offset.steady}};
    all.push_back(std::move(json));
  }
  return all;
}

// Of a known stride below the number of offsets: whether offsets S apart have one answer.
std::optional<bool> follows_stride(const Agreement& a, std::optional<std::int64_t> stride) {
  const std::int64_t k = std::ssize(a.offsets);
  if (!stride || *stride >= k || a.groups.size() < 2) return std::nullopt;
  for (std::int64_t o = *stride; o < k; ++o) {
    if (a.offsets[static_cast<std::size_t>(o)].most_frequent !=
        a.offsets[static_cast<std::size_t>(o - *stride)].most_frequent) {
      return false;
    }
  }
  return true;
}

FindingsTable answers_table(const Agreement& a) {
  FindingsTable table{
      .title = "Answers",
      .header = {"answer", "text, disputed characters in brackets", "replies", "offsets"},
      .rows = {},
      .note = {}};
  for (std::size_t g = 0; g < std::min(a.groups.size(), kMostRows); ++g) {
    std::string text = excerpt(a.groups[0].answer);
    if (a.groups.size() > 1) {
      const Dispute d = dispute(a.groups[0].answer, a.groups[g == 0 ? 1 : g].answer);
      text = marked(g == 0 ? d.first : d.second, kContext);
    }
    table.rows.push_back({letter(g), text, std::to_string(a.groups[g].replies),
                          fmt::format("{}", fmt::join(a.groups[g].offsets, " "))});
  }
  if (a.groups.size() > 1) table.note = "Brackets: against A; of A: against B.";
  if (a.groups.size() > kMostRows) {
    table.note +=
        fmt::format(" {} further answers are in result.json.", a.groups.size() - kMostRows);
  }
  return table;
}

FindingsTable offsets_table(const Agreement& a, const RetestSubject& subject) {
  const std::int64_t k = std::ssize(a.offsets);
  FindingsTable table{
      .title = "Offsets",
      .header = {"offset", subject.position ? "position" : "position (relative)",
                 fmt::format("mod {}", k), "replies", "missing", "answer", "repeats"},
      .rows = {},
      .note = subject.positions};
  if (subject.stride && *subject.stride != k) {
    table.header.insert(table.header.begin() + 3, fmt::format("mod {}", *subject.stride));
  }
  for (std::int64_t o = 0; o < k; ++o) {
    const OffsetAnswers& offset = a.offsets[static_cast<std::size_t>(o)];
    const std::int64_t position = subject.position.value_or(0) + o;
    const bool other = std::ranges::find(a.differ, o) != a.differ.end();
    table.rows.push_back(
        {std::to_string(o), subject.position ? std::to_string(position) : fmt::format("+{}", o),
         std::to_string(position % k), std::to_string(offset.answered),
         std::to_string(offset.missing),
         offset.answered == 0   ? "-"
         : offset.most_frequent ? letter(*offset.most_frequent) + (other ? " (differs)" : "")
                                : "tie (differs)",
         offset.answered < 2 ? "-"
         : offset.steady     ? "alike"
                             : "differ"});
    if (table.header.size() > table.rows.back().size()) {
      table.rows.back().insert(table.rows.back().begin() + 3,
                               std::to_string(position % *subject.stride));
    }
  }
  return table;
}

Figure map_of(const Agreement& a) {
  Figure figure{.kind = Figure::Kind::kHeatmap,
                .id = "answers-by-offset",
                .title = "Replies of each answer by offset",
                .caption = "A row per answer, the most frequent first.",
                .description = {},
                .x_title = "offset",
                .y_title = "replies"};
  double most = 1;
  for (std::size_t g = 0; g < std::min(a.groups.size(), kMostRows); ++g) {
    figure.rows.push_back(letter(g));
    std::vector<std::optional<double>> cells;
    for (const OffsetAnswers& offset : a.offsets) {
      const auto count = static_cast<double>(offset.replies[g]);
      cells.push_back(offset.answered > 0 ? std::optional(count) : std::nullopt);
      most = std::max(most, count);
    }
    figure.cells.push_back(std::move(cells));
  }
  for (std::size_t o = 0; o < a.offsets.size(); ++o) figure.columns.push_back(std::to_string(o));
  figure.high = most;
  figure.description =
      fmt::format("{} answers at {} offsets; the most frequent has {} of {} replies.",
                  a.groups.size(), a.offsets.size(), a.groups[0].replies, a.answered);
  return figure;
}

std::vector<std::string> notes_of(const RetestRun& run, const RetestDesign& design,
                                  const RetestSubject& subject) {
  const Agreement& a = run.agreement;
  const std::int64_t k = design.agreement.offsets;
  std::vector<std::string> notes;
  std::string strides;
  for (const std::int64_t stride : {4, 8, 16, 64, 128}) {
    if (stride <= k) continue;
    strides += fmt::format("{}{:.0f}% of stride {}", strides.empty() ? "" : ", ",
                           100 * chance_to_meet(k, stride), stride);
  }
  notes.push_back(fmt::format(
      "{} consecutive offsets meet every phase of any stride up to {} once.{} A phase that is met "
      "once and wrong with chance q at this prompt is missed with chance 1-q.",
      k, k,
      strides.empty() ? ""
                      : fmt::format(" The one weak phase is met with a chance of {}.", strides)));
  if (subject.stride && k < *subject.stride) {
    notes.push_back(fmt::format("This model's stride is {}: --offsets {} would meet every phase.",
                                *subject.stride, *subject.stride));
  }
  if (a.may_differ && a.answered > 0) {
    notes.push_back(fmt::format(
        "{} alike replies do not show that a further one must be: if all were drawn alike, up to "
        "{:.0f}% of replies could be otherwise (95%).",
        a.answered, 100 * *a.may_differ));
  }
  if (a.groups.size() > 1) {
    notes.push_back(fmt::format(
        "The test compares pairs of replies at one offset with pairs across offsets, exactly ({}). "
        "A model that is merely random is said to depend on the offset in at most {:g}% of "
        "retests.",
        a.test.p ? a.test.method : a.test.reason, 100 * design.agreement.level));
  }
  if (a.verdict == VerdictKind::kDepends) {
    notes.push_back(
        "This says that the answer follows the number of filler tokens, not why: a full-attention "
        "model can be swayed by filler too. Whether weak offsets return with a period is what "
        "kvphase audit measures.");
    if (const auto follows = follows_stride(a, subject.stride)) {
      notes.push_back(fmt::format("Offsets {} apart (the stride) {} answers.", *subject.stride,
                                  *follows ? "have the same" : "do not have the same"));
    }
  }
  if (!subject.expected.empty() && !a.groups.empty()) {
    std::string right;
    for (std::size_t g = 0; g < a.groups.size(); ++g) {
      const std::string expected = normalised(subject.expected, {});
      if (a.groups[g].answer.find(expected) == std::string::npos) continue;
      right += (right.empty() ? "" : ", ") + letter(g);
    }
    notes.push_back(right.empty() ? "No answer contains the expected one."
                                  : "The expected answer stands in " + right + ".");
  }
  if (a.cut > 0) {
    notes.push_back(
        fmt::format("{} replies were cut at the limit of tokens (--answer-tokens).", a.cut));
  }
  notes.push_back(
      "Answers are the same when they agree after white space, quotes, emphasis and one final "
      "period are put aside; not when they only mean the same. --extract compares the part that "
      "matters.");
  notes.insert(notes.end(), subject.notes.begin(), subject.notes.end());
  return notes;
}

std::string quoted(const std::string& text) {
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
  return field + "\"";
}

std::string answers_csv(const RetestRun& run, const RetestDesign& design) {
  std::string csv = "offset,repeat,missing,cut,answer,compared\n";
  for (const Reply& reply : run.replies) {
    csv += fmt::format(
        "{},{},{},{},{},{}\n", reply.offset, reply.repeat, reply.missing, reply.cut ? 1 : 0,
        quoted(reply.answer),
        reply.answered() ? quoted(normalised(reply.answer, design.agreement.normalise)) : "");
  }
  return csv;
}

}  // namespace

Findings retest_findings(const RetestRun& run, const RetestDesign& design,
                         const RetestSubject& subject, record::RunContext context) {
  const Agreement& a = run.agreement;
  Findings f{.kind = "retest",
             .title = fmt::format("{}: {} at {} offsets", context.model_name, subject.prompt_name,
                                  design.agreement.offsets),
             .sentence = sentence_of(a, design.agreement),
             .context = std::move(context),
             .options = subject.options};
  const auto follows = follows_stride(a, subject.stride);
  f.data = {{"verdict", name_of(a.verdict)},
            {"agreement", base::number_or_null(a.share)},
            {"replies", a.answered},
            {"missing", a.missing},
            {"cut", a.cut},
            {"differing_offsets", a.differ},
            {"unsteady_offsets", a.unsteady},
            {"unanswered_offsets", a.unanswered},
            {"test",
             {{"p", base::number_or_null(a.test.p)},
              {"level", design.agreement.level},
              {"pairs_within_offsets", a.test.pairs},
              {"of_these_alike", a.test.same},
              {"exact", a.test.exact},
              {"method", a.test.p ? a.test.method : a.test.reason}}},
            {"may_differ_95", base::number_or_null(a.may_differ)},
            {"stride", optional_json(subject.stride)},
            {"follows_stride", follows ? Json(*follows) : Json()},
            {"moves", describe(subject.moves)},
            {"answers", groups_json(a)},
            {"offsets", offsets_json(a, subject)}};
  if (!a.groups.empty()) {
    f.tables.push_back(answers_table(a));
    if (a.groups.size() > 1) f.figures.push_back(map_of(a));
  }
  f.tables.push_back(offsets_table(a, subject));
  f.notes = notes_of(run, design, subject);
  f.answers = answers_csv(run, design);
  return f;
}

}  // namespace kvphase::guard
