#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include "base/error.h"
#include "record/flat_json.h"
#include "record/import_sources.h"

namespace kvphase::record {
namespace {

using base::Json;

// Whole lines of a file with their numbers; the byte order mark and CR are taken off, blank lines
// skipped.
class JsonLines {
 public:
  explicit JsonLines(const std::filesystem::path& path)
      : file_(path.string()), stream_(path, std::ios::binary) {
    if (!stream_) {
      throw base::usage_error("analyze", "expected a readable file, got {}: {}", file_,
                              std::strerror(errno));
    }
  }

  bool next_line() {
    while (std::getline(stream_, line_)) {
      ++number_;
      if (number_ == 1 && line_.starts_with("\xEF\xBB\xBF")) line_.erase(0, 3);
      while (!line_.empty() && (line_.back() == '\r' || line_.back() == ' ')) line_.pop_back();
      if (!line_.empty()) return true;
    }
    return false;
  }
  const std::string& line() const { return line_; }
  // The line as an object.
  Json row() const {
    Json row = Json::parse(line_, nullptr, false);
    if (!row.is_object()) {
      const bool not_finite =
          line_.find("NaN") != std::string::npos || line_.find("Infinity") != std::string::npos;
      throw base::usage_error("analyze", "{}: expected a JSON object, got {}", at(),
                              not_finite ? "NaN or Infinity, which JSON does not have; write null"
                              : too_large() ? "a number beyond 64-bit floating point; write null"
                                            : "'" + line_.substr(0, 40) + "'");
    }
    return row;
  }
  bool next(Json& row) {
    if (!next_line()) return false;
    row = this->row();
    return true;
  }
  std::string at() const { return fmt::format("{}:{}", file_, number_); }
  std::size_t number() const { return number_; }
  const std::string& file() const { return file_; }

 private:
  bool too_large() const {
    try {
      return Json::parse(line_).is_discarded();
    } catch (const Json::out_of_range&) {
      return true;
    } catch (const Json::exception&) {
    }
    return false;
  }

