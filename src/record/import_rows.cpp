#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/nearest.h"
#include "record/import_sources.h"

namespace kvphase::record {
namespace {

constexpr float kAbsent = std::numeric_limits<float>::quiet_NaN();

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// The last part of a dotted path: doc.position is guessed as `position` is.
std::string_view leaf(std::string_view name) { return name.substr(name.rfind('.') + 1); }

struct Role {
  std::string Columns::*column;
  std::string ImportOptions::*option;  // null: cannot be named
  const char* what;
  std::vector<std::string> usual;  // in order of preference
};

const std::vector<Role>& roles() {
  static const std::vector<Role> list = {
      {&Columns::position,
       &ImportOptions::position,
       "position",
       {"target_position", "token_position_answer", "token_position", "needle_position",
        "key_position", "position", "pos", "offset"}},
      {&Columns::residue,
       &ImportOptions::residue,
       "residue",
       {"residue", "phase", "position_mod", "pos_mod", "mod"}},
      {&Columns::item,
       &ImportOptions::item,
       "item",
       {"item", "item_id", "doc_id", "example", "example_id", "sample", "sample_id", "question_id",
        "prompt_id", "haystack", "mapping", "id", "seed"}},
      {&Columns::correct,
       &ImportOptions::correct,
       "correct",
       {"correct", "is_correct", "right", "hit", "exact_match", "acc", "accuracy", "em", "match",
        "passed", "success"}},
      {&Columns::score, &ImportOptions::score, "score", {"score", "f1", "value", "reward"}},
      {&Columns::logprob,
       &ImportOptions::logprob,
       "log-probability",
       {"logprob", "log_prob", "target_logprob", "logp", "log_likelihood", "loglikelihood", "ll"}},
      {&Columns::margin, &ImportOptions::margin, "margin", {"margin", "logprob_margin"}},
      {&Columns::repeat, &ImportOptions::repeat, "repeat", {"repeat", "repetition", "rep"}},
      {&Columns::n, nullptr, "n", {"n", "total", "count", "prompts", "trials"}},
  };
  return list;
}

Reply reply_of(const Cell& cell, bool& recognised) {
  recognised = true;
  if (cell.kind == Cell::Kind::kEmpty) return Reply::kMissing;
  const std::string text = lower(cell.text);
  if (cell.kind == Cell::Kind::kNumber) {
    if (cell.number == 1) return Reply::kRight;
    if (cell.number == 0) return Reply::kWrong;
  }
  for (const char* right : {"1", "true", "yes", "right", "correct", "1.0"}) {
    if (text == right) return Reply::kRight;
  }
  for (const char* wrong : {"0", "false", "no", "wrong", "incorrect", "0.0"}) {
    if (text == wrong) return Reply::kWrong;
  }
  recognised = false;
  return Reply::kMissing;
}

}  // namespace

Cell text_cell(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.empty() || text == "NA" || text == "null" || text == "None" || text == "none") return {};
  return {.kind = Cell::Kind::kText, .text = std::string(text)};
}

Cell json_cell(const base::Json& value) {
  if (value.is_null()) return {};
  if (value.is_boolean()) {
    return {.kind = Cell::Kind::kBoolean, .text = value.get<bool>() ? "true" : "false"};
  }
  if (value.is_number()) {
    return {.kind = Cell::Kind::kNumber, .text = value.dump(), .number = value.get<double>()};
  }
  if (value.is_string()) return text_cell(value.get_ref<const std::string&>());
  // A list with one value (RULER, lm-eval) stands for it.
  if (value.is_array() && value.size() == 1) return json_cell(value.front());
  return {.kind = Cell::Kind::kText, .text = value.dump()};
}

// "item, answer, ... and 68 more"
std::string listed(std::span<const std::string> names) {
  constexpr std::size_t kShown = 12;
  if (names.size() <= kShown) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.first(kShown), ", "), names.size() - kShown);
}

