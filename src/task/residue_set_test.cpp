#include "task/residue_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "task/words.h"

#include <set>

namespace kvphase::task {
namespace {

using ::testing::ElementsAre;

TEST(ResidueSet, AStrideOf128IsAskedAtElevenPhasesThatStraddleTheBoundaryAndStepOn) {
  EXPECT_THAT(audited_residues(128, false),
              ElementsAre(0, 1, 16, 32, 48, 64, 80, 96, 112, 126, 127));
  EXPECT_EQ(audited_residues(128, true).size(), 128U);
  EXPECT_EQ(audited_residues(64, false).size(), 64U);
  EXPECT_EQ(class_step(128, false), 16);
  EXPECT_EQ(class_step(128, true), 1);
  EXPECT_EQ(class_step(24, false), 1);
}

TEST(ResidueSet, RefusesAModulusThatHasNoEighthsOrNoPhases) {
  EXPECT_THROW(audited_residues(100, false), base::Error);
  EXPECT_THROW(class_step(100, false), base::Error);
  EXPECT_EQ(audited_residues(100, true).size(), 100U);
  EXPECT_THROW(audited_residues(1, false), base::Error);
}

TEST(Words, CandidatesAreManyDistinctAndPlainLowerCase) {
  std::set<std::string> seen;
  for (const std::string& word : candidate_words()) {
    EXPECT_TRUE(seen.insert(word).second) << word;
    for (const char c : word) EXPECT_TRUE(c >= 'a' && c <= 'z') << word;
  }
  EXPECT_GE(seen.size(), 400U);
}

}  // namespace
}  // namespace kvphase::task
