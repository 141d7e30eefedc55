#include "audit/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/random.h"

namespace kvphase::audit {
namespace {

using record::Comparison;
using record::DifferenceKind;
using record::Observation;
using ::testing::HasSubstr;

constexpr std::int64_t kResidues = 8;

// A model that is right with a chance that depends on residue and length. `luck` gives the same
// draws to servers of the same weights; `noise` is the share of answers drawn anew.
struct Server {
  std::function<double(std::int64_t residue, std::int64_t length)> chance;
  std::uint64_t noise_seed = 0;
  double noise = 0.02;
};

double by_phase(std::int64_t residue) { return residue % 4 == 3 ? 0.3 : 0.9; }

std::vector<Observation> ask(const Server& server, std::int64_t items, std::uint64_t seed,
                             const std::vector<std::int64_t>& lengths = {100}) {
  std::vector<Observation> all;
  for (std::int64_t item = 0; item < items; ++item) {
    const std::int64_t length = lengths[static_cast<std::size_t>(item) % lengths.size()];
    base::Random hardness(base::derive_seed(seed, "item", {static_cast<std::uint64_t>(item)}));
    const double threshold = hardness.uniform();
    for (std::int64_t r = 0; r < kResidues; ++r) {
      base::Random own(base::derive_seed(
          server.noise_seed, "noise",
          {seed, static_cast<std::uint64_t>(item), static_cast<std::uint64_t>(r)}));
      const double draw = own.uniform() < server.noise ? own.uniform() : threshold;
      const bool right = draw < server.chance(r, length);
      all.push_back({.item = item,
                     .residue = r,
                     .length = length,
                     .answer = right ? "yes" : "no",
                     .correct = right});
    }
  }
  return all;
}

Comparison compare_servers(const Server& a, Server b, std::uint64_t seed = 1,
                           const std::vector<std::int64_t>& lengths = {100}) {
  b.noise_seed = 2;
  Server again = a;
  again.noise_seed = 3;
  return compare(ask(a, 60, seed, lengths), ask(b, 60, seed, lengths),
                 ask(again, 60, seed, lengths),
                 {.modulus = kResidues, .permutations = 500, .seed = seed});
}

const Server kWeak{.chance = [](std::int64_t r, std::int64_t) { return by_phase(r); }};

TEST(Comparison, SameServersShowNoDifferenceInNineteenOfTwentyRuns) {
  int different = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    different += compare_servers(kWeak, kWeak, seed).kind != DifferenceKind::kNone ? 1 : 0;
  }
  // Two tests at 5% each, alike in part.
  EXPECT_LE(different, 9) << "of 60";
}

TEST(Comparison, HiddenTokensAreSeenAsARotationModuloThePeriod) {
  const Server shifted{.chance = [](std::int64_t r, std::int64_t) { return by_phase(r + 1); }};
  const Comparison c = compare_servers(kWeak, shifted);
  ASSERT_EQ(c.kind, DifferenceKind::kRotation) << c.sentence;
  EXPECT_EQ(c.rotation->shift, 1);
  EXPECT_EQ(c.rotation->every, 4);
  EXPECT_THAT(c.sentence, HasSubstr("1 tokens later (modulo 4)"));
}

TEST(Comparison, ADifferenceAtSomePhasesIsAPeriodAndNoRotation) {
  const Server flat{.chance = [](std::int64_t, std::int64_t) { return 0.9; }};
  const Comparison c = compare_servers(flat, kWeak);
  ASSERT_EQ(c.kind, DifferenceKind::kPeriod) << c.sentence;
  EXPECT_EQ(c.period, 4);
  EXPECT_GT(c.residues[3].flips, 3 * c.residues[2].flips);
}

TEST(Comparison, ADifferenceFromALengthOnIsAThreshold) {
  const Server fails_late{.chance = [](std::int64_t r, std::int64_t length) {
    return length >= 400 ? 0.2 : by_phase(r);
  }};
  const Comparison c = compare_servers(kWeak, fails_late, 1, {100, 200, 400, 800});
  ASSERT_EQ(c.kind, DifferenceKind::kThreshold) << c.sentence;
  EXPECT_EQ(c.threshold, 400);
  ASSERT_EQ(c.lengths.size(), 4U);
  EXPECT_LT(c.lengths[1].flips * 3, c.lengths[2].flips);
}

TEST(Comparison, AWeakerModelIsWeakerEverywhere) {
  const Server strong{.chance = [](std::int64_t, std::int64_t) { return 0.9; }};
  const Server weak{.chance = [](std::int64_t, std::int64_t) { return 0.5; }};
  const Comparison c = compare_servers(strong, weak);
  EXPECT_EQ(c.kind, DifferenceKind::kEverywhere) << c.sentence;
}

TEST(Comparison, MissingRepliesAreCountedAndNeverCompared) {
  auto a = ask(kWeak, 20, 1);
  auto b = a;
  for (Observation& o : b) {
    if (o.residue == 2) {
      o.correct.reset();
      o.answer.clear();
    }
  }
  const Comparison c = compare(a, b, {}, {.modulus = kResidues, .permutations = 100});
  EXPECT_EQ(c.kind, DifferenceKind::kInconclusive) << "no item has all residues";
  EXPECT_EQ(c.missing_b, 20);
  EXPECT_EQ(c.all.n, 140);
  EXPECT_EQ(c.all.flips, 0);
  EXPECT_EQ(c.residues[2].n, 0);
  EXPECT_FALSE(c.p_correct);
}

TEST(Comparison, NothingToCompareIsInconclusive) {
  const Comparison c = compare({}, {}, {}, {.modulus = 4});
  EXPECT_EQ(c.kind, DifferenceKind::kInconclusive);
  EXPECT_FALSE(c.noise);
  EXPECT_THAT(record::to_json(c).dump(), HasSubstr("\"p_correct\":null"));
}

TEST(TotalVariation, IsTheLeastThatTheListsProve) {
  const auto logs = [](std::vector<std::pair<std::string, double>> p) {
    std::vector<record::AnswerProbability> list;
    for (const auto& [token, x] : p) list.push_back({token, std::log(x)});
    return list;
  };
  EXPECT_NEAR(*total_variation(logs({{"a", .7}, {"b", .3}}), logs({{"a", .4}, {"b", .6}})), .3,
              1e-12);
  EXPECT_NEAR(*total_variation(logs({{"a", .7}, {"b", .2}}), logs({{"a", .7}, {"c", .2}})), .1,
              1e-12)
      << "b has at most 0.1 on the other side";
  EXPECT_NEAR(*total_variation(logs({{"a", .9}}), logs({{"b", .8}})), .7, 1e-12);
  EXPECT_NEAR(*total_variation(logs({{"a", .9}}), logs({{"a", .5}, {"b", .4}})), .4, 1e-12);
  EXPECT_NEAR(*total_variation(logs({{" a", .9}}), logs({{"a", .9}})), 0, 1e-12)
      << "servers show a leading blank or not";
  EXPECT_FALSE(total_variation(logs({{"#5", .9}}), logs({{"a", .9}}))) << "ids and texts";
  EXPECT_FALSE(total_variation({}, logs({{"a", 1}})));
}

}  // namespace
}  // namespace kvphase::audit
