// Whether answers in words depend on the group that they were given in (the offset of a prompt), or
// whether the groups' labels could be swapped: an exact permutation test. It asks for no right
// answer, no order and no normal curve, so it serves a handful of replies.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvphase::stats {

struct AnswerTest {
  std::int64_t replies = 0;
  std::int64_t same = 0;   // pairs of replies within a group with the same answer
  std::int64_t pairs = 0;  // all pairs within a group
  // Chance of as many or more such pairs when every way to deal the same replies to the groups is
  // equally likely. 1 when all answers are the same. Empty: no group has two replies.
  std::optional<double> p;
  std::string reason;  // why p is empty
  bool exact = true;   // false: from kSampledDeals random deals, (1 + as extreme) / (1 + deals)
  std::string method;  // in words
};

inline constexpr std::int64_t kSampledDeals = 100'000;

// answers[group][reply] is the number of an answer, equal numbers equal answers; groups may differ
// in size and be empty. The statistic is the number of pairs within a group that agree: a model
// that is merely random agrees no more within groups than between them, one whose answer follows
// the group does. Exact by dealing group after group (multivariate hypergeometric) over what is
// left of each answer; where that is too much, by seeded random deals.
AnswerTest test_answers(std::span<const std::vector<std::int64_t>> answers, std::uint64_t seed = 1);

// Fewest replies per group at which one group of `groups` with an answer of its own, each reply the
// same, has p <= level: the hardest case that must be decidable. Its p is groups / C(groups * m, m)
// (2 / C(2m, m) for two groups). groups >= 2, 0 < level < 1.
std::int64_t replies_to_decide(std::int64_t groups, double level);

}  // namespace kvphase::stats
