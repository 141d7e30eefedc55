// The readers behind import_results(), one per kind of file, and the rows they share. Internal to
// record/.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "record/import.h"

namespace kvphase::record {

// Largest count of a residue: sums over 100,000 of them stay exact.
inline constexpr std::int64_t kMostPrompts = 999'999'999'999;

// Scores are kept in single precision and their squares are added up; no model's score is near it.
inline constexpr double kLargestScore = 1e30;

// One value of a row as the file has it. Numbers and booleans of JSON keep their type.
struct Cell {
  enum class Kind { kEmpty, kText, kNumber, kBoolean };
  Kind kind = Kind::kEmpty;
  std::string text;  // also of numbers and booleans, as they stood in the file
  double number = 0;
};

Cell text_cell(std::string_view text);  // empty, "NA", "null", "None": an empty cell
Cell json_cell(const base::Json& value);

// The meaning of a row's values; what the file lacks is empty.
struct RawRow {
  std::size_t line = 0;  // 1-based
  Cell item, position, residue, correct, score, logprob, margin, repeat;
};

// Checks rows and turns them into a Dataset.
class RowCollector {
 public:
  // item_column: false when the file has none, so that every row is its own item.
  RowCollector(std::string file, bool item_column) : file_(std::move(file)), items_(item_column) {}

  void add(const RawRow& row);
  Dataset finish(const ImportOptions& options);

 private:
  std::string at(std::size_t line) const;
  double finite(const Cell& cell, std::size_t line, std::string_view what) const;
  std::int64_t integer(const Cell& cell, std::size_t line, std::string_view what) const;
  // Values of a column before they were rounded to 32 bits.
  struct Range {
    std::optional<double> low;
    double high = 0;
  };
  float narrow(double value, Range& range) const;
  void check_range(const Range& range, std::string_view what) const;

  std::string file_;
  bool items_;
  ScoreRows rows_;
  std::vector<std::int64_t> raw_items_;
  std::unordered_map<std::string, std::int64_t> item_ids_;
  std::vector<std::string> item_names_;
  std::vector<std::size_t> lines_;
  std::vector<std::size_t> repeat_lines_;
  std::vector<RepeatRow> repeats_;
  Range score_range_;
  Range logprob_range_;
  Range margin_range_;
  bool residues_only_ = false;
  bool any_correct_ = false;
  bool fractional_ = false;
};

// The columns of a table by their role; "" where the table has none.
struct Columns {
  std::string item, position, residue, correct, score, logprob, margin, repeat, n;
};

// Picks from `names`: what the options name (refused with the nearest name when absent), else usual
// names. Appends to notes which column was taken for what.
Columns choose_columns(std::span<const std::string> names, const ImportOptions& options,
                       const std::string& file, std::vector<std::string>& notes);

std::vector<Dataset> import_csv(std::string_view text, const std::filesystem::path& path,
                                const ImportOptions& options);
std::vector<Dataset> import_counts_json(const base::Json& json, const std::filesystem::path& path,
                                        const ImportOptions& options);
// One JSON object per line: any columns, lm-evaluation-harness samples or RULER predictions.
std::vector<Dataset> import_json_lines(const std::filesystem::path& path,
                                       const ImportOptions& options);
// Counts of a modulus R folded to a modulus that divides R.
void fold_counts(CountsTable& counts, std::int64_t modulus, const std::string& file);
// Reads the file itself, in blocks, on several threads.
Dataset import_journal(const std::filesystem::path& path, const ImportOptions& options);

}  // namespace kvphase::record
