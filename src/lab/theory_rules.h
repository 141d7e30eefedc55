// Theorem 1 as a search: is any coefficient rule better than the best one-hot assignment?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "lab/theory_model.h"

namespace kvphase::lab {

// The one-hot assignment of lowest loss, and of highest: by symmetry only how many heads share a
// position matters, so all partitions of m into at most S-1 parts are tried.
struct OneHotRange {
  std::vector<std::int64_t> best;
  double best_loss = 0;
  double worst_loss = 0;
};
OneHotRange one_hot_range(const TheorySetting& setting);

// Coefficients drawn from Dirichlet distributions: every row by itself, [copies][2][m][S].
// concentration 1 is uniform on the simplex, below 1 near its corners, above 1 near its middle.
Coefficients random_rule(const TheorySetting& setting, std::int64_t copies, double concentration,
                         base::Random& random);

// Euclidean projection of every row of S numbers onto the simplex (Held, Wolfe and Crowder 1974).
void project_rows(std::span<double> rows, std::int64_t stride);

// Local minimum of static_loss (one copy) or chunkwise_loss (L copies) from `start`: projected
// gradient steps, each halved until the loss falls (Armijo), until none moves. Unlike softmax gates
// it reaches corners.
struct LocalMinimum {
  Coefficients rule;
  double loss = 0;
  std::int64_t steps = 0;
};
LocalMinimum descend_on_simplices(const TheorySetting& setting, Coefficients start,
                                  std::int64_t most_steps = 4000);

// Whether every head is one-hot with its value one after its key, in every copy.
bool is_one_hot(const TheorySetting& setting, std::span<const double> rule, double tolerance);

struct RuleSearch {
  TheorySetting setting;
  std::int64_t random = 0;     // rules tried; half the same in every chunk, half chunk by chunk
  std::int64_t optimised = 0;  // local minima, likewise
  double best_one_hot = 0;     // loss, nats
  double lowest_random = 0;    // loss minus best_one_hot
  double lowest_optimised = 0;
  std::int64_t below = 0;    // of all: lower than best_one_hot by more than rounding, 1e-10
  std::int64_t at_best = 0;  // optimised within 1e-9 of best_one_hot
  std::int64_t optimised_one_hot = 0;
};

struct RuleSearchOptions {
  std::int64_t random = 200;   // rounded up to even
  std::int64_t optimised = 4;  // local minima, rounded up to even
  bool chunkwise = true;       // false: only rules that are the same in every chunk, much faster
  std::uint64_t seed = 1;
};
RuleSearch search_rules(const TheorySetting& setting, const RuleSearchOptions& options);

// By how much, to first order, the best one-hot assignment loses most cheaply by moving any mass:
// the least derivative of the loss along an edge of a simplex, in nats per unit of mass. Negative:
// one-hot is not even a local minimum.
double one_hot_slack(const TheorySetting& setting);

// The beta at which that slack becomes zero, all else as in the setting; empty when it is positive
// up to 100.
std::optional<double> largest_beta(TheorySetting setting);

}  // namespace kvphase::lab
