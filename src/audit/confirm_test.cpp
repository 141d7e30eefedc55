#include "audit/confirm.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "audit/analysis.h"
#include "base/error.h"
#include "base/random.h"

namespace kvphase::audit {
namespace {

using record::Dataset;
using record::Observation;
using ::testing::HasSubstr;

// weak: chance at phase 3 of 4; 0.85 elsewhere.
Dataset simulate(double weak, std::uint64_t seed, std::int64_t items = 60) {
  base::Random random(seed);
  std::vector<Observation> all;
  for (std::int64_t item = 0; item < items; ++item) {
    for (std::int64_t residue = 0; residue < 24; ++residue) {
      Observation o{.item = item, .residue = residue};
      o.target_position = 240 + residue;
      o.correct = random.uniform() < (residue % 4 == 3 ? weak : 0.85);
      all.push_back(o);
    }
  }
  Dataset data = record::dataset_from(all, 24, "test");
  data.name = fmt::format("seed {}", seed);
  return data;
}

AnalysisOptions quick() { return {.replicates = 200, .permutations = 500}; }

Dataset counts_of(const Dataset& rows) {
  Dataset counts;
  counts.modulus = 24;
  counts.counts = record::CountsTable{.modulus = 24,
                                      .n = std::vector<std::int64_t>(24, 0),
                                      .correct = std::vector<std::int64_t>(24, 0)};
  for (std::size_t i = 0; i < rows.rows->size(); ++i) {
    const auto residue = static_cast<std::size_t>(rows.rows->position[i] % 24);
    ++counts.counts->n[residue];
    counts.counts->correct[residue] += rows.rows->reply[i] == record::Reply::kRight ? 1 : 0;
  }
  return counts;
}

TEST(Confirm, MeasuresTheChosenPhasesOnFreshItems) {
  const Dataset first = simulate(0.45, 1);
  const record::Result explored = analyse(first, quick());
  ASSERT_EQ(explored.folded->worst.group, 3) << explored.verdict.sentence;
  const record::Confirmation c = confirm(explored, first, simulate(0.45, 2));
  fmt::print("{}\n", c.sentence);
  EXPECT_EQ(c.outcome, "confirmed");
  EXPECT_EQ(c.worst, 3);
  EXPECT_EQ(c.n, 60) << "paired over items";
  EXPECT_LT(*c.gap.low, 0.4);
  EXPECT_GT(*c.gap.high, 0.4);
  EXPECT_NEAR(*c.gap.value, *c.best_value - *c.worst_value, 1e-12);
  EXPECT_THAT(c.sentence, HasSubstr("over phase 3 (of 4)"));
}

TEST(Confirm, DoesNotConfirmAGapThatChanceMade) {
  // Flat data: the raw gap is positive, on fresh items the chosen difference averages 0.
  double raw = 0;
  double fresh = 0;
  int confirmed = 0;
  constexpr int kRuns = 60;
  for (std::uint64_t run = 0; run < kRuns; ++run) {
    AnalysisOptions options = {.stride = 4, .replicates = 20, .permutations = 20};
    const Dataset first = simulate(0.85, 100 + run, 20);
    const record::Result explored = analyse(first, options);
    const record::Confirmation c = confirm(explored, first, simulate(0.85, 500 + run, 20));
    raw += *explored.folded->gap.estimate.value / kRuns;
    fresh += *c.gap.value / kRuns;
    confirmed += c.outcome == "confirmed" ? 1 : 0;
  }
  fmt::print("mean raw gap {:.4f}, mean gap on fresh items {:.4f}, confirmed {} of {}\n", raw,
             fresh, confirmed, kRuns);
  EXPECT_GT(raw, 0.05);
  EXPECT_NEAR(fresh, 0, 0.02);
  EXPECT_LE(confirmed, 6);
}

TEST(Confirm, WorksFromCountsWithoutPairing) {
  const Dataset first = counts_of(simulate(0.45, 1));
  const record::Result explored = analyse(first, quick());
  const record::Confirmation c = confirm(explored, first, counts_of(simulate(0.45, 2)));
  EXPECT_EQ(c.outcome, "confirmed") << c.sentence;
  EXPECT_THAT(c.gap.method, HasSubstr("Newcombe"));
  EXPECT_THAT(c.sentence, HasSubstr("prompts"));
}

TEST(Confirm, RefusesTheSameDataAndWhatCannotBeCompared) {
  const Dataset first = simulate(0.45, 1);
  const record::Result explored = analyse(first, quick());
  const auto refusal = [&](const record::Result& result, const Dataset& fresh) {
    try {
      confirm(result, first, fresh);
    } catch (const base::Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal(explored, first), HasSubstr("expected fresh data"));
  Dataset other = counts_of(simulate(0.45, 3));
  other.modulus = other.counts->modulus = 6;
  other.counts->n.resize(6);
  other.counts->correct.resize(6);
  EXPECT_THAT(refusal(explored, other), HasSubstr("multiple of 4"));
  record::Result flat = explored;
  flat.folded.reset();
  flat.best.group = flat.worst.group;
  EXPECT_THAT(refusal(flat, simulate(0.45, 3)), HasSubstr("no gap to confirm"));
  record::Result margins = explored;
  margins.score = "margin";
  EXPECT_THAT(refusal(margins, simulate(0.45, 3)), HasSubstr("score 'margin'"));
}

// The first `old` items of `first`, then those of `fresh`.
Dataset mixed(const Dataset& first, const Dataset& fresh, std::int32_t old) {
  Dataset data = fresh;
  for (std::size_t i = 0; i < data.rows->size(); ++i) {
    if (data.rows->item[i] < old) data.rows->reply[i] = first.rows->reply[i];
  }
  return data;
}

TEST(Confirm, RefusesDataThatRepeatTheFirstItems) {
  const Dataset first = simulate(0.45, 1);
  const record::Result explored = analyse(first, quick());
  const Dataset fresh = simulate(0.45, 2);
  Dataset nearly = first;
  nearly.rows->reply[7] = nearly.rows->reply[7] == record::Reply::kRight ? record::Reply::kWrong
                                                                         : record::Reply::kRight;
  for (const Dataset& again : {nearly, mixed(first, fresh, 30)}) {
    try {
      confirm(explored, first, again);
      ADD_FAILURE() << "expected a refusal";
    } catch (const base::Error& error) {
      fmt::print("{}\n", error.what());
      EXPECT_THAT(error.what(), HasSubstr("items that repeat the answers"));
    }
  }
  const record::Confirmation some = confirm(explored, first, mixed(first, fresh, 6));
  EXPECT_THAT(some.sentence, HasSubstr("may not be fresh: they hold 6 of 60 items"));
  EXPECT_THAT(confirm(explored, first, fresh).sentence, testing::Not(HasSubstr("may not")));
  Dataset counts = counts_of(first);
  counts.counts->correct[5] -= 1;
  EXPECT_THROW(confirm(analyse(counts_of(first), quick()), counts_of(first), counts), base::Error);
}

TEST(Confirm, SaysWhenThereIsNothingToMeasure) {
  const Dataset first = simulate(0.45, 1);
  const record::Result explored = analyse(first, quick());
  Dataset fresh = counts_of(simulate(0.45, 2));
  for (std::size_t r = 3; r < 24; r += 4) fresh.counts->n[r] = fresh.counts->correct[r] = 0;
  const record::Confirmation c = confirm(explored, first, fresh);
  EXPECT_EQ(c.outcome, "not confirmed");
  EXPECT_FALSE(c.gap.value || c.worst_value);
  EXPECT_THAT(c.sentence, HasSubstr("cannot be measured")) << c.sentence;
}

TEST(Confirm, OtherScoresAtTheSamePlacesAreFreshData) {
  const auto scores = [](std::uint64_t seed) {
    base::Random random(seed);
    std::vector<Observation> all;
    for (std::int64_t item = 0; item < 40; ++item) {
      for (std::int64_t residue = 0; residue < 24; ++residue) {
        Observation o{.item = item, .residue = residue, .target_position = residue};
        o.correct = true;
        o.logprob = (residue % 4 == 3 ? -2.0 : -0.5) + 0.3 * random.normal();
        all.push_back(o);
      }
    }
    Dataset data = record::dataset_from(all, 24, "test");
    data.rows->has_right_wrong = false;
    return data;
  };
  const Dataset first = scores(1);
  const record::Result explored = analyse(first, quick());
  EXPECT_NO_THROW(confirm(explored, first, scores(2)));
  EXPECT_THROW(confirm(explored, first, scores(1)), base::Error);
}

}  // namespace
}  // namespace kvphase::audit
