#include "report/csv.h"

#include <gtest/gtest.h>

#include "tests/support/example_result.h"

namespace kvphase::report {
namespace {

TEST(Csv, WritesOneRowPerResidueWithEmptyFieldsForTheUndefined) {
  record::Result result;
  result.residues = {{.index = 0,
                      .planned = 4,
                      .n = 4,
                      .correct = 1,
                      .accuracy = 0.25,
                      .low = 0.1,
                      .high = 0.5,
                      .mean_logprob = -1.5},
                     {.index = 5, .planned = 4}};
  EXPECT_EQ(residues_csv(result),
            "residue,n,correct,accuracy,low,high,phase,mean_logprob\n"
            "0,4,1,0.25,0.1,0.5,,-1.5\n"
            "5,0,,,,,,\n");
  result.folded = record::Folded{.stride = 4};
  EXPECT_EQ(residues_csv(result),
            "residue,n,correct,accuracy,low,high,phase,mean_logprob\n"
            "0,4,1,0.25,0.1,0.5,0,-1.5\n"
            "5,0,,,,,1,\n");
}

TEST(Csv, IsOnlyAHeaderWithoutResidues) {
  EXPECT_EQ(residues_csv({}), "residue,n,correct,accuracy,low,high,phase,mean_logprob\n");
}

}  // namespace
}  // namespace kvphase::report
