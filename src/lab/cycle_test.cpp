#include "lab/cycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "lab/test_support.h"

namespace kvphase::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const base::Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Cycle, AnOffsetTakesTheGateDeltaPlacesBeforeIt) {
  EXPECT_THAT(rotated_offsets(4, 4, 1, Rotation::kWindow), ElementsAre(3, 0, 1, 2));
  EXPECT_THAT(rotated_offsets(4, 4, -1, Rotation::kWindow), ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(rotated_offsets(8, 4, 1, Rotation::kWindow), ElementsAre(7, 0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(rotated_offsets(8, 4, 1, Rotation::kWithinStrides),
              ElementsAre(3, 0, 1, 2, 7, 4, 5, 6));
  EXPECT_THAT(rotated_offsets(8, 4, 4, Rotation::kWithinStrides),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(error_of([] { rotated_offsets(8, 6, 1, Rotation::kWithinStrides); }),
              HasSubstr("expected a window that is a multiple of the stride"));
}

// The published example of a W12/S12 model with 4 KV heads, delta 1, and its published fits.
TEST(Cycle, ThePublishedExampleHasItsPublishedFits) {
  const std::array observed = {18.25, 45.65, 76.75, 53.45, 77.45, 60.6,
                               86.25, 60.45, 45.8,  83.15, 66.7,  0.55};
  const std::array predicted = {23.95, 47.4,  78.2, 49.35, 78.45, 68.5,
                                84.95, 60.95, 48.0, 81.4,  70.0,  43.05};
  std::array<double, 12> base{};
  for (std::size_t r = 0; r < 12; ++r) base[r] = predicted[(r + 1) % 12];
  const CycleFit fit = fit_of(base, observed, 1, true);
  EXPECT_NEAR(fit.without_boundary.value(), 0.983, 0.001);
  EXPECT_NEAR(fit.interior.value(), 0.984, 0.001);
  EXPECT_NEAR(fit.all.value(), 0.773, 0.001);
  EXPECT_GT(fit.correlation.value(), 0.99);
}

TEST(Cycle, FewerThanThreePhasesAndPatternsWithoutChangeHaveNoFit) {
  const std::array flat = {0.5, 0.5, 0.5, 0.5};
  const std::array some = {0.2, 0.9, 0.4, 0.6};
  EXPECT_FALSE(fit_of(flat, some, 1, false).all);
  EXPECT_TRUE(fit_of(some, flat, 1, true).without_boundary);  // 3 phases
  EXPECT_FALSE(fit_of(some, flat, 1, true).interior);         // 2 of them
  EXPECT_FALSE(fit_of(some, some, 4, false).all);             // a full turn predicts no change
}

CycleOptions made_up_options() {
  CycleOptions options;
  options.lookup.modulus = 8;
  options.lookup.items = 8;
  options.stride = 4;
  options.replicates = 200;
  return options;
}

TEST(Cycle, APatternThatMovesIsExplainedAndOneThatStaysIsNot) {
  const std::array pattern = {0.9, 0.2, 0.6, 0.4};
  for (const bool moves : {true, false}) {
    CycleAnswers a{.items = 200, .modulus = 8, .window = 8, .rotated = 4, .deltas = {0, 1, 2}};
    base::Random random(5);
    for (const std::int64_t delta : a.deltas) {
      a.right.emplace_back();
      for (std::int64_t at = 0; at < a.items * 8; ++at) {
        const std::int64_t phase = moves ? (at - delta + 8) % 4 : at % 4;
        a.right.back().push_back(random.uniform() < pattern[static_cast<std::size_t>(phase)]);
      }
    }
    const record::Findings f = cycle_findings(a, made_up_options(), {});
    const base::Json& one = f.data.at("deltas")[1].at("r_squared_all");
    if (moves) {
      EXPECT_GT(one.at("low").get<double>(), 0.9) << one;
      EXPECT_EQ(f.data.at("boundary_phase"), nullptr);  // W > S
    } else {
      EXPECT_LT(f.data.at("pooled_r_squared").at("value").get<double>(), 0.8) << f.sentence;
    }
  }
}

CycleOptions options_for(const std::filesystem::path& checkpoint) {
  CycleOptions options = made_up_options();
  options.lookup = lookup_of(checkpoint, 24);
  return options;
}

TEST(Cycle, AFullTurnOfACheckpointsGatesIsNoTurnAndALesserOneChangesAnswers) {
  CycleOptions options = options_for(model("chunked-w4s4"));
  options.deltas = {1, 4, -4};
  record::RunContext context;
  const CycleAnswers a = run_cycle(model("chunked-w4s4"), options, context);
  EXPECT_THAT(a.deltas, ElementsAre(0, 1, 4, -4));
  EXPECT_EQ(a.rotated, 4);  // key and value biases of two layers
  EXPECT_EQ(a.right[2], a.right[0]);
  EXPECT_EQ(a.right[3], a.right[0]);
  EXPECT_NE(a.right[1], a.right[0]);
}

TEST(Cycle, TheControlHasNothingToRotate) {
  const CycleOptions options = options_for(model("full-attention"));
  record::RunContext context;
  const CycleAnswers a = run_cycle(model("full-attention"), options, context);
  EXPECT_THAT(cycle_findings(a, options, context).sentence,
              HasSubstr("no layer is chunked, so there is nothing to rotate"));
}

}  // namespace
}  // namespace kvphase::lab
