// `kvphase audit http://...` as a user runs it, against scripted engines: what it finds, its exit
// codes, what it keeps, and what never gets out.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <optional>

#include "tests/support/endpoint_program.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;
using test::completions;
using test::kLookupTask;
using test::Outcome;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class EndpointCli : public test::EndpointProgram {
 protected:
  void write_language() const {
    fs::create_directories(folder_ / "model");
    write("model/card.json", base::Json{{"language", test::lookup_language()}}.dump());
  }
};

TEST_F(EndpointCli, FindsThePeriodOfAServerWithoutASingleOption) {
  scripted::ScriptedServer server(scripted::vllm_engine(test::weak_lookup(), "kvphase"));
  const Outcome outcome =
      run(fmt::format("audit {} --items 64 -R 8 --demonstrations 2 --out run", server.url()));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("Period 4"));
  const record::Result found = result("run");
  EXPECT_EQ(found.period.value, 4);
  EXPECT_EQ(found.folded->source, "model");
  EXPECT_EQ(found.folded->phases[3].correct, 0);
  EXPECT_EQ(found.folded->phases[2].correct, found.folded->phases[2].n);
  EXPECT_TRUE(found.folded->phases[3].boundary);
  EXPECT_EQ(found.context.model_kind, "endpoint");
  EXPECT_THAT(found.positions.note, HasSubstr("absolute"));
  for (const record::Observation& o : journal("run")) {
    EXPECT_EQ(o.correct, o.target_position % 4 != 3) << o.item << " " << o.residue;
    EXPECT_TRUE(o.logprob && o.margin);
  }
  const base::Json manifest = base::Json::parse(read("run/manifest.json"));
  EXPECT_EQ(manifest["server"]["kind"], "kvphase");
  EXPECT_EQ(manifest["server"]["form"], "tokens");
  EXPECT_EQ(manifest["server"]["overhead"], 0);
}

TEST_F(EndpointCli, ExitCodesFollowTheRequirements) {
  const struct {
    scripted::EngineOptions engine;
    const char* require;
    int code;
  } cases[] = {{test::weak_lookup(), "--require 'worst>=0.5'", 1},
               {test::weak_lookup(), "--require no-period", 1},
               {test::weak_lookup(), "--require 'gap<=0.1'", 1},
               {test::strong_lookup(), "--require 'worst>=0.9'", 0},
               {test::strong_lookup(), "--require 'gap<=0.1'", 0},
               {test::strong_lookup(), "--require no-period", 0},
               {test::strong_lookup(), "--require 'worst>=0.999'", 3}};
  int run_number = 0;
  for (const auto& [engine, require, code] : cases) {
    scripted::ScriptedServer server(scripted::vllm_engine(engine, "kvphase"));
    const Outcome outcome = run(fmt::format("audit {} {} {} --out run{}", server.url(), kLookupTask,
                                            require, run_number++));
    EXPECT_EQ(outcome.code, code) << require << "\n" << outcome.out << outcome.err;
  }
}

TEST_F(EndpointCli, EveryEngineThatTakesIdsIsAuditedWithALanguageFolder) {
  write_language();
  scripted::EngineOptions options = test::weak_lookup();
  options.card = {};
  const std::pair<const char*, scripted::Handler> engines[] = {
      {"llama", scripted::llama_cpp_engine(options)},
      {"vllm", scripted::vllm_engine(options)},
      {"sglang", scripted::sglang_engine(options)}};
  for (const auto& [name, handler] : engines) {
    scripted::ScriptedServer server(handler);
    const Outcome outcome = run(
        fmt::format("audit {}/v1 {} --language model --out {}", server.url(), kLookupTask, name));
    ASSERT_EQ(outcome.code, 0) << name << outcome.err;
    EXPECT_EQ(result(name).period.value, 4) << name;
    EXPECT_EQ(result(name).folded->source, "detected");
  }
  EXPECT_EQ(findings("llama")["residues"], findings("vllm")["residues"]);
  scripted::ScriptedServer chat(scripted::chat_api(options));
  const Outcome refused = run(
      fmt::format("audit {} {} --task lookup --language model --out no", chat.url(), kLookupTask));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("token-id prompts"));
  EXPECT_FALSE(fs::exists(folder_ / "no"));
}

TEST_F(EndpointCli, SequentialAuditsStopEarlyOverHttpToo) {
  scripted::ScriptedServer server(scripted::vllm_engine(test::weak_lookup(), "kvphase"));
  const Outcome outcome = run(fmt::format(
      "audit {} {} --sequential --require 'worst>=0.5' --out run", server.url(), kLookupTask));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const record::Result found = result("run");
  ASSERT_TRUE(found.sequential);
  EXPECT_LT(found.sequential->prompts, found.sequential->planned);
  EXPECT_EQ(found.folded->worst.group, 3);
}