  std::string file_;
  std::ifstream stream_;
  std::string line_;
  std::size_t number_ = 0;
};

// The value at a dotted path; a key that itself holds dots is found too. Null when absent.
const Json* find_path(const Json& row, std::string_view path) {
  if (!row.is_object()) return nullptr;
  if (const auto whole = row.find(std::string(path)); whole != row.end()) return &*whole;
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos;
       dot = path.find('.', dot + 1)) {
    const auto inner = row.find(std::string(path.substr(0, dot)));
    if (inner == row.end()) continue;
    if (const Json* found = find_path(*inner, path.substr(dot + 1))) return found;
  }
  return nullptr;
}

void collect_paths(const Json& row, const std::string& prefix, int depth,
                   std::vector<std::string>& out) {
  for (const auto& entry : row.items()) {
    const std::string path = prefix + entry.key();
    if (entry.value().is_object() && depth < 3) {
      collect_paths(entry.value(), path + ".", depth + 1, out);
    } else {
      out.push_back(path);
    }
  }
}

Cell cell_at(const Json& row, const std::string& path) {
  if (path.empty()) return {};
  const Json* value = find_path(row, path);
  return value == nullptr ? Cell{} : json_cell(*value);
}

RawRow row_from(const Json& row, const Columns& columns, std::size_t line) {
  return {.line = line,
          .item = cell_at(row, columns.item),
          .position = cell_at(row, columns.position),
          .residue = cell_at(row, columns.residue),
          .correct = cell_at(row, columns.correct),
          .score = cell_at(row, columns.score),
          .logprob = cell_at(row, columns.logprob),
          .margin = cell_at(row, columns.margin),
          .repeat = cell_at(row, columns.repeat)};
}

// The row of a line of plain values; false when it is for the parser. A column that may be a path
// into nested objects always is; so is an item that the parser would write otherwise.
bool read_plain_row(std::string_view line, const Columns& columns, RawRow& row) {
  const std::pair<const std::string*, Cell*> roles[] = {
      {&columns.item, &row.item},       {&columns.position, &row.position},
      {&columns.residue, &row.residue}, {&columns.correct, &row.correct},
      {&columns.score, &row.score},     {&columns.logprob, &row.logprob},
      {&columns.margin, &row.margin},   {&columns.repeat, &row.repeat}};
  for (const auto& [name, cell] : roles) {
    if (name->find('.') != std::string::npos) return false;
  }
  FlatJson flat(line);
  FlatJson::Step step = flat.next();
  for (; step == FlatJson::Step::kValue; step = flat.next()) {
    for (const auto& [name, cell] : roles) {
      if (*name != flat.key() || name->empty()) continue;
      *cell = flat.cell();
      if (cell == &row.item && cell->kind == Cell::Kind::kNumber && !flat.integer()) return false;
    }
  }
  return step == FlatJson::Step::kEnd;
}

Cell number_cell(double value) {
  return {.kind = Cell::Kind::kNumber, .text = fmt::format("{}", value), .number = value};
}

Dataset import_plain(JsonLines& lines, Json row, const ImportOptions& options) {
  std::vector<std::string> names;
  collect_paths(row, "", 0, names);
  std::vector<std::string> notes;
  const Columns columns = choose_columns(names, options, lines.file(), notes);
  RowCollector collector(lines.file(), !columns.item.empty());
  collector.add(row_from(row, columns, lines.number()));
  while (lines.next_line()) {
    RawRow plain{.line = lines.number()};
    collector.add(read_plain_row(lines.line(), columns, plain)
                      ? plain
                      : row_from(lines.row(), columns, lines.number()));
  }
  Dataset data = collector.finish(options);
  data.origin = "item-level JSON lines";
  data.notes.insert(data.notes.begin(), notes.begin(), notes.end());
  return data;
}

// --- lm-evaluation-harness ---

const std::vector<std::string> kHarnessKeys = {
    "doc_id",   "doc",         "target",      "arguments", "resps",   "filtered_resps",
    "doc_hash", "prompt_hash", "target_hash", "filter",    "metrics", "token_counts"};

std::string choose_metric(const Json& row) {
  std::vector<std::string> metrics;
  if (row.contains("metrics") && row.at("metrics").is_array()) {
    for (const Json& name : row.at("metrics")) {
      if (name.is_string()) metrics.push_back(name.get<std::string>());
    }
  } else {
    for (const auto& entry : row.items()) {
      const bool ours =
          std::find(kHarnessKeys.begin(), kHarnessKeys.end(), entry.key()) != kHarnessKeys.end();
      if (!ours && (entry.value().is_number() || entry.value().is_boolean())) {
        metrics.push_back(entry.key());
      }
    }
  }
  // RULER tasks of the harness name the metric after the prompt length; -1 means another length.
  if (const Json* length = find_path(row, "doc.max_length")) {
    const std::string name = length->dump();
    if (row.contains(name)) return name;
  }
  for (const char* usual : {"acc", "exact_match", "em", "contains"}) {
    if (std::find(metrics.begin(), metrics.end(), usual) != metrics.end()) return usual;
  }
  return metrics.empty() ? "" : metrics.front();
}

std::optional<double> number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  try {
    std::size_t used = 0;
    const std::string& text = value.get_ref<const std::string&>();
    const double number = std::stod(text, &used);
    if (used == text.size()) return number;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

// Multiple choice: filtered_resps holds [log-likelihood, is_greedy] per choice, target the right
// one's index. The log-likelihood is a sum over the choice's tokens, so it is comparable between
// positions of one item, which is all that the analysis needs.
void read_likelihoods(const Json& row, RawRow& out) {
  const auto resps = row.find("filtered_resps");
  if (resps == row.end() || !resps->is_array() || resps->empty()) return;
  std::vector<double> values;
  for (const Json& pair : *resps) {
    if (!pair.is_array() || pair.size() != 2) return;
    const auto value = number_of(pair.at(0));
    if (!value || !std::isfinite(*value)) return;
    values.push_back(*value);
  }
  std::size_t right = 0;
  if (values.size() > 1) {
    const auto target = row.contains("target") ? number_of(row.at("target")) : std::nullopt;
    if (!target || *target < 0 || *target >= static_cast<double>(values.size())) return;
    right = static_cast<std::size_t>(*target);
    double best_wrong = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i != right) best_wrong = std::max(best_wrong, values[i]);
    }
    out.margin = number_cell(values[right] - best_wrong);
  }
  out.logprob = number_cell(values[right]);
}

Dataset import_harness(JsonLines& lines, Json row, const ImportOptions& options) {
  ImportOptions named = options;
  if (named.item.empty()) named.item = "doc_id";
  const std::string metric = choose_metric(row);
  const bool by_length = find_path(row, "doc.max_length") != nullptr && options.correct.empty() &&
                         options.score.empty() && row.contains(metric) &&
                         metric == find_path(row, "doc.max_length")->dump();
  if (named.correct.empty() && named.score.empty()) named.correct = metric;
  std::vector<std::string> names;
  for (const auto& entry : row.items()) {
    const std::string& key = entry.key();
    if (key == "arguments" || key == "resps" || key == "filtered_resps") continue;
    if (entry.value().is_object()) {
      collect_paths(entry.value(), key + ".", 1, names);
    } else {
      names.push_back(key);
    }
  }
  std::vector<std::string> notes;
  const Columns columns = choose_columns(names, named, lines.file(), notes);
  RowCollector collector(lines.file(), true);
  const std::string filter = row.contains("filter") ? row.at("filter").dump() : "";
  std::size_t other_filters = 0;
  do {
    if (row.contains("filter") && row.at("filter").dump() != filter) {
      ++other_filters;
      continue;
    }
    RawRow out = row_from(row, columns, lines.number());
    if (by_length) {
      const Json* length = find_path(row, "doc.max_length");
      out.correct = cell_at(row, length == nullptr ? "" : length->dump());
    }
    read_likelihoods(row, out);
    collector.add(out);
  } while (lines.next(row));
  Dataset data = collector.finish(named);
  data.origin = "lm-evaluation-harness samples";
  data.notes.insert(data.notes.begin(), notes.begin(), notes.end());
  data.notes.push_back(fmt::format("scored by the harness metric '{}'",
                                   columns.correct.empty() ? columns.score : columns.correct));
  if (other_filters > 0) {
    data.notes.push_back(
        fmt::format("only the filter {} was read; {} lines of other filters were "
                    "left out",
                    filter, other_filters));
  }
  return data;
}

