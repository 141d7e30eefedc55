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

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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

// Answers whose accuracy at a phase and rotation is given.
template <typename Accuracy>
CycleAnswers made_up(const Accuracy& accuracy) {
  CycleAnswers a{.items = 200, .modulus = 8, .window = 8, .rotated = 4, .deltas = {0, 1, 2}};
  base::Random random(5);
  for (const std::int64_t delta : a.deltas) {
    a.right.emplace_back();
    for (std::int64_t at = 0; at < a.items * 8; ++at) {
      a.right.back().push_back(random.uniform() < accuracy(at % 4, delta));
    }
  }
  return a;
}

constexpr std::array kPattern = {0.9, 0.2, 0.6, 0.4};

TEST(Cycle, TheSentenceSaysThatAPatternMovesOnlyWhereTheIntervalsOfItsFitDo) {
  const auto at = [](std::int64_t phase) { return kPattern[static_cast<std::size_t>(phase)]; };
  const record::Findings moves =
      cycle_findings(made_up([&](std::int64_t p, std::int64_t d) { return at((p - d + 4) % 4); }),
                     made_up_options(), {});
  const base::Json& one = moves.data.at("deltas")[1].at("r_squared_all");
  EXPECT_GT(one.at("low").get<double>(), 0.9) << one;
  EXPECT_EQ(moves.data.at("boundary_phase"), nullptr);  // W > S
  EXPECT_THAT(moves.sentence,
              HasSubstr("4 gate tensors moves the pattern of accuracy as predicted"));
  EXPECT_THAT(moves.sentence, HasSubstr("over 2 rotations of 4 phases together"));
  EXPECT_THAT(moves.sentence,
              ContainsRegex("mean accuracy 5[0-9]\\.[0-9]% before, 5[0-9]\\.[0-9] to 5"));
  // A pattern that is gone is explained by the prediction in part, and did not move.
  const record::Findings gone =
      cycle_findings(made_up([&](std::int64_t p, std::int64_t d) { return d == 0 ? at(p) : 0.3; }),
                     made_up_options(), {});
  const double r2 = gone.data.at("pooled_r_squared").at("value").get<double>();
  EXPECT_GT(r2, 0.4) << gone.sentence;
  EXPECT_NEAR(gone.data.at("pooled_r_squared_had_it_vanished").at("value").get<double>(), r2, 0.1);
  EXPECT_THAT(gone.sentence, HasSubstr("is not shown to move the pattern"));
  EXPECT_THAT(gone.sentence, ContainsRegex("before, (28|29|30|31)\\..* after"));
  // Moved, and upside down.
  const record::Findings other = cycle_findings(made_up([&](std::int64_t p, std::int64_t d) {
                                                  return d == 0 ? at(p) : 1.1 - at((p - d + 4) % 4);
                                                }),
                                                made_up_options(), {});
  EXPECT_THAT(other.sentence, Not(HasSubstr("moves the pattern"))) << other.sentence;
}

TEST(Cycle, OnStaggeredGridsNoPhaseIsLeftOutAndTheReportSaysWhatIsPredicted) {
  CycleAnswers a = made_up([](std::int64_t p, std::int64_t d) {
    return kPattern[static_cast<std::size_t>((p - d + 4) % 4)];
  });
  a.window = 4;
  a.aligned = false;
  const record::Findings f = cycle_findings(a, made_up_options(), {});
  EXPECT_EQ(f.data.at("grids"), "staggered");
  EXPECT_THAT(f.sentence, HasSubstr("of 4 phases (staggered grids: every head's boundary phase"));
  EXPECT_EQ(f.data.at("phases_compared"), 4);
  EXPECT_THAT(f.figures.front().caption,
              HasSubstr("every KV head has a boundary phase of its own"));
  EXPECT_THAT(f.notes, Contains(HasSubstr("there the prediction misses")));
  a.aligned = true;
  const record::Findings aligned = cycle_findings(a, made_up_options(), {});
  EXPECT_EQ(aligned.data.at("phases_compared"), 3);
  EXPECT_THAT(aligned.sentence, HasSubstr("of 3 phases (the boundary phase left out)"));
}

CycleOptions options_for(const std::filesystem::path& checkpoint) {
  CycleOptions options = made_up_options();
  options.lookup = lookup_of(checkpoint, 24);
  return options;
}

TEST(Cycle, AFullTurnOfACheckpointsGatesIsNoTurnAndALesserOneChangesAnswers) {
  CycleOptions options = options_for(model("chunked-w4s4"));
  record::RunContext context;
  const CycleAnswers a = run_cycle(model("chunked-w4s4"), options, context);
  EXPECT_THAT(a.deltas, ElementsAre(0, -1, 1, 2)) << "-3, -2 and 3 are rotations by 1, 2 and -1";
  EXPECT_EQ(a.same.size(), 3U);
  EXPECT_EQ(a.rotated, 4);  // key and value biases of two layers
  EXPECT_NE(a.right[1], a.right[0]);
  EXPECT_EQ(context.prompt_set_sha256.size(), 64U);
  const record::Findings f = cycle_findings(a, options, context);
  EXPECT_THAT(f.notes, Contains(HasSubstr("Rotations by -3 and 1 are the same one here: 1")));
  EXPECT_EQ(f.data.at("left_out").size(), 3U);
  EXPECT_EQ(rotated_offsets(4, 4, 4, Rotation::kWindow),
            rotated_offsets(4, 4, 0, Rotation::kWindow));
  options.deltas = {4};
  EXPECT_THAT(error_of([&] { run_cycle(model("chunked-w4s4"), options, context); }),
              HasSubstr("got 4, which leaves every gate where it was"));
}

TEST(Cycle, OfRotationsThatTurnTheGatesAlikeTheSmallerIsKeptAndMoreThanATurnIsRefused) {
  const Rotations eight = distinct_rotations({}, 8);
  EXPECT_THAT(eight.deltas, ElementsAre(-3, -2, -1, 1, 2, 3));
  EXPECT_TRUE(eight.same.empty());
  EXPECT_THAT(distinct_rotations({}, 2).deltas, ElementsAre(1)) << "-1 is 1";
  const Rotations four = distinct_rotations({0, 3, -3, 2, -2}, 4);
  EXPECT_THAT(four.deltas, ElementsAre(3, -3, 2)) << "3 and -3 are alone of their kind";
  ASSERT_EQ(four.same.size(), 1U);
  EXPECT_EQ(four.same[0].left_out, -2);
  EXPECT_EQ(four.same[0].kept, 2);
  EXPECT_THAT(
      error_of([] { distinct_rotations({99}, 8); }),
      HasSubstr("expected --delta from -7 to 7 (a full turn is 8 offsets), got 99, the same "
                "rotation as 3"));
  EXPECT_THAT(error_of([] { distinct_rotations({-8}, 8); }), HasSubstr("leaves every gate"));
  EXPECT_THAT(error_of([] { distinct_rotations({0}, 8); }), HasSubstr("got 0 alone"));
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
