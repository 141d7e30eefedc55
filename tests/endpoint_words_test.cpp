// Tasks in words over HTTP as a user runs them: as token ids, as text and as a chat, cold and warm.
#include <gmock/gmock.h>

#include <map>

#include "task/words.h"
#include "tests/support/endpoint_program.h"

namespace kvphase {
namespace {

using test::completions;
using test::Outcome;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kRecords = "--task records --items 16 --per-haystack 8 --haystack 512 -q ";

// Answers " key word is" at the prompt's end with what follows the same words earlier in it;
// with another word where `wrong` says so of their first token's position.
scripted::Model records_model(std::function<bool(std::int64_t)> wrong) {
  return [wrong = std::move(wrong)](const std::vector<std::int32_t>& prompt) {
    const std::size_t n = prompt.size();
    const std::int32_t other = scripted::scripted_tokens("about")[0];
    for (std::size_t i = 0; i + 3 < n; ++i) {
      if (n < 7 || !std::equal(prompt.end() - 3, prompt.end(),
                               prompt.begin() + static_cast<std::ptrdiff_t>(i)))
        continue;
      const std::int32_t right = prompt[i + 3];
      if (wrong(static_cast<std::int64_t>(i))) {
        return std::vector<scripted::Alternative>{{other, -0.5}, {right, -2}};
      }
      return std::vector<scripted::Alternative>{{right, -0.125}, {other, -3}};
    }
    return std::vector<scripted::Alternative>{{other, -0.5}};
  };
}

scripted::EngineOptions records_engine() {
  std::map<std::int32_t, std::string> texts;
  for (const std::string& word : task::candidate_words()) {
    const auto ids = scripted::scripted_tokens(word);
    if (ids.size() == 1) texts.emplace(ids[0], " " + word);
  }
  return {.model = records_model([](std::int64_t position) { return position % 4 == 3; }),
          .context = 100'000,
          .say = [texts](std::int32_t token) {
            const auto found = texts.find(token);
            return found == texts.end() ? " unknown" : found->second;
          }};
}

class EndpointWords : public test::EndpointProgram {
 protected:
  // Period 4 was found, and every journalled position is the server's up to one rotation.
  void expect_period_4(const std::string& folder, bool absolute) const {
    const record::Result found = result(folder);
    EXPECT_EQ(found.period.value, 4) << found.verdict.sentence;
    EXPECT_EQ(found.design.missing, 0);
    std::map<bool, std::map<std::int64_t, int>> phases;  // of right and of wrong answers
    for (const record::Observation& o : journal(folder)) {
      ASSERT_TRUE(o.correct) << o.reply_class;
      ++phases[*o.correct][o.target_position % 4];
    }
    EXPECT_EQ(phases[false].size(), 1U);
    EXPECT_EQ(phases[true].size(), 3U);
    if (absolute) {
      EXPECT_EQ(phases[false].begin()->first, 3);
    }
    EXPECT_EQ(found.context.warnings.empty(), absolute);
  }
};

TEST_F(EndpointWords, RecordsAsTokenIdsHaveAbsolutePositions) {
  const std::pair<const char*, scripted::Handler> engines[] = {
      {"vllm", scripted::vllm_engine(records_engine())},
      {"llama", scripted::llama_cpp_engine(records_engine())}};
  for (const auto& [name, handler] : engines) {
    scripted::ScriptedServer server(handler);
    const Outcome outcome = run(fmt::format("audit {} {} --out {}", server.url(), kRecords, name));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    expect_period_4(name, true);
    EXPECT_EQ(base::Json::parse(read(std::string(name) + "/manifest.json"))["server"]["form"],
              "tokens");
  }
}

TEST_F(EndpointWords, RecordsAsTextWithABosHaveAbsolutePositionsThroughTheTokenizer) {
  scripted::EngineOptions options = records_engine();
  options.bos = 1;
  scripted::ScriptedServer server(scripted::vllm_engine(options));
  const Outcome outcome =
      run(fmt::format("audit {} {} --form text --out run", server.url(), kRecords));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_period_4("run", true);
}

TEST_F(EndpointWords, RecordsAsAChatHaveRelativePhases) {
  scripted::EngineOptions options = records_engine();
  options.template_overhead = 7;
  scripted::ScriptedServer server(scripted::chat_api(options));
  const Outcome outcome = run(fmt::format("audit {} {} --out run", server.url(), kRecords));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_period_4("run", false);
  EXPECT_THAT(outcome.out, HasSubstr("relative"));
  EXPECT_EQ(result("run").context.model_name, "hosted");
}

TEST_F(EndpointWords, Row5OllamasSilentTruncationStopsTheRunBeforeItIsPaid) {
  scripted::EngineOptions options = records_engine();
  options.context = 400;
  scripted::ScriptedServer server(scripted::ollama_engine(options));
  const Outcome outcome = run(fmt::format("audit {} {} --out run", server.url(), kRecords));
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("truncated"));
  const Outcome longer =
      run(fmt::format("audit {} {} --context 2000 --out run", server.url(), kRecords));
  EXPECT_EQ(longer.code, 0) << longer.err;
  expect_period_4("run", false);
}

TEST_F(EndpointWords, AFormWhoseCountsAreNotStableGivesWayToTheNext) {
  scripted::EngineOptions options = records_engine();
  options.returns_ids = false;
  options.usage = [](std::int64_t n, const scripted::Request& request) {
    return request.path == "/v1/completions" ? n + request.index % 3 : n;
  };
  scripted::ScriptedServer server(scripted::vllm_engine(options));
  const Outcome outcome = run(fmt::format("audit {} {} --out run", server.url(), kRecords));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("trying text"), HasSubstr("trying chat")));
  const Outcome only = run(fmt::format("audit {} {} --form text --out no", server.url(), kRecords));
  EXPECT_EQ(only.code, 5) << only.err;
}