// --- RULER ---

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// RULER's string match: the share of right answers that the prediction contains, ignoring case.
Cell ruler_score(const Json& row, const std::string& at) {
  const Json& pred = row.at("pred");
  if (pred.is_null()) return {};
  if (!pred.is_string()) {
    throw base::usage_error("analyze", "{}: expected 'pred' to be a text, got {}", at,
                            pred.type_name());
  }
  const Json& outputs = row.at("outputs");
  const Json list = outputs.is_array() ? outputs : Json::array({outputs});
  if (list.empty()) throw base::usage_error("analyze", "{}: expected an answer in 'outputs'", at);
  const std::string reply = lower(pred.get<std::string>());
  std::size_t found = 0;
  for (const Json& answer : list) {
    const std::string text = answer.is_string() ? answer.get<std::string>() : answer.dump();
    if (reply.find(lower(text)) != std::string::npos) ++found;
  }
  return number_cell(static_cast<double>(found) / static_cast<double>(list.size()));
}

constexpr const char* kRulerPosition = "token_position_answer";

// Prompt text -> position of its answer. The predictions repeat the prompt but not the position,
// and RULER's `index` is not unique in every version, so the prompt is the key.
std::map<std::string, Cell> read_positions(const std::filesystem::path& path) {
  std::map<std::string, Cell> positions;
  JsonLines lines(path);
  for (Json row; lines.next(row);) {
    const Cell cell = cell_at(row, kRulerPosition);
    if (cell.kind == Cell::Kind::kEmpty || !row.contains("input")) {
      throw base::usage_error("analyze", "{}: expected 'input' and '{}', got a line without",
                              lines.at(), kRulerPosition);
    }
    positions[row.at("input").dump()] = cell;
  }
  return positions;
}

Dataset import_ruler(JsonLines& lines, Json row, const ImportOptions& options) {
  std::map<std::string, Cell> positions;
  if (!options.positions_file.empty()) positions = read_positions(options.positions_file);
  RowCollector collector(lines.file(), !options.item.empty());
  do {
    RawRow out{.line = lines.number()};
    for (const char* key : {"pred", "outputs"}) {
      if (!row.contains(key)) {
        throw base::usage_error("analyze", "{}: expected the key '{}', got none", lines.at(), key);
      }
    }
    out.item = cell_at(row, options.item);
    out.position = cell_at(row, options.position.empty() ? kRulerPosition : options.position);
    if (out.position.kind == Cell::Kind::kEmpty) {
      out.position = cell_at(row, fmt::format("others.{}", kRulerPosition));
    }
    if (out.position.kind == Cell::Kind::kEmpty && row.contains("input")) {
      const auto found = positions.find(row.at("input").dump());
      if (found != positions.end()) out.position = found->second;
    }
    if (out.position.kind == Cell::Kind::kEmpty) {
      throw base::usage_error(
          "analyze", "{}: expected '{}', got none; give the data set's file with --positions",
          lines.at(), kRulerPosition);
    }
    out.correct = ruler_score(row, lines.at());
    collector.add(out);
  } while (lines.next(row));
  Dataset data = collector.finish(options);
  data.origin = "RULER predictions";
  data.notes.push_back(
      "scored as RULER does: the share of answers that the prediction contains, ignoring case");
  data.notes.push_back(
      "token_position_answer is the first token of the answer's value, not of its key, and counts "
      "tokens of the prompt's text without a chat template: which phase is weak depends on that, "
      "the period does not");
  return data;
}

}  // namespace

std::vector<Dataset> import_json_lines(const std::filesystem::path& path,
                                       const ImportOptions& options) {
  JsonLines lines(path);
  Json first;
  if (!lines.next(first)) {
    throw base::usage_error("analyze", "{}: expected JSON lines, got an empty file", path.string());
  }
  const auto has = [&](const char* key) { return first.contains(key); };
  if (has("doc_id") && (has("arguments") || has("resps") || has("filtered_resps"))) {
    return {import_harness(lines, std::move(first), options)};
  }
  if (has("pred") && has("outputs")) return {import_ruler(lines, std::move(first), options)};
  return {import_plain(lines, std::move(first), options)};
}

}  // namespace kvphase::record