// --- positions ---

TEST_F(EndpointCli, Rows2And3AConstantSurplusMakesPhasesRelativeAndSaysSoEverywhere) {
  scripted::EngineOptions options = test::weak_lookup();
  options.usage = [](std::int64_t n, const scripted::Request&) { return n + 11; };
  options.returns_ids = false;
  scripted::ScriptedServer server(scripted::vllm_engine(options, "kvphase"));
  const Outcome outcome = run(fmt::format("audit {} {} --out run", server.url(), kLookupTask));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const record::Result found = result("run");
  EXPECT_EQ(found.period.value, 4);
  EXPECT_EQ(found.design.missing, 0);
  EXPECT_FALSE(found.folded->phases[3].boundary) << "relative phases have no boundary";
  for (const std::string& text : {outcome.out, read("run/report.html"), found.positions.note}) {
    EXPECT_THAT(text, HasSubstr("elative"));
  }
}

TEST_F(EndpointCli, WithoutAPositionProofNothingIsRunAndTheCodeIs5) {
  scripted::EngineOptions unstable = test::weak_lookup();
  unstable.returns_ids = false;
  unstable.usage = [](std::int64_t n, const scripted::Request& request) {
    return n + request.index % 2;
  };
  scripted::EngineOptions truncated = test::weak_lookup();
  truncated.returns_ids = false;
  truncated.usage = [](std::int64_t, const scripted::Request&) { return std::int64_t{20}; };
  scripted::EngineOptions silent = test::weak_lookup();
  silent.returns_ids = false;
  silent.report_usage = false;
  const std::pair<scripted::EngineOptions, const char*> cases[] = {
      {unstable, "not constant"}, {truncated, "truncated"}, {silent, "usage"}};
  for (const auto& [options, why] : cases) {
    scripted::ScriptedServer server(scripted::vllm_engine(options, "kvphase"));
    const Outcome outcome = run(fmt::format("audit {} {} --out run", server.url(), kLookupTask));
    EXPECT_EQ(outcome.code, 5) << why << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(why));
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.err;
    EXPECT_FALSE(fs::exists(folder_ / "run"));
    EXPECT_LE(completions(server), 3);
  }
}

TEST_F(EndpointCli, APromptThatIsCountedDifferentlyInTheRunIsMissingNotWrong) {
  scripted::EngineOptions options = test::strong_lookup();
  options.returns_ids = false;
  options.usage = [](std::int64_t n, const scripted::Request& request) {
    return request.index > 10 && request.index % 5 == 0 ? n / 2 + 2 : n;
  };
  scripted::ScriptedServer server(scripted::vllm_engine(options, "kvphase"));
  const Outcome outcome = run(fmt::format("audit {} {} --out run", server.url(), kLookupTask));
  EXPECT_EQ(outcome.code, 4) << "a fifth is missing\n" << outcome.err;
  const record::Result found = result("run");
  EXPECT_GT(found.design.missing, 64);
  EXPECT_EQ(found.mean.value, 1.0);
  EXPECT_THAT(read("run/journal.jsonl"), HasSubstr("prompt_truncated"));
}

// --- cost ---

TEST_F(EndpointCli, ADryRunAsksOnlyFreeQuestionsAndSaysWhatItWouldCost) {
  scripted::ScriptedServer server(scripted::vllm_engine(test::weak_lookup(), "kvphase"));
  const Outcome outcome = run(fmt::format(
      "audit {} {} --dry-run --price-in 2 --price-out 8 --out run", server.url(), kLookupTask));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(completions(server), 0);
  EXPECT_FALSE(fs::exists(folder_ / "run"));
  // 512 prompts and 3 of the proof, 36 tokens each, one token of answer.
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("515"), HasSubstr("18,540"), HasSubstr("0.0412")));
  fmt::print("{}", outcome.out);
}

TEST_F(EndpointCli, ACapRefusesAPlanThatBreaksItBeforeAnythingIsAsked) {
  scripted::ScriptedServer server(scripted::vllm_engine(test::weak_lookup(), "kvphase"));
  for (const char* cap :
       {"--max-requests 514", "--max-tokens 18000", "--price-in 2 --price-out 8 --max-cost 0.04"}) {
    const Outcome outcome =
        run(fmt::format("audit {} {} {} --out run", server.url(), kLookupTask, cap));
    EXPECT_EQ(outcome.code, 2) << cap;
    EXPECT_THAT(outcome.err, HasSubstr("caps"));
    EXPECT_EQ(completions(server), 0);
  }
  const Outcome enough =
      run(fmt::format("audit {} {} --max-requests 515 --out run", server.url(), kLookupTask));
  EXPECT_EQ(enough.code, 0) << enough.err;
  EXPECT_EQ(completions(server), 515);
}

