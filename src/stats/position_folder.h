// Folding millions of prompts without items, which are all exchangeable: one item, so large that
// permuting it would take minutes. Internal to stats.
//
// The statistics need only the sum of the scores at each position. Under permutation inside residue
// classes, the sums in a class of N prompts with mean m and sum of squares Q around it have means
// n_k m and covariances Q/(N-1) (n_k [k = l] - n_k n_l / N), exactly (sampling without
// replacement); the phase sums built from them add up thousands of scores each and are as good as
// normal. So a permutation is one normal draw per distinct position with these moments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "stats/fold.h"

namespace kvphase::stats {

// Sums of an item's scores around its mean, position by position.
struct PositionSums {
  std::vector<std::int64_t> position;  // distinct, ascending
  std::vector<double> n;               // observations at it
  std::vector<double> sum;             // of scores minus the mean of all
  std::vector<double> squares;         // of the same
};
PositionSums position_sums(const ScoreTable& table, std::size_t item);

class PositionFolder {
 public:
  // `carriers`: moduli of which every candidate divides one (Folder::carriers()).
  PositionFolder(PositionSums sums, std::vector<std::int64_t> candidates,
                 std::vector<std::size_t> carriers);

  std::size_t positions() const { return sums_.position.size(); }
  std::size_t groups(std::size_t candidate) const;  // phases with observations

  void keep_phases() { keep_phases_ = true; }  // as in Folder
  FoldSums observed() const;
  // `count` draws of permutations inside residue classes mod `classes`.
  std::vector<FoldSums> permuted(std::int64_t classes, std::int64_t count,
                                 std::uint64_t seed) const;

 private:
  FoldSums fold(std::vector<double> sum) const;

  PositionSums sums_;
  std::vector<std::int64_t> candidates_;
  std::vector<std::size_t> carriers_;
  std::vector<std::uint32_t> cycle_;  // carriers * positions: position mod the carrier's modulus
  std::vector<double> root_n_;
  // Trends over positions, degree * positions: what a trend takes from the sums, and what it gives
  // back, weighted by the observations at a position.
  std::vector<double> takes_;
  std::vector<double> gives_;
  int degree_ = 0;
  bool keep_phases_ = false;
  double squares_ = 0;
  std::vector<std::vector<double>> sizes_;  // per candidate
};

}  // namespace kvphase::stats
