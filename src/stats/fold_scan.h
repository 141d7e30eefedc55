// What a Folder carries, of a table too large to copy into one. Internal to stats.
//
// Centring, detrending and taking the means of residue classes are linear, and the same for all
// items that start at the same position and hold the same number of consecutive observations. So
// the scores of such items are added up once, position by position, on all cores, and everything
// else works on these sums: one pass over the data, whatever is asked of it. Items with holes, or
// with starts too many to keep, are read again for each question. The plain version is
// Folder::carry_observed() and carry_expected(); a test compares them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stats/fold.h"

namespace kvphase::stats {

class FoldScan {
 public:
  // Keeps a reference to the table. `items`: informative, ascending. `carriers`: moduli, the
  // folder's (Folder::carriers()).
  FoldScan(const ScoreTable& table, std::vector<std::size_t> items,
           std::vector<std::int64_t> candidates, std::vector<std::size_t> carriers);

  std::size_t items() const { return items_; }  // informative ones

  // Carried::total is that of the scores as observed in both.
  Carried observed() const { return carry(0); }
  // Every score replaced by the mean of its item's residue class mod `classes`.
  Carried expected(std::int64_t classes) const { return carry(classes); }

  // Items with `n` observations at consecutive positions from `start` on.
  struct Run {
    std::size_t start = 0;
    std::size_t n = 0;
    double items = 0;
    std::size_t sum = 0;  // in sums_: n sums of centred scores
  };

 private:
  Carried carry(std::int64_t classes) const;

  const ScoreTable& table_;
  std::vector<std::int64_t> candidates_;
  std::vector<std::size_t> carriers_;
  std::size_t items_ = 0;
  std::size_t longest_ = 0;
  std::vector<Run> runs_;
  std::vector<double> sums_;
  std::vector<std::size_t> others_;  // items that are in no run
  double squares_ = 0;
  double total_ = 0;
};

}  // namespace kvphase::stats