Columns choose_columns(std::span<const std::string> names, const ImportOptions& options,
                       const std::string& file, std::vector<std::string>& notes) {
  Columns columns;
  const auto known = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const Role& role : roles()) {
    if (role.option == nullptr || (options.*role.option).empty()) continue;
    const std::string& name = options.*role.option;
    if (!known(name)) {
      throw base::usage_error(
          "analyze", "{}: expected a column '{}' for the {}, got {}; did you mean '{}'?", file,
          name, role.what, listed(names), base::nearest_name(name, names));
    }
    columns.*role.column = name;
  }
  const auto taken = [&](const std::string& name) {
    return std::any_of(roles().begin(), roles().end(),
                       [&](const Role& role) { return columns.*role.column == name; });
  };
  const bool named_target = !columns.position.empty() || !columns.residue.empty();
  const bool named_outcome = !columns.correct.empty() || !columns.score.empty();
  std::vector<std::string> guesses;
  for (const Role& role : roles()) {
    if (!(columns.*role.column).empty()) continue;
    const bool target = role.column == &Columns::position || role.column == &Columns::residue;
    const bool outcome = role.column == &Columns::correct || role.column == &Columns::score;
    if ((target && named_target) || (outcome && named_outcome)) continue;
    for (const std::string& usual : role.usual) {
      const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
        return lower(leaf(name)) == usual && !taken(name);
      });
      if (found == names.end()) continue;
      columns.*role.column = *found;
      guesses.push_back(fmt::format("{} from '{}'", role.what, *found));
      break;
    }
  }
  // A right/wrong column beats a score column that was only guessed.
  if (!columns.correct.empty() && !columns.score.empty() && options.score.empty()) {
    std::erase(guesses, fmt::format("score from '{}'", columns.score));
    columns.score.clear();
  }
  if (columns.position.empty() && columns.residue.empty()) {
    throw base::usage_error("analyze",
                            "{}: expected a column with the target's position or residue, got {}; "
                            "name it with --position or --residue",
                            file, listed(names));
  }
  if (columns.correct.empty() && columns.score.empty() && columns.logprob.empty() &&
      columns.margin.empty()) {
    throw base::usage_error("analyze",
                            "{}: expected a column with right/wrong or a score, got {}; name it "
                            "with --correct, --score or --logprob",
                            file, listed(names));
  }
  if (!guesses.empty()) {
    notes.push_back(fmt::format("columns taken by their names: {}", fmt::join(guesses, ", ")));
  }
  return columns;
}

std::string RowCollector::at(std::size_t line) const { return fmt::format("{}:{}", file_, line); }

double RowCollector::finite(const Cell& cell, std::size_t line, std::string_view what) const {
  double value = cell.number;
  if (cell.kind == Cell::Kind::kText) {
    const char* end = cell.text.data() + cell.text.size();
    const auto [stop, error] = std::from_chars(cell.text.data(), end, value);
    if (error != std::errc() || stop != end) value = std::nan("");
  } else if (cell.kind == Cell::Kind::kBoolean) {
    value = cell.text == "true" ? 1 : 0;
  }
  if (!std::isfinite(value)) {
    throw base::usage_error("analyze",
                            "{}: expected a finite number as {}, got '{}'; leave the cell empty "
                            "where there is no reply",
                            at(line), what, cell.text);
  }
  if (std::abs(value) > kLargestScore) {
    throw base::usage_error("analyze",
                            "{}: expected a number of at most {:g} in size as {}, got '{}'; leave "
                            "the cell empty where there is no reply",
                            at(line), kLargestScore, what, cell.text);
  }
  return value;
}

std::int64_t RowCollector::integer(const Cell& cell, std::size_t line,
                                   std::string_view what) const {
  const double value = cell.kind == Cell::Kind::kEmpty ? -1 : finite(cell, line, what);
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max() || value != std::floor(value)) {
    throw base::usage_error("analyze", "{}: expected a whole number of 0 to 2^31-1 as {}, got '{}'",
                            at(line), what, cell.text);
  }
  return static_cast<std::int64_t>(value);
}

