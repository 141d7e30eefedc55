#include "train/gate_trace.h"

#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/files.h"

namespace kvphase::train {
namespace {

using base::Json;

constexpr const char* kSchema = "kvphase.gate-trace/1";
const std::vector<std::string> kBranches = {"key", "value"};

// To six decimals, so that lines stay short.
double rounded(double x) { return std::round(x * 1e6) / 1e6; }

GateTraceText read_text(const Json& json, const std::string& scope) {
  base::ObjectReader reader(json, scope);
  const std::string schema = reader.text("schema");
  if (schema != kSchema) {
    throw base::usage_error(scope, "expected schema '{}', got '{}'", kSchema, schema);
  }
  GateTraceText text{.source = reader.text("source"),
                     .sequences = reader.integer("sequences"),
                     .tokens = reader.integer("tokens"),
                     .interval = reader.integer("interval")};
  reader.finish();
  return text;
}

GateTraceRow read_row(const Json& json, const std::string& scope) {
  base::ObjectReader reader(json, scope);
  GateTraceRow row{.step = reader.integer("step"),
                   .layer = reader.integer("layer"),
                   .head = reader.integer("head"),
                   .of_values = reader.choice("branch", kBranches) == 1};
  row.measures.fixed = reader.real("static_effective_offsets");
  row.measures.per_window = reader.real("per_window_effective_offsets");
  for (const Json& mass : reader.required("profile")) {
    if (!mass.is_number()) {
      throw base::usage_error(scope, "expected numbers in 'profile', got {}", mass.dump());
    }
    row.measures.profile.push_back(mass.get<double>());
  }
  reader.finish();
  return row;
}

bool same_gate(const GateTraceRow& a, const GateTraceRow& b) {
  return a.layer == b.layer && a.head == b.head && a.of_values == b.of_values &&
         a.measures.profile.size() == b.measures.profile.size();
}

// Every step has the first one's gates, in its order, and steps rise. Returns how many gates of a
// last step there are that lacks others.
std::size_t expect_whole_steps(const std::vector<GateTraceRow>& rows, const std::string& path) {
  if (rows.empty()) return 0;  // the text is shorter than a window
  std::size_t gates = 0;
  while (gates < rows.size() && rows[gates].step == rows.front().step) ++gates;
  for (std::size_t i = gates; i < rows.size(); ++i) {
    const bool first = i % gates == 0;
    const bool good = same_gate(rows[i], rows[i - gates]) &&
                      (first ? rows[i].step > rows[i - 1].step : rows[i].step == rows[i - 1].step);
    if (good) continue;
    const auto line = i + 2;  // the text is the first one
    throw base::usage_error(fmt::format("{}:{}", path, line),
                            "expected the same gates at every step, got layer {} head {} {} at "
                            "step {}",
                            rows[i].layer, rows[i].head, kBranches[rows[i].of_values ? 1 : 0],
                            rows[i].step);
  }
  return rows.size() % gates;
}

}  // namespace

Json to_json(const GateTraceText& text) {
  return {{"source", text.source},
          {"sequences", text.sequences},
          {"tokens", text.tokens},
          {"interval", text.interval}};
}

Json to_json(const GateTraceRow& row) {
  Json profile = Json::array();
  for (const double mass : row.measures.profile) profile.push_back(rounded(mass));
  return {{"step", row.step},
          {"layer", row.layer},
          {"head", row.head},
          {"branch", kBranches[row.of_values ? 1 : 0]},
          {"static_effective_offsets", rounded(row.measures.fixed)},
          {"per_window_effective_offsets", rounded(row.measures.per_window)},
          {"profile", std::move(profile)}};
}

std::string to_line(const GateTraceText& text) {
  Json json = {{"schema", kSchema}};
  json.update(to_json(text));
  return json.dump();
}

std::string to_line(const GateTraceRow& row) { return to_json(row).dump(); }

std::optional<GateTrace> read_gate_trace(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kGateTrace;
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::string file = base::read_file(path);
  std::string_view rest = file;
  GateTrace trace;
  std::int64_t line = 0;
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const std::string scope = fmt::format("{}:{}", path.string(), ++line);
    const Json json = base::parse_json(std::string(rest.substr(0, end)), scope);
    if (line == 1) {
      trace.text = read_text(json, scope);
    } else {
      trace.rows.push_back(read_row(json, scope));
    }
    rest.remove_prefix(end + 1);
  }
  if (line == 0) {
    trace.warning = fmt::format("{} has no whole line: the training was stopped while it wrote it",
                                path.string());
    return trace;
  }
  if (!rest.empty()) {
    trace.warning =
        fmt::format("{}: an incomplete last line ({}) is left out", path.string(), line + 1);
  }
  if (const std::size_t extra = expect_whole_steps(trace.rows, path.string()); extra > 0) {
    const std::int64_t step = trace.rows.back().step;
    trace.rows.resize(trace.rows.size() - extra);
    trace.warning =
        fmt::format("{}: step {} at its end lacks gates and is left out", path.string(), step);
  }
  return trace;
}

}  // namespace kvphase::train
