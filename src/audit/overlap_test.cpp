#include "audit/overlap.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace kvphase::audit {
namespace {

using record::Dataset;
using record::Observation;

// accuracy: of every prompt; margins: also a continuous score.
Dataset simulate(double accuracy, std::uint64_t seed, std::int64_t items, std::int64_t positions,
                 bool margins = false) {
  base::Random random(seed);
  std::vector<Observation> all;
  for (std::int64_t item = 0; item < items; ++item) {
    for (std::int64_t residue = 0; residue < positions; ++residue) {
      Observation o{.item = item, .residue = residue};
      o.target_position = (positions == 1 ? item : 0) + residue;
      o.correct = random.uniform() < accuracy;
      if (margins) o.margin = random.normal();
      all.push_back(o);
    }
  }
  return record::dataset_from(all, 24, "test");
}

Dataset counts(double accuracy, std::uint64_t seed, std::int64_t n) {
  base::Random random(seed);
  Dataset data;
  data.modulus = 8;
  data.counts = record::CountsTable{.modulus = 8};
  for (int r = 0; r < 8; ++r) {
    std::int64_t right = 0;
    for (std::int64_t k = 0; k < n; ++k) right += random.uniform() < accuracy;
    data.counts->n.push_back(n);
    data.counts->correct.push_back(right);
  }
  return data;
}

TEST(Overlap, IndependentDataAreNeverTakenForTheSame) {
  double smallest = 1;
  const auto look = [&](const Dataset& a, const Dataset& b) {
    if (const auto o = find_overlap(a, b)) smallest = std::min(smallest, o->p);
  };
  for (std::uint64_t run = 0; run < 300; ++run) {
    for (const double accuracy : {0.5, 0.9, 0.99, 1.0}) {
      look(simulate(accuracy, run, 20, 24), simulate(accuracy, 1000 + run, 20, 24));
      look(simulate(accuracy, run, 40, 4), simulate(accuracy, 1000 + run, 40, 4));
      look(simulate(accuracy, run, 200, 1), simulate(accuracy, 1000 + run, 200, 1));
      look(counts(accuracy, run, 256), counts(accuracy, 1000 + run, 256));
      look(counts(accuracy, run, 20), counts(accuracy, 1000 + run, 20));
    }
  }
  fmt::print("smallest p of 6,000 pairs of independent data sets: {:.2g}\n", smallest);
  EXPECT_GT(smallest, 1e-5);
}

TEST(Overlap, TheSameItemsAreFoundAmongOthersInAnyOrder) {
  const Dataset first = simulate(0.8, 1, 50, 24);
  Dataset fresh = simulate(0.8, 2, 100, 24);
  // Items 60..89 of the fresh data are items 0..29 of the first.
  for (std::size_t i = 0; i < 30 * 24; ++i) fresh.rows->reply[60 * 24 + i] = first.rows->reply[i];
  const auto o = find_overlap(first, fresh);
  ASSERT_TRUE(o);
  EXPECT_EQ(o->alike, 30);
  EXPECT_EQ(o->of, 100);
  EXPECT_LT(o->p, 1e-10);
}

TEST(Overlap, SinglePromptsTellItemsApartByTheirScoresOnly) {
  const Dataset first = simulate(0.8, 1, 300, 1);
  EXPECT_FALSE(find_overlap(first, first)) << "right or wrong at one position is no identity";
  const Dataset scored = simulate(0.8, 1, 300, 1, true);
  const auto o = find_overlap(scored, scored);
  ASSERT_TRUE(o);
  EXPECT_EQ(o->alike, 300);
  EXPECT_LT(o->p, 1e-10);
}

TEST(Overlap, CountsThatAgreeAtNearlyAllResiduesAreTheSame) {
  const Dataset first = counts(0.7, 1, 256);
  Dataset again = first;
  again.counts->correct[3] += 1;
  const auto o = find_overlap(first, again);
  ASSERT_TRUE(o);
  EXPECT_EQ(o->alike, 7);
  EXPECT_LT(o->p, 1e-5);
}

TEST(Overlap, NothingIsSaidOfEmptyOrDifferentKinds) {
  const Dataset none = record::dataset_from({}, 24, "test");
  EXPECT_FALSE(find_overlap(none, none));
  EXPECT_FALSE(find_overlap(none, counts(0.5, 1, 10)));
}

}  // namespace
}  // namespace kvphase::audit
