// Score tables for the estimators out of a data set's columns. Internal to audit/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/table.h"
#include "stats/score_table.h"

namespace kvphase::audit {

enum class Column { kReply, kScore, kLogprob, kMargin };

// The column that `accuracy` fields hold: right/wrong where the data has it, else the first
// continuous score of score, margin, log-probability.
Column main_column(const record::ScoreRows& rows);
std::string_view name_of(Column column);  // "accuracy" | "score" | "logprob" | "margin"
bool has_column(const record::ScoreRows& rows, Column column);

// The scores of one column; rows without one are left out. rows must be prepared.
stats::ScoreTable score_table(const record::ScoreRows& rows, Column column);

// True when permuting inside items has something to permute: at least half of the observations
// belong to items that were seen at two or more positions.
bool is_paired(const stats::ScoreTable& table);

// True when some item has several observations in one group (position mod modulus): then they are
// not independent and a binomial interval would be too narrow.
bool repeats_in_groups(const stats::ScoreTable& table, std::int64_t modulus);

}  // namespace kvphase::audit
