// `kvphase retest http://...` as a user runs it, against scripted engines: what it finds, its exit
// codes, what it keeps, and what it refuses.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "base/random.h"
#include "tests/support/endpoint_program.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;
using test::completions;
using test::Outcome;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int32_t kFact = 7;  // "w7" of the scripted tokenizer

// Answers "K-7731" unless `wrong` says otherwise of the fact's position.
scripted::EngineOptions engine(std::function<bool(std::int64_t)> wrong) {
  scripted::EngineOptions options;
  options.model = [wrong = std::move(wrong)](const std::vector<std::int32_t>& prompt) {
    const auto at = std::ranges::find(prompt, kFact) - prompt.begin();
    const bool is_wrong = wrong(at);
    return std::vector<scripted::Alternative>{{is_wrong ? 2 : 1, -0.1}, {3, -3}};
  };
  options.say = [](std::int32_t token) {
    return token == 1 ? "The code is K-7731." : "The code is K-7781.";
  };
  return options;
}
scripted::EngineOptions weak() {
  return engine([](std::int64_t at) { return at % 4 == 2; });
}
scripted::EngineOptions consistent() {
  return engine([](std::int64_t) { return false; });
}
// Another answer for every other request, whatever the prompt.
scripted::EngineOptions shaky() {
  return engine([count = std::make_shared<std::atomic<int>>(0)](std::int64_t) {
    const int n = ++*count;
    return (n * n / 3) % 2 == 0;
  });
}

class RetestCli : public test::EndpointProgram {
 protected:
  void SetUp() override {
    EndpointProgram::SetUp();
    write("prompt.txt", "Notes: w5 w6 w7 w8. What is the code?");
    write("fact.txt", "Notes:{filler_before} w7 w8{filler_after} rest. What is the code?");
    write("chat.json", R"([{"role":"system","content":"Be brief."},
                           {"role":"user","content":"w6 w7 w8 What is the code?"}])");
  }
  base::Json data(const std::string& folder) const {
    return base::Json::parse(read(folder + "/result.json"))["data"];
  }
};

TEST_F(RetestCli, AWeakPhaseIsFoundOnEveryKindOfServerWithThePromptAsAUserHasIt) {
  const std::pair<const char*, scripted::Handler> servers[] = {
      {"llama", scripted::llama_cpp_engine(weak())},
      {"vllm", scripted::vllm_engine(weak())},
      {"sglang", scripted::sglang_engine(weak())},
      {"ollama", scripted::ollama_engine(weak())},
      {"chat", scripted::chat_api(weak())}};
  for (const auto& [name, handler] : servers) {
    scripted::ScriptedServer server(handler);
    const Outcome outcome =
        run(fmt::format("retest {} prompt.txt -k 4 -q --out {}", server.url(), name));
    EXPECT_EQ(outcome.code, 1) << name << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr("K-77[3]1"), HasSubstr("K-77[8]1"), HasSubstr("depends")));
    const base::Json found = data(name);
    EXPECT_EQ(found["verdict"], "depends_on_offset");
    EXPECT_EQ(found["differing_offsets"].size(), 1U);
    EXPECT_EQ(found["replies"], 16);
    EXPECT_THAT(read(std::string(name) + "/report.html"), HasSubstr("K-77[8]1"));
  }
}

TEST_F(RetestCli, AMarkedFactIsMovedAloneAndItsAbsolutePositionIsNamed) {
  scripted::ScriptedServer server(scripted::vllm_engine(weak()));
  const Outcome outcome =
      run(fmt::format("retest {} fact.txt -k 8 --stride 4 --form tokens --out run", server.url()));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const base::Json found = data("run");
  EXPECT_EQ(found["follows_stride"], true);
  for (const base::Json& offset : found["offsets"]) {
    EXPECT_EQ(offset["answer"] == "B", offset["position"].get<int>() % 4 == 2) << offset;
    EXPECT_EQ(offset["phase"], offset["position"].get<int>() % 4);
  }
  std::set<std::size_t> lengths;
  for (const auto& request : server.requests()) {
    if (request.path == "/v1/completions" && request.json()["max_tokens"] != 1) {
      lengths.insert(request.json()["prompt"].size());
      EXPECT_EQ(request.json()["temperature"], 0);
    }
  }
  EXPECT_EQ(lengths.size(), 1U) << "the prompt's length stays";
}

