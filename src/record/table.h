// Scores in columns: what every importer produces and the analysis reads. 9 bytes a row, plus 4 for
// each continuous score that the data carries, so ten million rows fit in 90 to 210 MB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "record/observation.h"
#include "record/result.h"

namespace kvphase::record {

// What a row's `correct` says.
enum class Reply : std::int8_t { kMissing = -1, kWrong = 0, kRight = 1 };

// One row per prompt. Rows are ordered by (item, position) once prepared by prepare_rows().
// Absent scores are NaN in the float columns, and only there; an empty column means that no row has
// the score.
struct ScoreRows {
  std::vector<std::int32_t> item;      // 0..items-1
  std::vector<std::int32_t> position;  // target position in tokens, or the residue itself
  std::vector<Reply> reply;            // kMissing throughout when there is no right/wrong
  std::vector<float> score;            // a continuous main score
  std::vector<float> logprob;          // nats
  std::vector<float> margin;           // nats
  std::int64_t items = 0;
  bool items_known = false;     // false: no item column, every row is its own item
  bool has_right_wrong = true;  // false: `score` (or logprob, or margin) is the main score

  std::size_t size() const { return item.size(); }
};

// Right answers per residue; nothing about single prompts.
struct CountsTable {
  std::int64_t modulus = 0;           // R
  std::vector<std::int64_t> n;        // [R] prompts scored
  std::vector<std::int64_t> correct;  // [R] of n
};

// A/A repeats: prompts sent again unchanged.
struct RepeatSummary {
  std::int64_t compared = 0;  // repeats whose original is in the data and both have a reply
  std::int64_t changed = 0;   // of these, right became wrong or wrong became right
};

// One model's results, from whatever file.
struct Dataset {
  std::string name;    // the model's, or the file's
  std::string origin;  // "counts JSON" | "kvphase journal" | ...: what the file was taken for
  std::string task;
  std::string padding;     // "prefix" | "in-sequence" | "around-target" | "" when unknown
  std::string mitigation;  // what the prompts went through (task/mitigate.h); empty: plain
  std::optional<std::int64_t> window;  // W and S, where the file tells
  std::optional<std::int64_t> stride;
  std::int64_t modulus = 0;  // R
  // Rows whose positions are known modulo this only (a multiple of R); empty: whole positions.
  std::optional<std::int64_t> residues_of;
  std::optional<CountsTable> counts;  // exactly one of counts and rows
  std::optional<ScoreRows> rows;
  RepeatSummary repeats;
  PositionCheck positions;
  std::vector<std::string> notes;  // what the importer assumed or set aside; shown to the user
};

// Sorts rows by (item, position). Rows of one prompt (same item and position) become one when at
// most one of them has a reply: a retry after a failure. Returns the index, before sorting, of the
// second reply to one prompt, if there is one: the caller names its line and refuses.
std::optional<std::size_t> prepare_rows(ScoreRows& rows);

// Mean and variance of the target position by residue.
PositionCheck check_positions(const ScoreRows& rows, std::int64_t modulus);

// Repeats (repeat > 0) are compared with their originals and kept out of the rows. Throws a usage
// error naming scope for two replies to one prompt.
Dataset dataset_from(std::span<const Observation> observations, std::int64_t modulus,
                     std::string_view scope);

// A row of an A/A repeat, to be compared with its original once the rows are prepared.
struct RepeatRow {
  std::int64_t item = 0;
  std::int32_t position = 0;
  Reply reply = Reply::kMissing;
};

// Renumbers raw item ids to 0..items-1 in their order, so that the order of lines in a file does
// not matter.
void number_items(ScoreRows& rows, std::span<const std::int64_t> raw_items,
                  std::vector<RepeatRow>& repeats);

RepeatSummary compare_repeats(const ScoreRows& rows, std::span<const RepeatRow> repeats);

}  // namespace kvphase::record