TEST_F(EndpointWords, ADryRunWithSharedHaystacksSaysWhatTheCacheSavesAndAsksNothing) {
  scripted::ScriptedServer server(scripted::chat_api(records_engine()));
  const Outcome outcome =
      run(fmt::format("audit {} {} --dry-run --price-in 1 --price-cached 0.1 --price-out 4",
                      server.url(), kRecords));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(completions(server), 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("sharing the prompt cache"), HasSubstr("% cached")));
  fmt::print("{}", outcome.out);
}

TEST_F(EndpointWords, TheOtherTasksRunOverHttpToo) {
  scripted::ScriptedServer server(scripted::vllm_engine(records_engine()));
  for (const char* task : {"needle --items 8", "completion --items 8"}) {
    const Outcome outcome = run(fmt::format("audit {} --task {} -R 4 --haystack 128 -q --out {}",
                                            server.url(), task, std::string(task).substr(0, 6)));
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 3) << task << outcome.err;
  }
}

TEST_F(EndpointWords, TwoFactorsTellTheNeedlesPhaseFromTheEnds) {
  scripted::ScriptedServer server(scripted::vllm_engine(records_engine()));
  const Outcome outcome =
      run(fmt::format("audit {} {} --pad-at two-factor --out both", server.url(), kRecords));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(result("both").period.value, 4);
  EXPECT_FALSE(result("both/by-end").period.value) << result("both/by-end").verdict.sentence;
  EXPECT_THAT(read("both/result.json"), HasSubstr("By the phase of the prompt's end (both/by-end"));
}

TEST_F(EndpointWords, AnEngineWeakAtSomeEndsShowsByTheEndAndNotByTheNeedle) {
  scripted::EngineOptions options = records_engine();
  const scripted::Model right = records_model([](std::int64_t) { return false; });
  const scripted::Model wrong = records_model([](std::int64_t) { return true; });
  options.model = [right, wrong](const std::vector<std::int32_t>& prompt) {
    return prompt.size() % 4 == 2 ? wrong(prompt) : right(prompt);
  };
  scripted::ScriptedServer server(scripted::vllm_engine(options));
  const char* many = "--task records --items 64 --per-haystack 16 --haystack 768 -q";
  const Outcome both =
      run(fmt::format("audit {} {} --pad-at two-factor --out both", server.url(), many));
  // Each item has its own pattern by the needle, which is neither a period nor noise.
  ASSERT_TRUE(both.code == 0 || both.code == 3) << both.err;
  EXPECT_FALSE(result("both").period.value) << result("both").verdict.sentence;
  EXPECT_EQ(result("both/by-end").period.value, 4) << result("both/by-end").verdict.sentence;
  const Outcome after =
      run(fmt::format("audit {} {} --pad-at after-needle --out after", server.url(), kRecords));
  ASSERT_EQ(after.code, 0) << after.err;
  EXPECT_EQ(result("after").period.value, 4) << result("after").verdict.sentence;
  // Positions count from 0: a prompt of n tokens ends at n - 1.
  EXPECT_EQ(result("after").worst.group.value() % 4, 1);
}

TEST_F(EndpointWords, ALongStrideIsAskedAtSomeResidues) {
  scripted::EngineOptions options = records_engine();
  options.model = records_model([](std::int64_t position) { return position % 128 == 127; });
  scripted::ScriptedServer server(scripted::vllm_engine(options));
  const Outcome outcome =
      run(fmt::format("audit {} --task records --modulus 128 --items 16 --per-haystack 8 "
                      "--haystack 4096 -q --out long",
                      server.url()));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(journal("long").size(), result("long").design.items * 11U);
  EXPECT_EQ(result("long").worst.group, 127) << result("long").verdict.sentence;
  EXPECT_THAT(outcome.out, HasSubstr("11 of 128 residues"));
}

}  // namespace
}  // namespace kvphase
