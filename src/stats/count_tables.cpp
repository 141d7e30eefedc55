#include "stats/count_tables.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kvphase::stats {
namespace {

double log_choose(std::int64_t n, std::int64_t k) {
  return std::lgamma(static_cast<double>(n) + 1) - std::lgamma(static_cast<double>(k) + 1) -
         std::lgamma(static_cast<double>(n - k) + 1);
}

}  // namespace

double number_of_tables(const ResidueCounts& counts) {
  const auto right = static_cast<std::size_t>(total_correct(counts));
  constexpr std::size_t kMostRight = 10000;  // far more tables than anybody enumerates
  if (right > kMostRight) return HUGE_VAL;
  std::vector<double> ways(right + 1);
  ways[0] = 1;
  for (const std::int64_t n : counts.n) {
    std::vector<double> next(right + 1);
    for (std::size_t have = 0; have <= right; ++have) {
      if (ways[have] == 0) continue;
      const std::size_t most = std::min(right - have, static_cast<std::size_t>(n));
      for (std::size_t k = 0; k <= most; ++k) next[have + k] += ways[have];
    }
    ways = std::move(next);
    if (std::ranges::max(ways) > 1e12 && n > 0) return HUGE_VAL;
  }
  return ways[right];
}

void for_each_table(const ResidueCounts& counts,
                    const std::function<void(std::span<const std::int64_t>, double)>& visit) {
  const std::size_t residues = counts.n.size();
  const std::int64_t right = total_correct(counts);
  const double log_all = log_choose(total_n(counts), right);
  std::vector<std::int64_t> room(residues + 1);  // prompts at this residue and later ones
  for (std::size_t r = residues; r > 0; --r) room[r - 1] = room[r] + counts.n[r - 1];
  std::vector<std::int64_t> table(residues);
  const auto place = [&](const auto& self, std::size_t r, std::int64_t left, double log_p) -> void {
    if (r == residues) {
      visit(table, std::exp(log_p - log_all));
      return;
    }
    for (std::int64_t k = std::max<std::int64_t>(0, left - room[r + 1]);
         k <= std::min(left, counts.n[r]); ++k) {
      table[r] = k;
      self(self, r + 1, left - k, log_p + log_choose(counts.n[r], k));
    }
  };
  place(place, 0, right, 0);
}

}  // namespace kvphase::stats
