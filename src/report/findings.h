// What one look into a model found, for a terminal and as one HTML file that opens offline.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "record/findings.h"
#include "report/charts.h"

namespace kvphase::report {

// Figures as Vega-Lite specifications with their words.
std::vector<Chart> charts_of(const record::Findings& findings);

std::string findings_html(const record::Findings& findings);

// The sentence, the tables and, for every heatmap, a map of numbers: shaded when color is set.
std::string findings_text(const record::Findings& findings, bool color = false);

// result.json's text: two-space indents, a final newline.
std::string findings_json(const record::Findings& findings);

// report.txt, report.html, answers.csv where there are any and, last, result.json into `folder`,
// which is created when absent. Throws an environment error when it cannot be written.
void write_findings(const std::filesystem::path& folder, const record::Findings& findings);

}  // namespace kvphase::report
