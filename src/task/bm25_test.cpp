#include "task/bm25.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kvphase::task {
namespace {

TEST(Bm25, ScoresAreTheFormulasByHand) {
  const std::vector<std::vector<Term>> documents = {{1, 2, 3}, {1, 1, 4, 5, 6}, {7}};
  const std::vector<Term> query = {1, 4, 1, 9};
  const std::vector<double> scores = bm25_scores(documents, query);
  // Three documents of 3 words on average; word 1 in two of them, word 4 in one.
  const auto idf = [](double with) { return std::log(1 + (3 - with + 0.5) / (with + 0.5)); };
  const auto weight = [](double count, double length) {
    return count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / 3));
  };
  const double wanted[] = {idf(2) * weight(1, 3), idf(2) * weight(2, 5) + idf(1) * weight(1, 5), 0};
  for (std::size_t d = 0; d < 3; ++d) {
    fmt::print("document {}: {} by hand, {}\n", d, wanted[d], scores[d]);
    EXPECT_NEAR(scores[d], wanted[d], 1e-12);
  }
}

TEST(Bm25, NothingAndNobodyScoresNothing) {
  EXPECT_TRUE(bm25_scores({}, std::vector<Term>{1}).empty());
  EXPECT_EQ(bm25_scores(std::vector<std::vector<Term>>{{}, {1}}, {}), (std::vector<double>{0, 0}));
}

std::vector<Unit> units_of(const std::vector<Term>& terms) {
  std::vector<Unit> units;
  for (const Term t : terms) units.push_back({.terms = {t}});
  return units;
}

TEST(Bm25, TheBestPassageHoldsTheMatchInItsMiddleWhereverItStands) {
  for (std::size_t place = 0; place < 40; ++place) {
    std::vector<Term> text(40, 5);
    text[place] = 1;
    const std::vector<Passage> best = best_passages(units_of(text), std::vector<Term>{1}, 1, 8);
    ASSERT_EQ(best.size(), 1U);
    EXPECT_EQ(best[0].end - best[0].begin, 8U);
    ASSERT_TRUE(best[0].begin <= place && place < best[0].end) << place;
    // Away from the ends, what stands right before and behind comes along.
    if (place < 2 || place > 37) continue;
    EXPECT_GE(place - best[0].begin, 2U) << place;
    EXPECT_GE(best[0].end - 1 - place, 2U) << place;
  }
}

TEST(Bm25, PassagesDoNotOverlapAndWholeUnitsAreNeverCut) {
  std::vector<Unit> units = units_of(std::vector<Term>(20, 5));
  units[9] = {.terms = {1, 2, 3}, .whole = true};
  const std::vector<Passage> best = best_passages(units, std::vector<Term>{2}, 4, 4);
  ASSERT_EQ(best.size(), 4U);
  EXPECT_EQ(best[0].begin, 9U);
  EXPECT_EQ(best[0].end, 10U);
  for (std::size_t i = 0; i < best.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_TRUE(best[i].end <= best[j].begin || best[j].end <= best[i].begin) << i << j;
    }
    if (i > 0) {
      EXPECT_EQ(best[i].end - best[i].begin, 4U);
    }
  }
}

}  // namespace
}  // namespace kvphase::task
