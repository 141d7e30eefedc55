#include "record/observation.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kvphase::record {
namespace {

Observation example() {
  return {.item = 3,
          .residue = 5,
          .target_position = 29,
          .query_position = 96,
          .length = 97,
          .expected = "v7",
          .answer = "v9 \"quoted\"",
          .reply_class = "other_record",
          .correct = false,
          .logprob = -2.25,
          .margin = -0.125};
}

TEST(Observation, RoundTripsThroughALine) {
  EXPECT_EQ(parse_observation(format_observation(example()), "journal"), example());
  Observation missing = example();
  missing.correct.reset();
  missing.logprob.reset();
  missing.margin.reset();
  missing.repeat = 2;
  EXPECT_EQ(parse_observation(format_observation(missing), "journal"), missing);
}

TEST(Observation, RefusesIncompleteAndUnknownFields) {
  EXPECT_THROW(parse_observation("{\"item\": 1}", "journal"), base::Error);
  std::string line = format_observation(example());
  line.insert(1, "\"itme\":1,");
  EXPECT_THROW(parse_observation(line, "journal"), base::Error);
  EXPECT_THROW(parse_observation("{", "journal"), base::Error);
}

}  // namespace
}  // namespace kvphase::record