TEST_F(EndpointCli, RetriesNeverExceedACapAndTheRunCanBeResumed) {
  scripted::EngineOptions options = test::weak_lookup();
  options.fault = [](const scripted::Request& request) -> std::optional<scripted::Reply> {
    if (request.index % 10 != 9) return std::nullopt;
    return scripted::Reply{.status = 429, .headers = {{"Retry-After", "0"}}, .body = "{}"};
  };
  scripted::ScriptedServer server(scripted::vllm_engine(options, "kvphase"));
  const Outcome stopped =
      run(fmt::format("audit {} {} --max-requests 520 --out run", server.url(), kLookupTask));
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("--max-requests 520"), HasSubstr("--resume run")));
  EXPECT_LE(completions(server), 520);
  for (const record::Observation& o : journal("run")) EXPECT_TRUE(o.correct) << o.reply_class;
  const Outcome resumed =
      run(fmt::format("audit {} {} --max-requests 520 --resume run", server.url(), kLookupTask));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(result("run").design.scored, 512);
}

// --- robustness ---

TEST_F(EndpointCli, ResumingWithAnotherConfigurationIsRefusedWithTheKeysThatDiffer) {
  scripted::ScriptedServer server(scripted::vllm_engine(test::weak_lookup(), "kvphase"));
  ASSERT_EQ(run(fmt::format("audit {} {} --out run", server.url(), kLookupTask)).code, 0);
  const auto resume = [&](const std::string& options) {
    return run(fmt::format("audit {} {} {} --resume run", server.url(), kLookupTask, options));
  };
  const std::pair<const char*, const char*> cases[] = {
      {"--seed 2", "options.seed"},
      {"--top-logprobs 5", "server.top_logprobs"},
      {"--model other", "server.model"},
      {"--stream", "server.stream"},
      {"--answer-tokens 3", "server.answer_tokens"},
      {"--warm", "server.cold"},
      {"--extra '{\"x\":1}'", "server.extra"}};
  for (const auto& [options, key] : cases) {
    const Outcome outcome = resume(options);
    EXPECT_EQ(outcome.code, 2) << options << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(key));
  }
  EXPECT_EQ(resume("").code, 0);
}

TEST_F(EndpointCli, RetryErrorsAsksMissingRepliesOnlyAndKeepsTheOldLines) {
  bool broken = true;
  scripted::EngineOptions options = test::weak_lookup();
  options.fault = [&broken](const scripted::Request& request) -> std::optional<scripted::Reply> {
    if (!broken || request.index < 20 || request.index % 3 != 0) return std::nullopt;
    if (request.index % 2 == 0) {  // the model spoke: final
      return scripted::json_reply(
          {{"choices", {{{"index", 0}, {"text", ""}, {"finish_reason", "content_filter"}}}},
           {"usage", {{"prompt_tokens", 36}, {"completion_tokens", 0}}}});
    }
    return scripted::Reply{.status = 500, .body = "{\"error\":\"worker died\"}"};
  };
  scripted::ScriptedServer server(scripted::vllm_engine(options, "kvphase"));
  const std::string audit = fmt::format("audit {} {} --tries 1 ", server.url(), kLookupTask);
  const Outcome first = run(audit + "--out run");
  EXPECT_EQ(first.code, 4) << first.err;
  EXPECT_THAT(first.err, AllOf(HasSubstr("worker died"), HasSubstr("--retry-errors")));
  const auto before = journal("run");
  const std::string lines_before = read("run/journal.jsonl");
  std::map<std::string, std::int64_t> classes;
  for (const auto& o : before) ++classes[o.reply_class];
  ASSERT_GT(classes["server_error"], 50);
  ASSERT_GT(classes["refused"], 50);
  broken = false;
  const std::int64_t asked = completions(server);
  EXPECT_EQ(run(audit + "--resume run").code, 4) << "resume alone asks nothing again";
  EXPECT_EQ(completions(server), asked + 3);
  EXPECT_EQ(run(audit + "--out new --retry-errors").code, 2);
  const Outcome retried = run(audit + "--resume run --retry-errors --max-missing 0.5");
  EXPECT_EQ(retried.code, 0) << retried.err;
  EXPECT_EQ(completions(server), asked + 6 + classes["server_error"]);
  EXPECT_TRUE(read("run/journal.jsonl").starts_with(lines_before));
  EXPECT_EQ(result("run").design.missing, classes["refused"]);
  const Outcome analysed = run("analyze run --json -q");
  EXPECT_EQ(analysed.code, 0) << analysed.err;
  EXPECT_EQ(base::Json::parse(analysed.out)["design"]["missing"], classes["refused"]);
}

