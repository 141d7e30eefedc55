// Audited models side by side for a terminal and for spreadsheets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "record/run_comparison.h"

namespace kvphase::report {

// The sentence, a line per run, a line per pair, the notes.
std::string run_comparison_text(const record::RunComparison& comparison);

// table.csv: a row per run; pairs.csv: a row per paired test. Shares are fractions 0..1; an
// undefined number is an empty field.
std::string runs_csv(const record::RunComparison& comparison);
std::string pairs_csv(const record::RunComparison& comparison);

// What the tables of the terminal and of the page say in common.
std::string padding_text(const record::ComparedRun& run);    // "prefix", "none stated"
std::string found_text(const record::ComparedRun& run);      // "8", "4 (stride 8)", "no period"
std::string number_text(std::optional<double> share);        // 0.506 -> "50.6"; empty -> "-"
std::string amount_text(std::optional<std::int64_t> count);  // 78000 -> "78K"; empty -> "-"
std::string bytes_text(const record::ComparedRun& run);      // "264"; empty -> "-"
std::string duration_text(std::optional<double> seconds);    // "7 s"; empty -> "-"
// Whether any pair's prompts differ in length, as with mitigations.
bool tokens_differ(const record::RunComparison& comparison);
std::string token_difference_text(const record::PairedRuns& pair);  // "+24.0"; unknown -> "-"
// "-45.3 [-52.5 to -37.7]"; points.
std::string tested_text(const record::TestedDifference& difference);

}  // namespace kvphase::report
