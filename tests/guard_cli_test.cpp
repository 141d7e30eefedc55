// `kvphase guard` as a user runs it: it listens, passes on, guards, prints nothing of what passes.
#include <gmock/gmock.h>
#include <httplib.h>
#include <signal.h>

#include <thread>

#include "tests/scripted_server/engines.h"
#include "tests/support/program.h"

namespace kvphase {
namespace {

using test::Outcome;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class GuardCli : public test::Program {};

TEST_F(GuardCli, ListensOnLoopbackPassesGuardsCountsAndPrintsNothingOfIt) {
  scripted::EngineOptions engine;
  engine.model = [](const std::vector<std::int32_t>&) {
    return std::vector<scripted::Alternative>{{1, -0.1}};
  };
  engine.say = [](std::int32_t) { return "the-answer"; };
  scripted::ScriptedServer server(scripted::chat_api(engine));
  Outcome outcome;
  std::thread program([&] {
    outcome = run(fmt::format("guard --upstream {}/v1 --port 0 --policy majority", server.url()),
                  ".out", R"(sh -c 'echo $$ >.pid; exec "$0" "$@"')");
  });
  std::string url;  // printed once it listens
  for (int i = 0; i < 3000 && !url.ends_with('\n'); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (std::filesystem::exists(folder_ / ".out")) url = read(".out");
  }
  ASSERT_THAT(url, ::testing::MatchesRegex("http://127.0.0.1:[0-9]+\n"));
  httplib::Client client(url.substr(0, url.size() - 1));
  client.set_read_timeout(10);
  const auto health = client.Get("/kvphase/health");
  const std::string body =
      R"({"model":"m:guard","messages":[{"role":"user","content":"the-prompt"}]})";
  const auto reply = client.Post("/v1/chat/completions", {{"Authorization", "Bearer sk-the-key"}},
                                 body, "application/json");
  const auto models = client.Get("/v1/models");
  const auto metrics = client.Get("/kvphase/metrics");
  ::kill(std::stoi(read(".pid")), SIGINT);
  program.join();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, url);
  ASSERT_TRUE(health && reply && models && metrics);
  EXPECT_EQ(reply->get_header_value("X-Kvphase-Guard"), "agree");
  EXPECT_THAT(reply->body, HasSubstr("\"policy\":\"majority\""));
  EXPECT_EQ(models->status, 200);
  EXPECT_THAT(metrics->body, HasSubstr("kvphase_guard_requests_total{outcome=\"guarded\"} 1"));
  for (const std::string& text : {outcome.out, outcome.err, metrics->body}) {
    EXPECT_THAT(text, AllOf(Not(HasSubstr("sk-the-key")), Not(HasSubstr("the-prompt")),
                            Not(HasSubstr("the-answer"))));
  }
}

TEST_F(GuardCli, BadArgumentsAreRefusedInOneLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "--upstream"},
      {"--upstream nowhere", "http"},
      {"--upstream http://127.0.0.1:1 --policy majorty", "did you mean 'majority'"},
      {"--upstream http://127.0.0.1:1 --filler 'a b'", "one word"},
      {"--upstream http://127.0.0.1:1 -k 17", "2 to 16"}};
  for (const auto& [arguments, says] : cases) {
    const Outcome outcome = run(fmt::format("guard {}", arguments));
    EXPECT_EQ(outcome.code, 2) << arguments << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(says));
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.err;
  }
}

}  // namespace
}  // namespace kvphase
