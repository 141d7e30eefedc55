#include "stats/answer_groups.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <numeric>

#include "base/random.h"

namespace kvphase::stats {
namespace {

using Counts = std::vector<std::int64_t>;  // of what is left of each answer, most first

constexpr std::int64_t kMostSteps = 2'000'000;  // about half a second

std::int64_t pairs_of(std::int64_t n) { return n * (n - 1) / 2; }

double choose(std::int64_t n, std::int64_t k) {
  double ways = 1;
  for (std::int64_t i = 0; i < k; ++i) {
    ways *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return ways;
}

std::int64_t same_pairs(std::span<const std::int64_t> group) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::int64_t answer : group) ++counts[answer];
  std::int64_t same = 0;
  for (const auto& [answer, count] : counts) same += pairs_of(count);
  return same;
}

// The statistic's distribution for each number of replies that is left, as probabilities.
using Distribution = std::map<std::int64_t, double>;
using States = std::map<Counts, Distribution>;

// Deals one group of `size` out of every state. False: too many steps.
bool deal_group(const States& states, std::int64_t size, std::int64_t& steps, States& next) {
  for (const auto& [left, distribution] : states) {
    const double deals = choose(std::accumulate(left.begin(), left.end(), std::int64_t{0}), size);
    Counts rest = left;
    const std::function<bool(std::size_t, std::int64_t, std::int64_t, double)> deal =
        [&](std::size_t at, std::int64_t open, std::int64_t same, double ways) {
          if (++steps > kMostSteps) return false;
          if (open == 0) {
            Counts key = rest;  // which answer it was does not matter to the statistic
            std::ranges::sort(key, std::greater<>());
            while (!key.empty() && key.back() == 0) key.pop_back();
            Distribution& target = next[key];
            steps += std::ssize(distribution);
            for (const auto& [value, probability] : distribution) {
              target[value + same] += probability * ways / deals;
            }
            return true;
          }
          if (at == left.size()) return true;
          for (std::int64_t taken = std::min(open, left[at]); taken >= 0; --taken) {
            rest[at] = left[at] - taken;
            if (!deal(at + 1, open - taken, same + pairs_of(taken),
                      ways * choose(left[at], taken))) {
              return false;
            }
          }
          rest[at] = left[at];
          return true;
        };
    if (!deal(0, size, 0, 1)) return false;
  }
  return true;
}

// P(same pairs >= observed); empty: too many steps.
std::optional<double> exact_p(std::span<const std::vector<std::int64_t>> answers,
                              std::int64_t observed) {
  std::map<std::int64_t, std::int64_t> totals;
  for (const auto& group : answers) {
    for (const std::int64_t answer : group) ++totals[answer];
  }
  Counts counts;
  for (const auto& [answer, count] : totals) counts.push_back(count);
  std::ranges::sort(counts, std::greater<>());
  States states = {{counts, {{0, 1.0}}}};
  std::int64_t steps = 0;
  for (const auto& group : answers) {
    States next;
    if (!deal_group(states, std::ssize(group), steps, next)) return std::nullopt;
    states = std::move(next);
  }
  double p = 0;
  for (const auto& [left, distribution] : states) {
    for (const auto& [value, probability] : distribution) p += value >= observed ? probability : 0;
  }
  return std::min(1.0, p);
}

double sampled_p(std::span<const std::vector<std::int64_t>> answers, std::int64_t observed,
                 std::uint64_t seed) {
  std::vector<std::int64_t> all;
  for (const auto& group : answers) all.insert(all.end(), group.begin(), group.end());
  base::Random random(base::derive_seed(seed, "answer test"));
  std::int64_t as_extreme = 0;
  for (std::int64_t i = 0; i < kSampledDeals; ++i) {
    random.shuffle(std::span(all));
    std::int64_t same = 0;
    std::size_t at = 0;
    for (const auto& group : answers) {
      same += same_pairs(std::span(all).subspan(at, group.size()));
      at += group.size();
    }
    as_extreme += same >= observed ? 1 : 0;
  }
  return static_cast<double>(1 + as_extreme) / static_cast<double>(1 + kSampledDeals);
}

}  // namespace

AnswerTest test_answers(std::span<const std::vector<std::int64_t>> answers, std::uint64_t seed) {
  AnswerTest test;
  for (const auto& group : answers) {
    test.replies += std::ssize(group);
    test.pairs += pairs_of(std::ssize(group));
    test.same += same_pairs(group);
  }
  if (test.pairs == 0) {
    test.reason = "no group has two replies";
    return test;
  }
  test.p = exact_p(answers, test.same);
  test.method = "exact permutation test of the pairs within a group that agree";
  if (!test.p) {
    test.exact = false;
    test.p = sampled_p(answers, test.same, seed);
    test.method = "permutation test of the pairs within a group that agree, 100,000 random deals";
  }
  return test;
}

std::int64_t replies_to_decide(std::int64_t groups, double level) {
  assert(groups >= 2 && level > 0 && level < 1);
  // With two groups each has its own answer when one has.
  for (std::int64_t m = 2;; ++m) {
    if (static_cast<double>(groups) / choose(groups * m, m) <= level) return m;
  }
}

}  // namespace kvphase::stats
