// knockout, gates, cycle and readout as a user runs them, on the reference checkpoints.
#include <gmock/gmock.h>

#include <fstream>

#include "record/findings.h"
#include "tests/support/program.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class LookInside : public test::Program {
 protected:
  static std::string model(const char* name) {
    return fmt::format("'{}/{}'", KVPHASE_MODELS, name);
  }
  record::Findings findings(const std::string& folder, const char* kind) const {
    return record::findings_from_json(base::Json::parse(read(folder + "/result.json")), kind,
                                      folder);
  }
};

constexpr const char* kSmall = " --modulus 8 --items 16 --threads 1 -q";

TEST_F(LookInside, EveryCommandLeavesItsFilesOnAChunkedModelAndOnTheControl) {
  for (const char* command : {"knockout", "gates", "cycle", "readout"}) {
    for (const char* name : {"chunked-w4s4", "full-attention"}) {
      const std::string out = fmt::format("{}-{}", command, name);
      const std::string more = std::string(command) == "readout" ? " --calibration 32"
                               : std::string(command) == "cycle" ? " --delta -1..1"
                                                                 : "";
      const auto outcome = run(
          fmt::format("{} {}{}{} --stride 4 --out {}", command, model(name), kSmall, more, out));
      ASSERT_EQ(outcome.code, 0) << out << ": " << outcome.err;
      const record::Findings f = findings(out, command);
      EXPECT_THAT(outcome.out, HasSubstr(f.sentence)) << out;
      EXPECT_EQ(f.context.model_name, name);
      EXPECT_THAT(f.context.command, HasSubstr("kvphase " + std::string(command)));
      EXPECT_EQ(f.context.model_sha256.size(), 64U);
      EXPECT_TRUE(fs::exists(folder_ / out / "report.html")) << out;
      EXPECT_TRUE(fs::exists(folder_ / out / "report.txt")) << out;
    }
  }
  EXPECT_THAT(read("knockout-chunked-w4s4/answers.csv"),
              HasSubstr("item,residue,clean,layer 0,layer 1\n0,0,"));
}

TEST_F(LookInside, TheSameSeedGivesTheSameFindingsWhateverTheThreads) {
  const auto once = [&](const char* out, const char* threads) {
    const auto outcome =
        run(fmt::format("knockout {} --modulus 8 --items 16 --threads {} -q --out {}",
                        model("chunked-w4s4"), threads, out));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    base::Json json = base::Json::parse(read(std::string(out) + "/result.json"));
    json.erase("context");
    return json;
  };
  EXPECT_EQ(once("one", "1"), once("two", "2"));
  EXPECT_EQ(read("one/answers.csv"), read("two/answers.csv"));
}

TEST_F(LookInside, AControlsFiguresStandBesideTheModels) {
  ASSERT_EQ(run("knockout " + model("full-attention") + kSmall + " --stride 4 --out control").code,
            0);
  const auto outcome =
      run("knockout " + model("chunked-w4s4") + kSmall + " --control control --out model --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, read("model/result.json"));
  const record::Findings f = findings("model", "knockout");
  ASSERT_EQ(f.figures.size(), 2U);
  EXPECT_EQ(f.figures[1].id, "control-map");
  EXPECT_THAT(f.figures[1].title, HasSubstr("Control, full-attention"));
}

TEST_F(LookInside, ThePromptsHaveTheNumberThatAnAuditOfThemHas) {
  const std::string prompts = model("chunked-w4s4") + kSmall + " --demonstrations 4 --seed 3";
  ASSERT_EQ(run("audit " + prompts + " --out audit").code % 3, 0);  // 3: too little to say
  const std::string asked =
      base::Json::parse(read("audit/result.json")).at("context").at("prompt_set_sha256");
  ASSERT_EQ(asked.size(), 64U);
  for (const char* command : {"knockout", "cycle", "readout"}) {
    ASSERT_EQ(run(fmt::format("{} {} --out {}", command, prompts, command)).code, 0);
    EXPECT_EQ(findings(command, command).context.prompt_set_sha256, asked) << command;
  }
  ASSERT_EQ(run("gates " + prompts + " --out gates").code, 0);
  const std::string one_each = findings("gates", "gates").context.prompt_set_sha256;
  EXPECT_EQ(one_each.size(), 64U);
  EXPECT_NE(one_each, asked) << "gates reads an item once";
}

TEST_F(LookInside, ItemsThatAreRoundedUpAreNamed) {
  for (const char* command : {"knockout", "cycle", "readout"}) {
    const auto outcome = run(fmt::format("{} {} --modulus 8 --items 1 -q --threads 1 --out {}",
                                         command, model("chunked-w4s4"), command));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const record::Findings f = findings(command, command);
    ASSERT_EQ(f.context.warnings.size(), 1U) << command;
    EXPECT_THAT(f.context.warnings[0], HasSubstr("8 items are asked, not 1"));
    EXPECT_THAT(outcome.out, HasSubstr("8 items are asked, not 1"));
  }
  ASSERT_EQ(run("gates " + model("chunked-w4s4") + " --modulus 8 --items 1 -q --out gates").code,
            0);
  EXPECT_TRUE(findings("gates", "gates").context.warnings.empty())
      << "gates reads as many as asked";
}

TEST_F(LookInside, StoppedByCtrlCTheySayThatNothingIsKeptAndLeaveNoFolder) {
  for (const char* command : {"knockout", "gates", "cycle", "readout"}) {
    const auto outcome = interrupted(fmt::format(
        "{} {} --modulus 8 --items 16000 --threads 1 --out out", command, model("chunked-w4s4")));
    EXPECT_EQ(outcome.code, 130) << command << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(fmt::format("[{}] interrupted: nothing is kept", command)));
    EXPECT_FALSE(fs::exists(folder_ / "out.part")) << command;
    EXPECT_FALSE(fs::exists(folder_ / "out")) << command;
  }
}

