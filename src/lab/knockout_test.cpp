#include "lab/knockout.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "lab/test_support.h"

namespace kvphase::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

KnockoutOptions options_for(const std::filesystem::path& checkpoint, std::int64_t items) {
  KnockoutOptions options;
  options.lookup = lookup_of(checkpoint, items);
  options.stride = 4;
  options.calibration = 64;
  options.replicates = 200;
  options.permutations = 199;
  return options;
}

TEST(Knockout, SitesAreEveryHeadAndEveryLayerAndALayerOfOneHeadStandsOnce) {
  const auto names = [](const std::vector<Site>& sites) {
    std::vector<std::string> all;
    for (const Site& s : sites) {
      all.push_back(fmt::format("{} [{}, {})", s.name, s.first_head, s.first_head + s.heads));
    }
    return all;
  };
  EXPECT_THAT(names(knockout_sites(2, 2, 4, HeadUnit::kKvHeads)),
              ElementsAre("layer 0 head 0 [0, 2)", "layer 0 head 1 [2, 4)", "layer 0 [0, 4)",
                          "layer 1 head 0 [0, 2)", "layer 1 head 1 [2, 4)", "layer 1 [0, 4)"));
  EXPECT_THAT(names(knockout_sites(1, 1, 2, HeadUnit::kKvHeads)), ElementsAre("layer 0 [0, 2)"));
  EXPECT_THAT(
      names(knockout_sites(1, 1, 2, HeadUnit::kQueryHeads)),
      ElementsAre("layer 0 query head 0 [0, 1)", "layer 0 query head 1 [1, 2)", "layer 0 [0, 2)"));
}

TEST(Knockout, OnePrefillForAllKnockoutsAnswersAsAPrefillForEach) {
  for (const char* name : {"chunked-w4s4", "full-attention"}) {
    for (const Replacement replacement :
         {Replacement::kMean, Replacement::kZero, Replacement::kResample}) {
      KnockoutOptions options = options_for(model(name), 16);
      options.unit = HeadUnit::kQueryHeads;
      options.replacement = replacement;
      record::RunContext context;
      const KnockoutAnswers together = run_knockouts(model(name), options, context);
      options.separately = true;
      options.run = {.threads = 2, .batch_tokens = 700};
      const KnockoutAnswers separately = run_knockouts(model(name), options, context);
      EXPECT_EQ(together.clean, separately.clean) << name;
      std::int64_t changed = 0;
      for (std::size_t s = 0; s < together.sites.size(); ++s) {
        EXPECT_EQ(together.knocked[s], separately.knocked[s])
            << name << ", " << together.sites[s].name;
        for (std::size_t i = 0; i < together.clean.size(); ++i) {
          changed += together.knocked[s][i] != together.clean[i] ? 1 : 0;
        }
      }
      EXPECT_GT(changed, 20) << name << ": knockouts that change nothing compare nothing";
    }
  }
}

// Items whose clean answers follow the phase strongly, and three heads: one that no answer needs,
// one that costs every phase a third of its right answers, one that phase 3 needs.
KnockoutAnswers made_up(std::int64_t items, std::uint64_t seed) {
  constexpr std::int64_t kResidues = 8;
  KnockoutAnswers a{.items = items, .modulus = kResidues};
  a.sites = {{.name = "none"}, {.name = "third"}, {.name = "phase 3"}};
  a.knocked.resize(3);
  base::Random random(seed);
  for (std::int64_t item = 0; item < items; ++item) {
    for (std::int64_t r = 0; r < kResidues; ++r) {
      const std::int64_t phase = r % 4;
      const bool right = random.uniform() < (phase == 0 ? 0.2 : 0.9);
      a.position.push_back(16 + r);
      a.clean.push_back(right);
      a.knocked[0].push_back(right);
      a.knocked[1].push_back(right && random.uniform() < 2.0 / 3);
      a.knocked[2].push_back(right && phase != 3);
    }
  }
  return a;
}

KnockoutOptions folded_by_four() {
  KnockoutOptions options;
  options.lookup.modulus = 8;
  options.lookup.items = 8;
  options.stride = 4;
  options.replicates = 300;
  options.permutations = 999;
  return options;
}

