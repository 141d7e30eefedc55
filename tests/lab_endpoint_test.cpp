// Our reference checkpoints behind `kvphase serve`, audited over HTTP without a single option about
// the server: the same answers, prompt by prompt, as the local audit with the same items and seed.
#include <gmock/gmock.h>
#include <signal.h>

#include <cmath>
#include <fstream>
#include <thread>

#include "record/journal.h"
#include "record/result.h"
#include "tests/support/program.h"

namespace kvphase {
namespace {

using test::Outcome;
using ::testing::HasSubstr;

std::vector<record::Observation> sorted_journal(const std::filesystem::path& folder) {
  auto lines = record::read_journal(folder / "journal.jsonl");
  std::sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) {
    return std::pair(a.item, a.residue) < std::pair(b.item, b.residue);
  });
  return lines;
}

class LabEndpoint : public test::Program {
 protected:
  void TearDown() override {
    if (pid_ > 0) ::kill(pid_, SIGTERM);
    test::Program::TearDown();
  }

  // Serves a checkpoint in the background and returns its address.
  std::string serve(const std::filesystem::path& checkpoint, const std::string& options) {
    const std::string command = fmt::format(
        "cd '{}' && '{}' serve '{}' --port 0 {} -q >url 2>.serve & echo $! > '{}/pid'",
        folder_.string(), KVPHASE_PROGRAM, checkpoint.string(), options, folder_.string());
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::ifstream(folder_ / "pid") >> pid_;
    std::string url;
    for (int i = 0; i < 600 && url.empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::ifstream(folder_ / "url") >> url;
    }
    return url;
  }

  // Largest |difference| of what both journals hold; a difference in an answer fails the test.
  double compare(const std::string& local, const std::string& served) const {
    const auto here = sorted_journal(folder_ / local);
    const auto there = sorted_journal(folder_ / served);
    EXPECT_EQ(here.size(), there.size());
    double largest = 0;
    std::size_t with_margin = 0;
    for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) {
      record::Observation a = here[i];
      record::Observation b = there[i];
      EXPECT_EQ(a.logprob.has_value(), b.logprob.has_value());
      EXPECT_EQ(a.margin.has_value(), b.margin.has_value());
      largest = std::max(largest, std::abs(a.logprob.value_or(0) - b.logprob.value_or(0)));
      largest = std::max(largest, std::abs(a.margin.value_or(0) - b.margin.value_or(0)));
      with_margin += b.margin ? 1 : 0;
      a.logprob = b.logprob = a.margin = b.margin = std::nullopt;
      EXPECT_EQ(a, b) << "item " << a.item << " residue " << a.residue << ": " << a.answer
                      << " here, " << b.answer << " over HTTP";
    }
    EXPECT_EQ(with_margin, here.size()) << "the whole vocabulary was asked for";
    return largest;
  }

  pid_t pid_ = 0;
};

constexpr const char* kItems = "--modulus 16 --items 48 --seed 5 -q ";

TEST_F(LabEndpoint, TheServedChunkedModelGivesTheAnswersOfTheLocalAuditPromptByPrompt) {
  const std::filesystem::path model = std::filesystem::path(KVPHASE_MODELS) / "chunked-w4s4";
  const Outcome local =
      run(fmt::format("audit {} {} --threads 1 --out local", model.string(), kItems));
  const std::string url = serve(model, "--max-logprobs -1");
  const Outcome served =
      run(fmt::format("audit {} {} --top-logprobs -1 --out served", url, kItems));
  ASSERT_EQ(local.code, served.code) << served.err;
  const double largest = compare("local", "served");
  EXPECT_LE(largest, 1e-5);
  const auto result = record::result_from_json(base::Json::parse(read("served/result.json")), "t");
  EXPECT_EQ(result.folded->stride, 4);
  EXPECT_EQ(result.folded->source, "model");
  EXPECT_EQ(result.positions.ok, true);
  EXPECT_THAT(result.positions.note, HasSubstr("absolute"));
  fmt::print("{} prompts: equal answers, log-probabilities and margins within {:.1e}\n{}\n",
             result.design.observations, largest, result.verdict.sentence);
}

TEST_F(LabEndpoint, TheServedControlHasNoPeriodLikeTheLocalOne) {
  const std::filesystem::path model = std::filesystem::path(KVPHASE_MODELS) / "full-attention";
  const Outcome local =
      run(fmt::format("audit {} {} --stride 4 --threads 1 --out local", model.string(), kItems));
  const std::string url = serve(model, "--max-logprobs -1");
  const Outcome served = run(fmt::format(
      "audit {} {} --stride 4 --sequential --top-logprobs -1 --out sequential", url, kItems));
  EXPECT_TRUE(served.code == 0 || served.code == 3) << served.err;
  const Outcome whole =
      run(fmt::format("audit {} {} --stride 4 --top-logprobs -1 --out served", url, kItems));
  ASSERT_EQ(local.code, whole.code) << whole.err;
  EXPECT_LE(compare("local", "served"), 1e-5);
}

}  // namespace
}  // namespace kvphase
