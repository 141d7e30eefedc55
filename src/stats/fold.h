// Folding the same observations by many candidate periods, thousands of times: the inner loop of
// period.h. Internal to stats.
//
// Items are centred and projected off their own polynomial trend (see trend_degree). Several
// candidates share one accumulator ("carrier") whose length is a common multiple of theirs, so that
// an item of consecutive positions is added as one vector per carrier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "stats/score_table.h"

namespace kvphase::stats {

// Degree of the trend over position that is taken out of an item with n observations: 0 to 3.
// A period's pattern loses little to it once it repeats.
int trend_degree(std::size_t n);

// Orthonormal polynomials of degree 1..degree over `offsets`, orthogonal to the weights' constant
// sqrt(weight); degree * offsets.size() numbers. Degenerate directions come out as zeros.
std::vector<double> trend_basis(std::span<const double> offsets, std::span<const double> weights,
                                int degree);

// Sums of squares of one (real, permuted or turned) data set.
struct FoldSums {
  std::vector<double> between;  // SSB_s per candidate
  double total = 0;             // centred, detrended sum of squares
  std::vector<double> phases;   // T_g of the largest candidate; only of folders told to keep them
};

// Sums over items of what FoldSums is made from, so that parts of a table can be added up.
struct Carried {
  std::vector<std::vector<double>> sum;    // per carrier (see Folder), one cycle
  std::vector<std::vector<double>> sizes;  // per candidate: observations per phase
  double squares = 0;                      // of the centred scores
  double total = 0;                        // of the centred, detrended scores
  std::size_t items = 0;                   // informative ones

  void add(const Carried& other);
};

class Folder {
 public:
  // Candidates ascending, each >= 2. Items whose scores are all equal are left out: they carry
  // nothing.
  Folder(const ScoreTable& table, std::vector<std::int64_t> candidates);

  std::size_t items() const { return rows_.size(); }  // informative ones
  std::size_t cells() const { return cells_.size(); }
  const std::vector<std::int64_t>& candidates() const { return candidates_; }
  std::size_t groups(std::size_t candidate) const;  // phases with observations
  std::vector<std::size_t> carriers() const;        // their moduli

  void keep_phases() { keep_phases_ = true; }  // fills FoldSums::phases from now on
  FoldSums observed();
  // Starts a walk of permutations inside (item, residue class mod `classes`), from the real data.
  void start_permuting(std::int64_t classes);
  FoldSums permuted(base::Random& random);  // the next step of that walk
  // Every item's positions moved by its own random multiple of `classes`: its scores stay together
  // and in order, only where its phases lie changes (mod `classes` not even that).
  FoldSums shifted(std::int64_t classes, base::Random& random);

  // The same before folding. expected: every score replaced by the mean of its item's residue
  // class mod `classes`, which is what it is on average in a walk of these permutations.
  Carried carry_observed();
  Carried carry_expected(std::int64_t classes);
  Carried carry_permuted(base::Random& random);
  Carried carry_shifted(std::int64_t classes, base::Random& random);
  FoldSums fold(const Carried& carried) const;

 private:
  struct Carrier {
    std::size_t modulus = 0;
    std::vector<double> sum;   // modulus + longest run of consecutive positions
    std::vector<double> size;  // the same, of observations; only of shifted items
  };
  struct Row {
    std::size_t first = 0;  // in cells_
    std::size_t n = 0;
    int degree = 0;
    const double* basis = nullptr;  // degree * n
    bool consecutive = false;
    std::size_t scatter = 0;         // in scatter_ (not consecutive): carriers * n indices
    std::vector<std::size_t> start;  // per carrier: first position mod its modulus
    double squares = 0;              // of the centred scores
  };

  void add(const Row& row, const double* x, double& total);
  double add_observed();  // these fill the carriers; they return the total
  double add_permuted(base::Random& random);
  double add_shifted(std::int64_t classes, base::Random& random);
  // Into one cycle: a carrier's numbers beyond its modulus.
  static void wrap(std::vector<double>& sum, std::size_t modulus);
  void wrap();
  // Observations per candidate and phase where add_shifted() has moved the items.
  std::vector<std::vector<double>> shifted_sizes() const;
  FoldSums finish(double total);
  Carried carry(double total);
  FoldSums fold(const auto& sum_of_carrier, const std::vector<std::vector<double>>& sizes,
                double total) const;
  void clear();

  std::vector<std::int64_t> candidates_;
  bool keep_phases_ = false;
  std::vector<std::size_t> carrier_of_;     // per candidate
  std::vector<std::vector<double>> sizes_;  // per candidate: observations per phase
  std::vector<Carrier> carriers_;
  std::vector<Row> rows_;
  std::vector<double> cells_;  // centred scores, item by item
  std::vector<std::int64_t> positions_;
  std::vector<std::uint32_t> scatter_;
  std::vector<std::vector<double>> bases_;
  std::vector<double> walk_;                            // cells_, permuted so far
  std::vector<double> without_trend_;                   // cells_, detrended; filled when needed
  double left_ = 0;                                     // its sum of squares
  std::vector<std::uint32_t> order_;                    // cells of each row by class (classes > 1)
  std::vector<std::vector<std::uint32_t>> class_ends_;  // per row
  std::vector<double> buffer_;
  std::vector<double> detrended_;
};

}  // namespace kvphase::stats