float RowCollector::narrow(double value, Range& range) const {
  range.high = range.low ? std::max(range.high, value) : value;
  range.low = range.low ? std::min(*range.low, value) : value;
  return static_cast<float>(value);
}

// Scores are kept in 32 bits: around a large offset, or far below 1e-38, their differences would be
// lost without a word.
void RowCollector::check_range(const Range& range, std::string_view what) const {
  constexpr double kFewestSteps = 100;
  if (!range.low || *range.low == range.high) return;
  const auto largest = static_cast<float>(std::max(std::abs(*range.low), std::abs(range.high)));
  const double step = static_cast<double>(
      std::nextafter(largest, std::numeric_limits<float>::infinity()) - largest);
  if (range.high - *range.low < kFewestSteps * step) {
    throw base::usage_error(
        "analyze",
        "{}: expected differences of {} that 32-bit numbers can hold, got {} to "
        "{}, where these are {:.2g} apart; take the common offset off, or scale "
        "them up",
        file_, what, *range.low, range.high, step);
  }
}

void RowCollector::add(const RawRow& row) {
  const bool by_residue = row.position.kind == Cell::Kind::kEmpty;
  residues_only_ = residues_only_ || by_residue;
  const std::int64_t position = by_residue ? integer(row.residue, row.line, "residue")
                                           : integer(row.position, row.line, "position");
  std::int64_t item = static_cast<std::int64_t>(raw_items_.size());
  if (items_) {
    if (row.item.kind == Cell::Kind::kEmpty) {
      throw base::usage_error("analyze", "{}: expected an item, got an empty cell", at(row.line));
    }
    const auto [entry, added] =
        item_ids_.emplace(row.item.text, static_cast<std::int64_t>(item_ids_.size()));
    if (added) item_names_.push_back(row.item.text);
    item = entry->second;
  }
  bool recognised = true;
  Reply reply = reply_of(row.correct, recognised);
  float score = kAbsent;
  if (!recognised) {  // not right or wrong: a share such as 0.5
    const double share = finite(row.correct, row.line, "correct");
    if (share < 0 || share > 1) {
      throw base::usage_error(
          "analyze",
          "{}: expected right or wrong (1/0, true/false, ...) or a share from 0 "
          "to 1 as correct, got '{}'; name a score of another scale with --score",
          at(row.line), row.correct.text);
    }
    score = narrow(share, score_range_);
    fractional_ = true;
  } else if (reply != Reply::kMissing) {
    any_correct_ = true;
    score = reply == Reply::kRight ? 1.0F : 0.0F;
  }
  if (row.score.kind != Cell::Kind::kEmpty) {
    const double value = finite(row.score, row.line, "score");
    score = narrow(value, score_range_);
    if (row.correct.kind == Cell::Kind::kEmpty) {
      if (value == 0 || value == 1) {
        reply = value == 1 ? Reply::kRight : Reply::kWrong;
        any_correct_ = true;
      } else {
        fractional_ = true;
      }
    }
  }
  if (row.repeat.kind != Cell::Kind::kEmpty && integer(row.repeat, row.line, "repeat") > 0) {
    repeats_.push_back(
        {.item = item, .position = static_cast<std::int32_t>(position), .reply = reply});
    return;
  }
  raw_items_.push_back(item);
  lines_.push_back(row.line);
  rows_.position.push_back(static_cast<std::int32_t>(position));
  rows_.reply.push_back(reply);
  rows_.score.push_back(score);
  const auto optional = [&](const Cell& cell, std::string_view what, Range& range) {
    return cell.kind == Cell::Kind::kEmpty ? kAbsent : narrow(finite(cell, row.line, what), range);
  };
  rows_.logprob.push_back(optional(row.logprob, "log-probability", logprob_range_));
  rows_.margin.push_back(optional(row.margin, "margin", margin_range_));
}

