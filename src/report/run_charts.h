// The figures of compare.html: one set per padding and modulus, so that curves of one figure have
// one axis. Lines of one panel are one design's seeds; many designs are many panels.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json.h"
#include "record/run_comparison.h"
#include "report/charts.h"
#include "report/markup.h"

namespace kvphase::report {

struct Panel {
  std::string title;
  std::string detail;       // under the title, may be empty
  std::string description;  // the panel in words
  base::Json spec;
};

// A figure of several panels, or, with one panel without a title, an ordinary one.
struct RunFigure {
  std::string id;
  std::string title;
  std::string caption;
  std::vector<LegendEntry> legend;
  std::string description;
  std::vector<Panel> panels;
  Table data;
};

// Runs of one design (of one name, where it is unknown), padding and modulus.
struct RunGroup {
  std::string name;
  std::vector<std::size_t> runs;        // ours, indices into the comparison
  std::vector<std::size_t> published;   // of the same design
  std::vector<std::size_t> references;  // full attention that ours were tested against
};

// Groups that share axes: padding, modulus and kind of score.
struct RunSet {
  std::string title;  // "Prefix padding, modulo 24"
  std::string id;     // "prefix-24"
  std::int64_t modulus = 0;
  std::vector<RunGroup> groups;
};

std::vector<RunSet> run_sets(const record::RunComparison& comparison);

// Mean and worst of every design; a map of designs by residue; curves by residue; curves by phase;
// worst residue against the cost of the cache.
std::vector<RunFigure> figures_of(const record::RunComparison& comparison, const RunSet& set);

}  // namespace kvphase::report
