// A whole audit over HTTP against a scripted engine: the same observations as the same model
// audited in this process, and what goes wrong on the way stays visible.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "audit/runner.h"
#include "endpoint/endpoint_model.h"
#include "record/journal.h"
#include "task/lookup.h"
#include "tests/scripted_server/engines.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;
using endpoint::Client;
using endpoint::ClientOptions;
using endpoint::EndpointModel;

// The scripted model without HTTP.
class LocalModel : public lm::LanguageModel {
 public:
  explicit LocalModel(scripted::Model model) : model_(std::move(model)) {}
  lm::ModelIdentity identity() const override { return {.name = "local", .kind = "checkpoint"}; }
  lm::ModelTraits traits() const override { return {}; }
  std::vector<lm::TokenId> tokenize(std::string_view) override { return {}; }
  std::string detokenize(std::span<const lm::TokenId>) override { return ""; }
  void generate(const lm::GenerateRequest&,
                const std::function<bool(const lm::GeneratedToken&)>&) override {}
  void score_each(std::span<const lm::ScoreRequest> requests, const OnScore& on_reply) override {
    std::size_t index = 0;
    for (const auto& request : requests) {
      const auto top = model_(request.prompt);
      lm::ScoreReply reply{.top = top[0].token};
      double other = -1e9;
      for (const auto& [token, logprob] : top) {
        if (token == request.target) {
          reply.target_logprob = logprob;
        } else {
          other = std::max(other, logprob);
        }
      }
      if (reply.target_logprob) reply.margin = *reply.target_logprob - other;
      on_reply(index++, reply);
    }
  }

 private:
  scripted::Model model_;
};

class AuditOverHttp : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-http-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  audit::AuditRun run_over_http(const scripted::Handler& handler, const std::string& name) {
    scripted::ScriptedServer server(handler);
    server.keep_requests(false);
    ClientOptions options;
    options.environment = [](const std::string&) { return std::nullopt; };
    options.retry.attempts = 1;
    EndpointModel model(std::make_shared<Client>(server.url(), options), {});
    return audit::run_audit(model, task_, {.folder = root_ / name}, nullptr);
  }

  fs::path root_;
  task::LookupTask task_{{.language = {.haystack = 30, .records = 5, .queries = 5},
                          .demonstrations = 2,
                          .modulus = 8,
                          .items = 64,
                          .seed = 1}};
  scripted::Model weak_ =
      scripted::lookup_model([](std::int64_t position) { return position % 4 == 3; });
};

TEST_F(AuditOverHttp, GivesTheSameObservationsAsTheSameModelInThisProcess) {
  LocalModel local(weak_);
  const auto expected = audit::run_audit(local, task_, {.folder = root_ / "local"}, nullptr);
  for (const auto& handler :
       {scripted::vllm_engine({.model = weak_}, "kvphase"),
        scripted::sglang_engine({.model = weak_}), scripted::llama_cpp_engine({.model = weak_})}) {
    const auto run = run_over_http(handler, "run" + std::to_string(::rand()));
    EXPECT_TRUE(run.observations == expected.observations);
    ASSERT_EQ(run.observations.size(), 512U);
    for (const auto& observation : run.observations) {
      EXPECT_EQ(observation.correct, observation.target_position % 4 != 3);
    }
  }
}

TEST_F(AuditOverHttp, Row31APhaseWhoseRequestsFailIsMissingInTheJournalAndNeverRight) {
  scripted::EngineOptions options{.model = weak_};
  options.fault = [](const scripted::Request& request) -> std::optional<scripted::Reply> {
    const auto prompt = request.json()["prompt"].get<std::vector<std::int32_t>>();
    const auto at = std::find(prompt.begin(), prompt.end(), prompt.back()) - prompt.begin();
    if (at % 8 != 6) return std::nullopt;
    return scripted::Reply{.status = 500, .body = "{\"error\":\"worker died\"}"};
  };
  const auto run = run_over_http(scripted::vllm_engine(options), "run");
  auto journal = record::read_journal(root_ / "run" / "journal.jsonl");  // as the replies came
  std::sort(journal.begin(), journal.end(), [](const auto& a, const auto& b) {
    return std::pair(a.item, a.residue) < std::pair(b.item, b.residue);
  });
  EXPECT_TRUE(journal == run.observations);
  for (const auto& observation : run.observations) {
    EXPECT_EQ(observation.correct.has_value(), observation.residue != 6);
    if (observation.residue == 6) {
      EXPECT_EQ(observation.reply_class, "server_error");
      EXPECT_EQ(observation.answer, "");
    }
  }
}

}  // namespace
}  // namespace kvphase
