// The files of one audited model: result.json, residues.csv, report.html and report.txt.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "record/result.h"

namespace kvphase::report {

// Writes into `folder` (created when absent), each file atomically and result.json last, so that
// its presence means the report is complete. `control`, when given, is drawn beside the result in
// report.html. Throws an environment error when the folder cannot be written.
void write_report(const std::filesystem::path& folder, const record::Result& result,
                  const std::optional<record::Result>& control = std::nullopt);

// result.json's text: two-space indents, a final newline; bytes that are not UTF-8 are replaced.
std::string result_json(const record::Result& result);

}  // namespace kvphase::report