Dataset RowCollector::finish(const ImportOptions& options) {
  if (raw_items_.empty()) {
    throw base::usage_error("analyze", "{}: expected rows with results, got none", file_);
  }
  check_range(score_range_, "score");
  check_range(logprob_range_, "log-probability");
  check_range(margin_range_, "margin");
  Dataset data;
  rows_.items_known = items_;
  rows_.has_right_wrong = any_correct_ && !fractional_;
  const auto drop_if_absent = [](std::vector<float>& column) {
    if (std::all_of(column.begin(), column.end(), [](float x) { return std::isnan(x); })) {
      column = {};
    }
  };
  if (rows_.has_right_wrong) rows_.score = {};
  drop_if_absent(rows_.score);
  drop_if_absent(rows_.logprob);
  drop_if_absent(rows_.margin);
  if (!rows_.has_right_wrong) {
    std::fill(rows_.reply.begin(), rows_.reply.end(), Reply::kMissing);
    if (rows_.score.empty() && rows_.logprob.empty() && rows_.margin.empty()) {
      throw base::usage_error("analyze", "{}: expected at least one reply, got none in {} rows",
                              file_, raw_items_.size());
    }
  }
  if (items_) {
    // Items are ordered by name, numbers by value, so that the order of lines does not matter.
    std::vector<std::size_t> order(item_names_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const std::string& x = item_names_[a];
      const std::string& y = item_names_[b];
      return x.size() != y.size() ? x.size() < y.size() : x < y;
    });
    std::vector<std::int64_t> rank(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<std::int64_t>(i);
    for (std::int64_t& item : raw_items_) item = rank[static_cast<std::size_t>(item)];
    for (RepeatRow& r : repeats_) r.item = rank[static_cast<std::size_t>(r.item)];
  }
  number_items(rows_, raw_items_, repeats_);
  std::int64_t highest = 0;
  for (const std::int32_t position : rows_.position)
    highest = std::max<std::int64_t>(highest, position);
  if (residues_only_) {
    data.modulus = options.modulus.value_or(highest + 1);
    if (data.modulus <= highest && (highest + 1) % data.modulus != 0) {
      throw base::usage_error("analyze",
                              "{}: expected a modulus that divides the residues' own {}, got {}",
                              file_, highest + 1, data.modulus);
    }
    if (data.modulus < 2) {
      throw base::usage_error("analyze",
                              "{}: expected at least two residues, got only residue 0; name the R "
                              "of the residues with --modulus",
                              file_);
    }
    // Residues modulo 24 that were cut to R = 8 by --modulus are known modulo 24 all the same.
    data.residues_of = std::max(data.modulus, highest + 1);
    if (!options.modulus) {
      data.notes.push_back(fmt::format("modulus {} taken from the largest residue", data.modulus));
    }
  } else {
    data.modulus = options.modulus.value_or(kDefaultModulus);
  }
  const ScoreRows& rows = rows_;
  const std::vector<std::int32_t> items_before = rows.item;
  const std::vector<std::int32_t> positions_before = rows.position;
  if (const auto twice = prepare_rows(rows_)) {
    std::size_t first = 0;
    while (items_before[first] != items_before[*twice] ||
           positions_before[first] != positions_before[*twice]) {
      ++first;
    }
    throw base::usage_error(
        "analyze",
        "{}: expected one reply per item and {}, got a second one (first in line "
        "{}); remove it, or number repetitions in a repeat column",
        at(lines_[*twice]), residues_only_ ? "residue" : "position", lines_[first]);
  }
  if (!residues_only_) data.positions = check_positions(rows_, data.modulus);
  data.repeats = compare_repeats(rows_, repeats_);
  data.rows = std::move(rows_);
  return data;
}

}  // namespace kvphase::record
