#include "stats/missing.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "stats/sampling.h"

namespace kvphase::stats {
namespace {

void fold_bounds(Bounds& b, double low, double high, bool smallest) {
  // smallest: bounds of a minimum over groups; else of a maximum.
  if (!b.low) {
    b = {.low = low, .high = high};
    return;
  }
  b.low = smallest ? std::min(*b.low, low) : std::max(*b.low, low);
  b.high = smallest ? std::min(*b.high, high) : std::max(*b.high, high);
}

}  // namespace

MissingResult bound_missing(const ResidueCounts& counts, const std::vector<std::int64_t>& missing,
                            std::int64_t draws, std::uint64_t seed) {
  check_counts(counts, "missing");
  if (missing.size() != counts.n.size() || draws < 1) {
    throw base::usage_error("missing", "expected missing counts for {} groups, got {}",
                            counts.n.size(), missing.size());
  }
  MissingResult result{.missing = std::accumulate(missing.begin(), missing.end(), std::int64_t{0}),
                       .method = fmt::format("worst-case bounds; chi-squared of missing counts, "
                                             "{} random deals",
                                             draws)};
  std::vector<double> planned;
  std::vector<std::pair<double, double>> shares;
  for (std::size_t g = 0; g < missing.size(); ++g) {
    if (missing[g] < 0) {
      throw base::usage_error("missing", "expected missing >= 0, got {} in group {}", missing[g],
                              g);
    }
    const std::int64_t n = counts.n[g] + missing[g];
    result.planned += n;
    planned.push_back(static_cast<double>(n));
    if (n == 0) {
      result.groups.push_back({});
      continue;
    }
    const double low = static_cast<double>(counts.correct[g]) / static_cast<double>(n);
    const double high =
        static_cast<double>(counts.correct[g] + missing[g]) / static_cast<double>(n);
    result.groups.push_back({.low = low, .high = high});
    shares.emplace_back(low, high);
    fold_bounds(result.worst, low, high, true);
    fold_bounds(result.best, low, high, false);
  }
  if (result.planned == 0) {
    result.reason = "no prompts planned";
    return result;
  }
  const double total = static_cast<double>(result.planned);
  const double right = static_cast<double>(total_correct(counts));
  result.mean = {.low = right / total,
                 .high = (right + static_cast<double>(result.missing)) / total};
  // Smallest gap: all shares as close as their bounds allow. Largest: two different groups pulled
  // apart.
  double largest = 0;
  for (std::size_t a = 0; a < shares.size(); ++a) {
    for (std::size_t b = 0; b < shares.size(); ++b) {
      if (a != b) largest = std::max(largest, shares[a].second - shares[b].first);
    }
  }
  result.gap = {.low = std::max(0.0, *result.best.low - *result.worst.high), .high = largest};

  if (result.missing == 0 || result.missing == result.planned) {
    result.reason = result.missing == 0 ? "nothing is missing" : "everything is missing";
    return result;
  }
  const auto spread = [&](const std::vector<std::int64_t>& lost) {
    double sum = 0;
    const double share = static_cast<double>(result.missing) / total;
    for (std::size_t g = 0; g < lost.size(); ++g) {
      if (planned[g] == 0) continue;
      const double d = static_cast<double>(lost[g]) - share * planned[g];
      sum += d * d / planned[g];
    }
    return sum;
  };
  const double observed = spread(missing);
  base::Random random(base::derive_seed(seed, "stats.missing"));
  std::int64_t as_large = 0;
  std::vector<std::int64_t> dealt(missing.size());
  for (std::int64_t b = 0; b < draws; ++b) {
    std::int64_t left = result.planned;
    std::int64_t lost = result.missing;
    for (std::size_t g = 0; g < missing.size(); ++g) {
      const std::int64_t n = counts.n[g] + missing[g];
      dealt[g] = draw_hypergeometric(left, lost, n, random);
      left -= n;
      lost -= dealt[g];
    }
    as_large += spread(dealt) >= observed * (1 - 1e-9) ? 1 : 0;
  }
  result.p_depends_on_group =
      (1 + static_cast<double>(as_large)) / (1 + static_cast<double>(draws));
  return result;
}

}  // namespace kvphase::stats