TEST_F(EndpointCli, ErrorsOfTheEnvironmentAreCode4WithTheirCause) {
  const Outcome nobody =
      run(fmt::format("audit http://127.0.0.1:9 {} --out run --junit ci.xml", kLookupTask));
  EXPECT_THAT(read("ci.xml"), AllOf(HasSubstr("<error"), HasSubstr("127.0.0.1:9")));
  EXPECT_EQ(nobody.code, 4);
  EXPECT_THAT(nobody.err, HasSubstr("127.0.0.1:9"));
  scripted::EngineOptions options = test::weak_lookup();
  bool down = false;
  options.fault = [&](const scripted::Request& request) -> std::optional<scripted::Reply> {
    if (request.index < 60 && !down) return std::nullopt;
    return scripted::Reply{.status = 500, .body = "{\"error\":\"out of memory\"}"};
  };
  scripted::ScriptedServer server(scripted::vllm_engine(options, "kvphase"));
  const std::string audit = fmt::format("audit {} {} --tries 1 ", server.url(), kLookupTask);
  const Outcome dies = run(audit + "--out run");
  EXPECT_EQ(dies.code, 4);
  EXPECT_THAT(dies.err, AllOf(HasSubstr("out of memory"), HasSubstr("in a row")));
  EXPECT_GT(journal("run").size(), 50U) << "what was answered is kept";
  EXPECT_LT(completions(server), 100);
  down = true;
  const Outcome down_at_once = run(audit + "--out other");
  EXPECT_EQ(down_at_once.code, 4) << down_at_once.err;
}

TEST_F(EndpointCli, ColdAndWarmRepliesThatAreMixedAreSaid) {
  scripted::EngineOptions options = test::weak_lookup();
  options.fault = [](const scripted::Request& request) -> std::optional<scripted::Reply> {
    if (request.index % 2 == 0) return std::nullopt;
    return scripted::json_reply(
        {{"choices", {{{"index", 0}, {"text", " w5"}, {"finish_reason", "length"}}}},
         {"usage",
          {{"prompt_tokens", 36},
           {"completion_tokens", 1},
           {"prompt_tokens_details", {{"cached_tokens", 32}}}}}});
  };
  scripted::ScriptedServer server(scripted::vllm_engine(options, "kvphase"));
  const Outcome outcome = run(fmt::format("audit {} {} --out run", server.url(), kLookupTask));
  EXPECT_THAT(outcome.out, HasSubstr("Cold and warm replies are mixed")) << outcome.err;
}

// --- keys ---

TEST_F(EndpointCli, Row30NoOutputHoldsTheKeyAlsoWhenTheServerEchoesIt) {
  const std::string key = "hunter2-very-secret-0123456789abcdef";
  scripted::EngineOptions options = test::weak_lookup();
  options.fault = [](const scripted::Request& request) -> std::optional<scripted::Reply> {
    const std::string header = request.header("authorization");
    if (request.index % 4 == 1 && request.index > 8) {
      return scripted::json_reply({{"error", {{"message", "denied for " + header}}}}, 500);
    }
    if (request.index % 4 == 2 && request.index > 8) {
      return scripted::json_reply(
          {{"choices", {{{"index", 0}, {"text", header}, {"finish_reason", "length"}}}},
           {"usage", {{"prompt_tokens", 36}, {"completion_tokens", 1}}}});
    }
    return std::nullopt;
  };
  scripted::ScriptedServer server(scripted::vllm_engine(options, "kvphase"));
  write(".env", "MY_KEY=" + key + "\n");
  const std::string audit =
      fmt::format("audit {} {} --tries 1 --api-key-env MY_KEY --json ", server.url(), kLookupTask);
  const Outcome outcome = run(audit + "--out run");
  ASSERT_EQ(outcome.code, 4) << "a quarter is missing\n" << outcome.err;
  ASSERT_EQ(journal("run").size(), 512U);
  ASSERT_EQ(server.requests().back().header("authorization"), "Bearer " + key);
  fs::remove(folder_ / ".env");
  EXPECT_THAT(everything(), Not(HasSubstr(key)));
  EXPECT_THAT(everything(), Not(HasSubstr("hunter2-very")));
  EXPECT_THAT(everything(), HasSubstr("denied for"));
}

}  // namespace
}  // namespace kvphase
