// `kvphase retest CHECKPOINT` on the reference models: one lookup prompt with its record marked.
#include <gmock/gmock.h>

#include "base/json.h"
#include "tests/support/program.h"

namespace kvphase {
namespace {

using test::Outcome;
using ::testing::HasSubstr;

constexpr const char* kPrompt =
    R"(f2 f0 f15 f8 f7{filler_before} k1 v2{filler_after} f6 f15 f15 k16 v27 f12 f4 f7 k22 v5 f4 f12 f0 k7 v12 f2 f5 f1 k4 v7 f9 f0 f8 k19 v0 f15 f12 f13 k13 v22 f12 f14 f4 k10 v17 f11 f3 k4 v7 k7 v12 k10 v17 k13 v22 k1)";

class RetestLab : public test::Program {
 protected:
  Outcome retest(const std::string& model, const std::string& options) const {
    write("prompt.txt", kPrompt);
    return run(
        fmt::format("retest '{}/{}' prompt.txt --json -q {}", KVPHASE_MODELS, model, options),
        ".out", "OMP_NUM_THREADS=1");
  }
};

TEST_F(RetestLab, TheChunkedModelsAnswerFollowsTheBoundaryPhase) {
  const Outcome outcome = retest("chunked-w4s4", "-k 8 --out run");
  ASSERT_EQ(outcome.code, 1) << outcome.out << outcome.err;
  const base::Json data = base::Json::parse(outcome.out)["data"];
  EXPECT_EQ(data["verdict"], "depends_on_offset");
  EXPECT_EQ(data["stride"], 4);
  EXPECT_EQ(data["follows_stride"], true);
  for (const base::Json& offset : data["offsets"]) {
    EXPECT_EQ(offset["answer"] != "A", offset["phase"] == 3) << offset;
    EXPECT_EQ(offset["steady"], true);
  }
  // Without -k: the stride's number of offsets, with the repeats that decide.
  const base::Json four = base::Json::parse(retest("chunked-w4s4", "--out four").out)["data"];
  EXPECT_EQ(four["offsets"].size(), 4U);
  EXPECT_EQ(four["replies"], 16);
}

TEST_F(RetestLab, FullAttentionAnswersAlikeEverywhere) {
  const Outcome outcome = retest("full-attention", "-k 8 --out run");
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(base::Json::parse(outcome.out)["data"]["replies"], 9);
}

TEST_F(RetestLab, WhatACheckpointCannotReadIsRefusedInOneLine) {
  write("words.txt", "What is the code?");
  write("chat.json", R"([{"role":"user","content":"f1"}])");
  const std::string model = fmt::format("'{}/chunked-w4s4'", KVPHASE_MODELS);
  for (const auto& [arguments, says] :
       {std::pair("words.txt", "token names"), std::pair("chat.json", "chat template"),
        std::pair("words.txt --filler 'f1 f2'", "one token")}) {
    const Outcome outcome = run(fmt::format("retest {} {} --out run", model, arguments));
    EXPECT_EQ(outcome.code, 2) << arguments << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(says));
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.err;
  }
}

}  // namespace
}  // namespace kvphase
