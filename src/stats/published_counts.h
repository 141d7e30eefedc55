// Test data: the right answers per residue that arXiv 2609.36322 publishes.
#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "stats/score_table.h"

namespace kvphase::stats {

struct PublishedRun {
  std::string name;
  std::string padding;
  std::int64_t stride = 0;  // 0: full attention
  ResidueCounts counts;
};

inline std::vector<PublishedRun> published_runs() {
  std::ifstream file(KVPHASE_STATS_TESTDATA "/published_counts.csv");
  if (!file) throw std::runtime_error("published_counts.csv is missing");
  std::vector<PublishedRun> runs;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    std::string field;
    const auto next = [&] {
      std::getline(fields, field, ',');
      return field;
    };
    PublishedRun run{.name = next(), .padding = next()};
    run.stride = std::stoll(next());
    const std::int64_t n = std::stoll(next());
    while (std::getline(fields, field, ',')) {
      run.counts.correct.push_back(std::stoll(field));
      run.counts.n.push_back(n);
    }
    runs.push_back(run);
  }
  return runs;
}

}  // namespace kvphase::stats
