// Folding a few column means (one per residue or per position) by candidate periods. Internal to
// stats: counts have nothing finer, and items that all sit at the same positions can be tested
// against any rearrangement of their columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "stats/fold.h"

namespace kvphase::stats {

// Below it too few distinct orders of the columns exist to test anything.
inline constexpr std::size_t kColumnsToRearrange = 12;

// Weighted least squares of column means on groups of columns and a trend together: what the groups
// explain, then what the trend adds to them. Taking the trend out first would leave part of a
// strong pattern in every longer period.
class GroupFit {
 public:
  // group: one number below `groups` per column. trend: orthonormal directions over root-weighted
  // columns, directions * columns numbers.
  GroupFit(std::vector<double> weights, std::vector<std::size_t> group, std::size_t groups,
           std::span<const double> trend);

  double explained(std::span<const double> y) const;  // sum of squares around 0
  double terms() const;                               // its degrees of freedom

 private:
  std::vector<double> weights_;
  std::vector<std::size_t> group_;
  std::vector<double> sizes_;
  std::vector<double> trend_;  // orthonormal, orthogonal to the groups, times the root weights
};

class ColumnFolder {
 public:
  // One position (>= 0) and weight (> 0, its number of observations) per column.
  ColumnFolder(std::vector<std::int64_t> positions, std::vector<double> weights,
               std::vector<std::int64_t> candidates);

  std::size_t columns() const { return positions_.size(); }
  int degree() const { return degree_; }  // of the trend over position that is taken out
  const std::vector<std::int64_t>& candidates() const { return candidates_; }
  const std::vector<std::int64_t>& positions() const { return positions_; }
  const std::vector<double>& weights() const { return weights_; }
  std::size_t groups(std::int64_t s) const;  // phases that have a column

  // Weighted sums of squares of centred, detrended column means y.
  FoldSums fold(const std::vector<double>& y) const;

  // Adjusted p of the most periodic candidate when the columns stand in any order: the smallest
  // over candidates of P(random order explains as large a share), corrected for their number.
  double rearranged_p(std::vector<double> y, std::int64_t orders, base::Random& random) const;

  // On phases mod s and the trend; on a trend of `degree` (at most degree()).
  GroupFit phases(std::int64_t s) const { return phases(s, degree_); }
  GroupFit phases(std::int64_t s, int degree) const;
  double squares(std::span<const double> y) const;  // weighted, around 0

  // Column means y on phases mod s beside others. Sums of squares.
  struct Fit {
    double between = 0;  // explained by the phases
    double phases = 0;   // its degrees of freedom
    double within = 0;   // left: columns that differ inside a phase
    double left = 0;     // its degrees of freedom
    double one = 0;      // the most that one phase against all others explains
  };
  // Beside a constant and a trend of `degree`.
  Fit fit(const std::vector<double>& y, std::int64_t s, int degree) const;
  // Fewer than 3 cycles of s: a step between two columns, and a line, may look like a period of s.
  bool like_a_step(std::int64_t s) const;
  // Beside phases mod `from` (1, or a divisor of s), a trend of `degree` and, where s is like a
  // step, the one step that explains most beside these.
  Fit fit_beside_step(const std::vector<double>& y, std::int64_t s, std::int64_t from,
                      int degree) const;
  // The same without one column, for every column.
  std::vector<Fit> fits_without_one(const std::vector<double>& y, std::int64_t s, std::int64_t from,
                                    int degree) const;

 private:
  std::span<const double> trend(int degree) const;
  std::vector<double> trend_and_step(const std::vector<double>& y, std::int64_t s,
                                     std::int64_t from, int degree) const;
  Fit fit(const std::vector<double>& y, std::int64_t s, std::int64_t from,
          std::span<const double> trend) const;

  std::vector<std::int64_t> positions_;
  std::vector<double> root_weights_;
  std::vector<double> weights_;
  std::vector<std::int64_t> candidates_;
  int degree_ = 0;
  std::vector<double> basis_;
};

// What phases mod multiples of a period explain beyond the period and the trend.
class AddedPhases {
 public:
  AddedPhases(const ColumnFolder& columns, std::int64_t from, std::span<const std::int64_t> to);

  void gains(std::span<const double> y,
             std::vector<double>& out) const;                  // appends one per multiple
  const std::vector<double>& terms() const { return terms_; }  // degrees of freedom

 private:
  GroupFit base_;
  std::vector<GroupFit> fits_;
  std::vector<double> terms_;
};

}  // namespace kvphase::stats