TEST_F(LookInside, BadInputIsRefusedWithWhatWasExpected) {
  ASSERT_EQ(run("gates " + model("chunked-w4s4") + kSmall + " --out gates").code, 0);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"knockout nowhere", "expected a checkpoint folder of `kvphase train`, got nowhere"},
      {"knockout " + model("chunked-w4s4") + kSmall + " --out gates",
       "expected a new folder, got gates, which has findings"},
      {"knockout " + model("chunked-w4s4") + kSmall + " --stride 8 --out x",
       "expected --stride 4 (the model's own), got 8"},
      {"knockout " + model("chunked-w4s4") + " --modulus 6 --items 6 -q --out x",
       "expected a modulus that is twice the stride 4"},
      {"knockout " + model("chunked-w4s4") + kSmall + " --control gates --out x",
       "expected schema 'kvphase.knockout/1', got 'kvphase.gates/1'"},
      {"knockout " + model("chunked-w4s4") + kSmall + " --haystack 90 --out x",
       "expected prompts of at most 65 tokens"},
      {"cycle " + model("chunked-w4s4") + kSmall + " --delta 3..1 --out x",
       "expected --delta as -3..3"},
      {"cycle " + model("chunked-w4s4") + kSmall + " --delta 1,1 --out x", "different deltas"},
      {"cycle " + model("chunked-w4s4") + kSmall + " --delta 0..64 --out x",
       "expected --delta as -3..3"},
      {"cycle " + model("chunked-w4s4") + kSmall + " --delta '' --out x", "--delta"},
      {"cycle " + model("chunked-w4s4") + kSmall + " --delta 8 --out x",
       "expected --delta from -3 to 3 (a full turn is 4 offsets), got 8, which leaves every gate"},
      {"cycle " + model("chunked-w4s4") + kSmall + " --delta 99 --out x",
       "got 99, the same rotation as 3"},
      {"readout " + model("chunked-w4s4") + " -q --threads -1 --out x",
       "expected 1 to 1024 --threads"}};
  for (const auto& [arguments, message] : cases) {
    const auto outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << arguments;
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.err;
    EXPECT_FALSE(fs::exists(folder_ / "x" / "result.json")) << arguments;
  }
}

TEST_F(LookInside, AFolderThatCannotBeWrittenOrIsTakenIsRefusedBeforeAnyPrompt) {
  std::ofstream(folder_ / "file") << "no folder";
  fs::create_directories(folder_ / "taken.part");  // as another run leaves it while it works
  for (const char* out : {"file/under", "taken"}) {
    const auto outcome = run("readout " + model("chunked-w4s4") +
                             " --modulus 8 --items 16 --threads 1 --out " + out);
    EXPECT_NE(outcome.code, 0) << out;
    EXPECT_THAT(outcome.err, HasSubstr("expected")) << out;
    EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("prompt "))) << out;
    EXPECT_FALSE(fs::exists(folder_ / out)) << out;
  }
}

}  // namespace
}  // namespace kvphase