TEST(Knockout, AHeadThatOnePhaseNeedsIsNamedAndOneThatCostsAllPhasesAlikeIsNot) {
  const record::Findings f = knockout_findings(made_up(120, 1), folded_by_four(), {});
  const base::Json& sites = f.data.at("sites");
  for (const char* test : {"net_depends_on_phase", "loss_depends_on_phase"}) {
    EXPECT_TRUE(sites[0].at(test).at("p").is_null()) << sites[0];
    EXPECT_GT(sites[1].at(test).at("p_holm").get<double>(), 0.05) << sites[1];
    EXPECT_LE(sites[2].at(test).at("p_holm").get<double>(), 0.05) << sites[2];
    EXPECT_GE(sites[2].at(test).at("p_holm"), sites[2].at(test).at("p"));
    EXPECT_EQ(f.data.at(test).at("heads"),
              base::Json({{"significant", 1}, {"tested", 2}, {"all", 3}}));
  }
  EXPECT_EQ(sites[0].at("net_depends_on_phase").at("reason"), "no answer changes");
  EXPECT_EQ(sites[0].at("loss_depends_on_phase").at("reason"), "no right answer is lost");
  EXPECT_THAT(f.sentence, HasSubstr("1 of 2 heads tested (of 3)"));
  EXPECT_EQ(sites[2].at("largest_loss_at_phase"), 3);
  EXPECT_EQ(sites[2].at("change_by_phase")[3].at("value"), -100);
  EXPECT_EQ(sites[2].at("change_by_phase")[1].at("value"), 0);
  EXPECT_EQ(sites[2].at("mean_change").at("value"), -25);
  EXPECT_EQ(sites[2].at("largest_loss_minus_mean").at("value"), 75);
  EXPECT_EQ(sites[2].at("largest_loss_minus_mean_crossed").at("value"), 75);
  // A quarter of the prompts, 90% of them right before.
  EXPECT_NEAR(sites[2].at("net_change_points").at("value").get<double>(), -22.5, 1);
  EXPECT_LT(sites[2].at("net_change_points").at("high").get<double>(), -20);
  EXPECT_NEAR(sites[1].at("mean_change").at("value").get<double>(), -33, 10);
  EXPECT_LT(sites[1].at("change_by_phase")[2].at("low").get<double>(), -20);
  EXPECT_THAT(f.sentence, HasSubstr("most concentrated: phase 3, -100.0% at phase 3"));
}

// What the head takes at phase 3 it gives back there: as many wrong answers become right.
TEST(Knockout, AHeadWhoseLossesAndGainsCancelAtEveryPhaseLosesByPhaseAndChangesNothing) {
  KnockoutAnswers a = made_up(0, 1);
  a.items = 240;
  a.sites = {{.name = "churn"}};
  a.position.clear();
  a.clean.clear();
  a.knocked.assign(1, {});
  base::Random random(7);
  for (std::int64_t at = 0; at < a.items * a.modulus; ++at) {
    const bool right = random.uniform() < 0.5;
    const bool turned = random.uniform() < (at % 4 == 3 ? 0.5 : 0.05);
    a.position.push_back(16 + at % a.modulus);
    a.clean.push_back(right);
    a.knocked[0].push_back(right != turned);
  }
  const record::Findings f = knockout_findings(a, folded_by_four(), {});
  const base::Json& site = f.data.at("sites")[0];
  EXPECT_LE(site.at("loss_depends_on_phase").at("p_holm").get<double>(), 0.01) << site;
  EXPECT_GT(site.at("net_depends_on_phase").at("p_holm").get<double>(), 0.05) << site;
  EXPECT_LT(site.at("net_change_points").at("low").get<double>(), 0) << site;
  EXPECT_GT(site.at("net_change_points").at("high").get<double>(), 0) << site;
  EXPECT_THAT(f.sentence, HasSubstr("that did not choose its phase): 0 of 1 heads"))
      << "the net change is what the sentence counts";
  EXPECT_EQ(f.data.at("loss_depends_on_phase").at("heads").at("significant"), 1);
}

// Without the layer every prompt of an item gets the same guess, right for one item in 50; clean
// accuracy is 20% at phase 0 and 90% elsewhere, so that the guess is another share of it there.
TEST(Knockout, AModelThatGuessesAlikeEverywhereWithoutALayerIsNoDependenceOnPhase) {
  KnockoutAnswers a = made_up(1000, 11);
  a.sites = {{.whole_layer = true, .name = "same guess"}, {.whole_layer = true, .name = "guesses"}};
  a.knocked = {std::vector<std::uint8_t>(a.clean.size()),
               std::vector<std::uint8_t>(a.clean.size())};
  base::Random random(12);
  for (std::size_t at = 0; at < a.clean.size(); ++at) {
    a.knocked[0][at] = at / 8 % 50 == 0;
    a.knocked[1][at] = random.uniform() < 0.05;
  }
  const record::Findings f = knockout_findings(a, folded_by_four(), {});
  for (const base::Json& site : f.data.at("sites")) {
    fmt::print("{}: p {}, crossed {}\n", site.at("name").dump(),
               site.at("net_depends_on_phase").at("p_holm").dump(),
               site.at("largest_loss_minus_mean_crossed").dump());
    EXPECT_GT(site.at("net_depends_on_phase").at("p_holm").get<double>(), 0.05) << site;
    EXPECT_EQ(site.at("depends_on_phase"), false);
  }
  EXPECT_THAT(f.sentence, HasSubstr("0 of 2 layers"));
}