TEST_F(RetestCli, AConsistentServerAgreesWithKPlusOneReplies) {
  scripted::ScriptedServer server(scripted::chat_api(consistent()));
  const Outcome outcome = run(fmt::format("retest {} chat.json -k 4 --json", server.url()));
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const base::Json result = base::Json::parse(outcome.out);
  EXPECT_EQ(result["schema"], "kvphase.retest/1");
  EXPECT_EQ(result["data"]["verdict"], "agree");
  EXPECT_EQ(result["data"]["replies"], 5);
  EXPECT_TRUE(result["data"]["offsets"][0]["position"].is_null()) << "a chat's is not known";
  bool roles = false;
  for (const auto& request : server.requests()) {
    if (request.path != "/v1/chat/completions") continue;
    const base::Json messages = request.json()["messages"];
    roles = roles || (messages.size() == 2 && messages[0]["role"] == "system");
  }
  EXPECT_TRUE(roles);
  ASSERT_EQ(fs::exists(folder_ / "runs"), true);
  const Outcome again = run(fmt::format("retest {} chat.json -k 4", server.url()));
  EXPECT_EQ(again.code, 2) << "a run folder is never overwritten";
}

TEST_F(RetestCli, AServerThatIsRandomAtTemperatureZeroIsCalledRandom) {
  scripted::ScriptedServer server(scripted::chat_api(shaky()));
  const Outcome outcome = run(fmt::format("retest {} prompt.txt -k 4 --out run", server.url()));
  EXPECT_EQ(outcome.code, 3) << outcome.out << outcome.err;
  EXPECT_EQ(data("run")["verdict"], "random");
  EXPECT_GT(data("run")["unsteady_offsets"], 0);
}

// How often the command is right, over HTTP, words and position proof included. More runs than a
// test's: KVPHASE_RETEST_RUNS=200.
TEST_F(RetestCli, TheCommandsVerdictsAreRightOverManyRuns) {
  const char* wanted = std::getenv("KVPHASE_RETEST_RUNS");
  const int runs = wanted != nullptr ? std::atoi(wanted) : 8;
  auto random = std::make_shared<base::Random>(5);
  const struct {
    const char* name;
    std::function<scripted::EngineOptions(int)> engine;
    int code;
    double least;  // share of runs with this code
  } cases[] = {
      {"wrong at one phase in four",
       [](int run) { return engine([run](std::int64_t at) { return at % 4 == run % 4; }); }, 1,
       0.99},
      {"consistent", [](int) { return consistent(); }, 0, 1},
      // Half of the replies each: five of them agree by chance in 1 of 16 retests.
      {"random at temperature 0",
       [random](int) { return engine([random](std::int64_t) { return random->uniform() < 0.5; }); },
       3, 0.7}};
  for (const auto& [name, make, code, least] : cases) {
    std::map<int, int> codes;
    for (int i = 0; i < runs; ++i) {
      scripted::ScriptedServer server(scripted::chat_api(make(i)));
      ++codes[run(fmt::format("retest {} prompt.txt -k 4 -q --seed {} --out run", server.url(), i))
                  .code];
      fs::remove_all(folder_ / "run");
    }
    std::string all;
    for (const auto& [exit_code, count] : codes) all += fmt::format(" {}: {}", exit_code, count);
    std::printf("%s, %d runs of the command, exit codes%s\n", name, runs, all.c_str());
    EXPECT_GE(codes[code], least * runs) << name;
    const int accused = code == 1 ? 0 : codes[1];
    EXPECT_LE(accused, code == 0 ? 0 : std::max(1, runs / 50)) << name;
  }
}

TEST_F(RetestCli, ExtractComparesThePartThatMatters) {
  scripted::EngineOptions wordy = consistent();
  wordy.model = [](const std::vector<std::int32_t>& prompt) {
    return std::vector<scripted::Alternative>{{static_cast<std::int32_t>(prompt.size()), -0.1}};
  };
  wordy.say = [](std::int32_t n) { return fmt::format("In {} words: K-7731", n); };
  scripted::ScriptedServer server(scripted::chat_api(wordy));
  EXPECT_EQ(run(fmt::format("retest {} prompt.txt -k 4 --out a", server.url())).code, 1);
  const Outcome outcome =
      run(fmt::format("retest {} prompt.txt -k 4 --extract 'K-[0-9]+' --out b", server.url()));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(data("b")["answers"][0]["answer"], "K-7731");
}

