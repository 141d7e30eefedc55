// `kvphase guard` as a user runs it: it listens, passes on, guards, prints nothing of what passes.
#include <gmock/gmock.h>
#include <httplib.h>

#include <thread>

#include "tests/scripted_server/engines.h"
#include "tests/support/free_port.h"
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
  const std::uint16_t port = test::free_port();
  Outcome outcome;
  std::thread program([&] {
    outcome =
        run(fmt::format("guard --upstream {}/v1 --port {} --policy majority", server.url(), port),
            ".out", "timeout --preserve-status -s INT 4");
  });
  httplib::Client client("127.0.0.1", port);
  client.set_read_timeout(10);
  bool healthy = false;
  for (int i = 0; i < 200 && !healthy; ++i) {
    healthy = static_cast<bool>(client.Get("/kvphase/health"));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(healthy);
  const std::string body =
      R"({"model":"m:guard","messages":[{"role":"user","content":"the-prompt"}]})";
  const auto reply = client.Post("/v1/chat/completions", {{"Authorization", "Bearer sk-the-key"}},
                                 body, "application/json");
  const auto models = client.Get("/v1/models");
  const auto metrics = client.Get("/kvphase/metrics");
  program.join();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, fmt::format("http://127.0.0.1:{}\n", port));
  ASSERT_TRUE(reply && models && metrics);
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