// Eight of 8,000 right answers are lost, six of them at phase 3: the phases may differ, by less
// than half a point.
TEST(Knockout, AnEffectTooSmallToStandOnOtherItemsIsNotNamedHoweverSmallItsP) {
  KnockoutAnswers a = made_up(0, 1);
  a.items = 1000;
  a.sites = {{.name = "hardly"}};
  a.knocked.assign(1, {});
  a.position.clear();
  a.clean.assign(8000, 1);
  a.knocked[0].assign(8000, 1);
  for (std::int64_t at = 0; at < 8000; ++at) a.position.push_back(16 + at % 8);
  const auto lose = [&](std::int64_t item, std::int64_t r) {
    a.knocked[0][static_cast<std::size_t>(item * 8 + r)] = 0;
  };
  for (std::int64_t i = 0; i < 8; ++i) lose(i * 120, i < 6 ? 3 : i % 2);
  const record::Findings f = knockout_findings(a, folded_by_four(), {});
  const base::Json& site = f.data.at("sites")[0];
  fmt::print("{}\n", site.dump());
  EXPECT_LE(site.at("net_depends_on_phase").at("p_holm").get<double>(), 0.05) << site;
  EXPECT_LE(site.at("largest_loss_minus_mean_crossed").at("low").get<double>(), 0) << site;
  EXPECT_EQ(site.at("depends_on_phase"), false);
  EXPECT_THAT(f.sentence, HasSubstr("0 of 1 heads"));
}

TEST(Knockout, WhereNothingCanBeTestedTheSentenceSaysSoInPlaceOfNo) {
  KnockoutAnswers a = made_up(120, 3);
  a.sites = {{.name = "head"}, {.whole_layer = true, .name = "layer"}};
  a.knocked = {a.clean, std::vector<std::uint8_t>(a.clean.size())};
  const std::string sentence = knockout_findings(a, folded_by_four(), {}).sentence;
  EXPECT_THAT(sentence, HasSubstr("could be tested for none of 1 heads and 1 layers (every right "
                                  "answer is lost; no answer changes)"));
  KnockoutAnswers layer = a;
  layer.sites.erase(layer.sites.begin());
  layer.knocked.erase(layer.knocked.begin());
  EXPECT_THAT(knockout_findings(layer, folded_by_four(), {}).sentence,
              HasSubstr("for none of 1 layers (every right answer is lost)"));
  a.knocked[1] = a.clean;
  a.knocked[1][0] = 1 - a.knocked[1][0];
  const record::Findings f = knockout_findings(a, folded_by_four(), {});
  EXPECT_THAT(f.sentence, HasSubstr("none of the 1 heads could be tested, 0 of 1 layers"));
}

// The largest of several losses exceeds their mean by chance; one that was chosen elsewhere does
// not.
TEST(Knockout, TheCrossedConcentrationIsZeroOnAverageWhereTheLargestLossIsNot) {
  KnockoutOptions options = folded_by_four();
  options.permutations = 19;
  options.replicates = 1;
  constexpr int kRuns = 100;
  double largest = 0, crossed = 0, squared = 0;
  for (int run = 0; run < kRuns; ++run) {
    const base::Json site =
        knockout_findings(made_up(120, 300 + static_cast<std::uint64_t>(run)), options, {})
            .data.at("sites")[1];
    const double x = site.at("largest_loss_minus_mean_crossed").at("value").get<double>();
    largest += site.at("largest_loss_minus_mean").at("value").get<double>() / kRuns;
    crossed += x / kRuns;
    squared += x * x / kRuns;
  }
  const double error = std::sqrt((squared - crossed * crossed) / kRuns);
  EXPECT_GT(largest, 3);
  EXPECT_LT(std::abs(crossed), 3 * error) << "largest " << largest << ", crossed " << crossed;
  EXPECT_LT(error, 1);
}