TEST_F(RetestCli, WithoutAPositionProofNothingIsAskedAndTheCodeIs5) {
  scripted::EngineOptions options = consistent();
  options.usage = [](std::int64_t n, const scripted::Request& request) {
    return n + request.index % 2;
  };
  scripted::ScriptedServer server(scripted::chat_api(options));
  const Outcome outcome = run(fmt::format("retest {} prompt.txt -k 4 --out run", server.url()));
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("--filler"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(RetestCli, CapsAndDryRunsCostNothing) {
  scripted::ScriptedServer server(scripted::vllm_engine(weak()));
  const Outcome dry = run(fmt::format("retest {} prompt.txt -k 4 --dry-run", server.url()));
  EXPECT_EQ(dry.code, 0);
  EXPECT_THAT(dry.out, AllOf(HasSubstr("5, up to 16"), HasSubstr("20 at most")));
  const Outcome capped =
      run(fmt::format("retest {} prompt.txt -k 4 --max-requests 19", server.url()));
  EXPECT_EQ(capped.code, 2);
  EXPECT_THAT(capped.err, HasSubstr("--max-requests 19"));
  EXPECT_EQ(completions(server), 0);
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(RetestCli, MissingRepliesAreNoAnswersAndCanBeAskedAgain) {
  scripted::EngineOptions options = consistent();
  auto broken = std::make_shared<std::atomic<bool>>(true);
  options.fault = [broken](const scripted::Request& request) -> std::optional<scripted::Reply> {
    // The longest version of the prompt fails, but not its position proof.
    const base::Json body = request.json();
    if (!*broken || body["max_tokens"] == 1) return std::nullopt;
    const auto text = body["messages"][0]["content"].get<std::string>();
    if (text.find("river river river") == std::string::npos) return std::nullopt;
    return scripted::json_reply({{"error", {{"message", "no"}}}}, 500);
  };
  scripted::ScriptedServer server(scripted::chat_api(options));
  const Outcome outcome =
      run(fmt::format("retest {} prompt.txt -k 4 --tries 1 --out run", server.url()));
  EXPECT_EQ(outcome.code, 4) << outcome.out << outcome.err;
  EXPECT_EQ(data("run")["verdict"], "undecided");
  EXPECT_EQ(data("run")["missing"], 1);
  EXPECT_EQ(data("run")["unanswered_offsets"][0], 3);
  *broken = false;
  const Outcome resumed = run(
      fmt::format("retest {} prompt.txt -k 4 --tries 1 --resume run --retry-errors", server.url()));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(data("run")["replies"], 5);
  const Outcome other = run(fmt::format("retest {} chat.json -k 4 --resume run", server.url()));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("prompt_sha256"));
}

TEST_F(RetestCli, AKeyAndThePromptAreInNoFile) {
  scripted::ScriptedServer server(scripted::chat_api(consistent()));
  write("secret.txt", "w7 The password is hunter-nine. What is the code?");
  const Outcome outcome =
      run(fmt::format("retest {} secret.txt -k 2 --out run --api-key-env TKEY", server.url()),
          ".out", "TKEY=sk-very-secret-key-123");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  fs::remove(folder_ / "secret.txt");
  EXPECT_THAT(everything(), AllOf(Not(HasSubstr("sk-very-secret")), Not(HasSubstr("hunter-nine"))));
}

TEST_F(RetestCli, BadInputIsRefusedInOneLine) {
  write("bad.json", "{\"messages\": []}");
  write("slots.txt", "a {filler_after} b");
  const struct {
    const char* arguments;
    const char* says;
  } cases[] = {
      {"http://127.0.0.1:1 nothing.txt", "nothing.txt"},
      {"http://127.0.0.1:1 bad.json", "at least one message"},
      {"http://127.0.0.1:1 slots.txt", "{filler_before}"},
      {"http://127.0.0.1:1 prompt.txt --fact xyz", "0 times"},
      {"http://127.0.0.1:1 prompt.txt --extract '('", "regular expression"},
      {"http://127.0.0.1:1 prompt.txt --top-logprobs 3", "--top-logprobs"},
      {"http://127.0.0.1:1 prompt.txt --threads 2", "--threads only with a checkpoint"},
      {"http://127.0.0.1:1 prompt.txt --retry-errors", "--resume"},
      {"http://127.0.0.1:1 prompt.txt --offsets 0", "offsets"},
      {"nowhere prompt.txt", "checkpoint folder"},
      {"nowhere prompt.txt --form chat", "server's address"},
  };
  for (const auto& [arguments, says] : cases) {
    const Outcome outcome = run(fmt::format("retest {}", arguments));
    EXPECT_EQ(outcome.code, 2) << arguments << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(says));
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.err;
  }
  const Outcome nobody = run("retest http://127.0.0.1:1 prompt.txt --tries 1");
  EXPECT_EQ(nobody.code, 4) << nobody.err;
}

}  // namespace
}  // namespace kvphase
