// `kvphase compare` against scripted engines that differ in one known way.
#include <gmock/gmock.h>

#include "tests/support/endpoint_program.h"

namespace kvphase {
namespace {

using test::completions;
using test::lookup_engine;
using test::Outcome;
using ::testing::HasSubstr;

bool weak(std::int64_t position) { return position % 4 == 3; }

class EndpointCompare : public test::EndpointProgram {
 protected:
  base::Json compare(const scripted::Handler& a, const scripted::Handler& b,
                     const std::string& options = "") {
    scripted::ScriptedServer server_a(a);
    scripted::ScriptedServer server_b(b);
    const Outcome outcome = run(fmt::format("compare {} {} {} {} --json --out cmp", server_a.url(),
                                            server_b.url(), test::kLookupTask, options));
    code_ = outcome.code;
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 1) << outcome.err;
    return outcome.code == 0 || outcome.code == 1 ? base::Json::parse(outcome.out)[0] : nullptr;
  }
  int code_ = 0;
};

TEST_F(EndpointCompare, TheSameModelBehindTwoEnginesShowsNoDifference) {
  const auto c = compare(scripted::vllm_engine(lookup_engine(weak), "kvphase"),
                         scripted::vllm_engine(lookup_engine(weak), "kvphase"), "--require-same");
  EXPECT_EQ(c["kind"], "none") << c["sentence"];
  EXPECT_EQ(code_, 0);
  EXPECT_EQ(c["all"]["n"], 512);
  EXPECT_EQ(c["all"]["flips"], 0);
  EXPECT_EQ(c["all"]["total_variation"], 0.0);
  EXPECT_EQ(c["noise"]["flips"], 0);
}

TEST_F(EndpointCompare, OneTokenThatNobodyCountsIsARotation) {
  const auto hidden = lookup_engine([](std::int64_t position) { return weak(position + 1); });
  const auto c = compare(scripted::vllm_engine(lookup_engine(weak), "kvphase"),
                         scripted::vllm_engine(hidden, "kvphase"), "--require-same");
  EXPECT_EQ(c["kind"], "rotation") << c["sentence"];
  EXPECT_EQ(c["rotation"]["shift"], 1);
  EXPECT_EQ(c["rotation"]["every"], 4);
  EXPECT_EQ(code_, 1) << "the same was required";
  EXPECT_GT(c["all"]["total_variation"].get<double>(), 0.1);
}

TEST_F(EndpointCompare, AWeakPhaseOfOneEngineIsAPeriod) {
  const auto strong = lookup_engine([](std::int64_t) { return false; });
  const auto c = compare(scripted::vllm_engine(strong, "kvphase"),
                         scripted::vllm_engine(lookup_engine(weak), "kvphase"));
  EXPECT_EQ(c["kind"], "period") << c["sentence"];
  EXPECT_EQ(c["period"], 4);
  EXPECT_EQ(c["residues"][3]["flips"], 64);
  EXPECT_EQ(c["residues"][2]["flips"], 0);
}

TEST_F(EndpointCompare, AnEngineThatForgetsLongPromptsHasAThreshold) {
  auto forgets = lookup_engine(weak);
  const scripted::Model model = forgets.model;
  forgets.model = [model](const std::vector<std::int32_t>& prompt) {
    return model(prompt.size() < 60 ? prompt : std::vector<std::int32_t>{prompt.back()});
  };
  const auto c = compare(scripted::vllm_engine(lookup_engine(weak), "kvphase"),
                         scripted::vllm_engine(forgets, "kvphase"), "--lengths 30,40,60,80");
  EXPECT_EQ(c["kind"], "threshold") << c["sentence"];
  EXPECT_EQ(c["threshold"], 66);
  EXPECT_EQ(c["lengths"].size(), 4U);
}

TEST_F(EndpointCompare, AStoppedComparisonGoesOnWithoutAskingTwice) {
  scripted::ScriptedServer a(scripted::vllm_engine(lookup_engine(weak), "kvphase"));
  scripted::ScriptedServer b(scripted::vllm_engine(lookup_engine(weak), "kvphase"));
  const std::string both = fmt::format("compare {} {} {}", a.url(), b.url(), test::kLookupTask);
  // The cap of the second server's run is hit after the first one's are done.
  ASSERT_EQ(run(both + " --out cmp").code, 0);
  std::filesystem::remove(folder_ / "cmp/b/result.json");
  const auto before = completions(a);
  EXPECT_EQ(run(both + " --out cmp").code, 2) << "an old folder is never overwritten";
  const Outcome again = run(both + " --resume cmp");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(completions(a), before) << "A was done";
  EXPECT_THAT(read("cmp/comparison.txt"), HasSubstr("No difference beyond noise"));
}

TEST_F(EndpointCompare, BadAddressesAndOneServerAreRefused) {
  EXPECT_EQ(run("compare http://127.0.0.1:1").code, 2);
  EXPECT_EQ(run("compare one two").code, 2);
  EXPECT_EQ(run("compare http://127.0.0.1:1 http://127.0.0.1:1 --tries 1 -q").code, 4);
  const Outcome keys = run("compare http://127.0.0.1:1 http://127.0.0.1:2 --api-key-env MY_KEY");
  EXPECT_EQ(keys.code, 2) << "one provider's key is nobody else's";
  EXPECT_THAT(keys.err, HasSubstr("one origin"));
}

}  // namespace
}  // namespace kvphase