TEST(Knockout, APhaseWithoutARightAnswerHasNoRelativeChange) {
  KnockoutAnswers a = made_up(40, 2);
  for (std::size_t at = 0; at < a.clean.size(); ++at) {
    if (at % 8 != 4) continue;  // one of phase 0's two residues
    a.clean[at] = 0;
    a.knocked[1][at] = 1;
  }
  const record::Findings f = knockout_findings(a, folded_by_four(), {});
  const base::Json& site = f.data.at("sites")[1];
  EXPECT_TRUE(site.at("change_by_residue")[4].is_null());
  EXPECT_TRUE(site.at("change_by_phase")[0].at("value").is_null());
  EXPECT_EQ(site.at("change_by_phase")[0].at("reason"), "undefined for these items");
  EXPECT_TRUE(site.at("mean_change").at("value").is_null());
  EXPECT_FALSE(site.at("change_by_phase")[1].at("value").is_null());
}

struct Rejections {
  int tested = 0;  // runs with a p-value
  int rejected = 0;
};

constexpr int kNullRuns = 200;

// Of both tests of phase dependence at 0.05, over runs in which nothing depends on phase, each made
// by `make` from its number. Under 20 each: 10 are expected, and 20 or more have a probability
// below 0.002.
std::map<std::string, Rejections> rejections_of_a_true_null(
    std::size_t site, const std::function<KnockoutAnswers(std::uint64_t)>& make) {
  KnockoutOptions options = folded_by_four();
  options.permutations = 199;
  options.replicates = 1;
  std::map<std::string, Rejections> tests;
  for (std::uint64_t run = 0; run < kNullRuns; ++run) {
    const record::Findings f = knockout_findings(make(run), options, {});
    for (const char* test : {"net_depends_on_phase", "loss_depends_on_phase"}) {
      const base::Json& p = f.data.at("sites")[site].at(test).at("p");
      Rejections& counts = tests[test];
      if (!p.is_number()) continue;
      ++counts.tested;
      counts.rejected += p.get<double>() <= 0.05 ? 1 : 0;
    }
  }
  for (const auto& [test, counts] : tests) {
    fmt::print("{}: {} of {} rejected\n", test, counts.rejected, kNullRuns);
    EXPECT_LT(counts.rejected, 20) << test << " of " << kNullRuns;
  }
  return tests;
}

// Under "the same share of right answers is lost at every phase", with accuracies far apart.
TEST(Knockout, BothTestsOfPhaseDependenceRejectATrueNullAsOftenAsTheySay) {
  const auto tests =
      rejections_of_a_true_null(1, [](std::uint64_t run) { return made_up(60, 100 + run); });
  for (const auto& [test, counts] : tests) {
    EXPECT_EQ(counts.tested, kNullRuns) << test;
    EXPECT_GT(counts.rejected, 1) << test << " of " << kNullRuns;
  }
}

// An item's answers at one phase go together: a window holds the same tokens at positions a stride
// apart. Each item loses a third of its phases, every item others.
TEST(Knockout, AnswersOfAnItemThatGoTogetherByPhaseAreNoDependenceOnPhase) {
  rejections_of_a_true_null(0, [](std::uint64_t run) {
    KnockoutAnswers a = made_up(60, 500 + run);
    base::Random random(900 + run);
    a.sites = {{.name = "by item and phase"}};
    a.knocked = {a.clean};
    for (std::size_t item = 0; item < 60; ++item) {
      for (std::size_t phase = 0; phase < 4; ++phase) {
        if (random.uniform() < 2.0 / 3) continue;
        a.knocked[0][item * 8 + phase] = a.knocked[0][item * 8 + 4 + phase] = 0;
      }
    }
    return a;
  });
}

TEST(Knockout, AStrideThatDoesNotFitTheModulusAndTooFewCalibrationPromptsAreRefused) {
  const auto error = [](const auto& call) {
    try {
      call();
    } catch (const base::Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  KnockoutOptions options = folded_by_four();
  options.stride = 3;
  EXPECT_THAT(error([&] { knockout_findings(made_up(8, 1), options, {}); }),
              HasSubstr("[knockout] expected a modulus that is twice the stride 3"));
  options = options_for(model("chunked-w4s4"), 8);
  options.calibration = 1;
  record::RunContext context;
  EXPECT_THAT(error([&] { run_knockouts(model("chunked-w4s4"), options, context); }),
              HasSubstr("expected at least 2 calibration prompts, got 1"));
}

}  // namespace
}  // namespace kvphase::lab
