// Train, audit and demo as a user runs them, on models too small and too briefly trained to learn
// anything: the path is tested here, the effect by `kvphase demo`.
#include <gmock/gmock.h>

#include <cstdlib>

#include "record/result.h"
#include "tests/support/program.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A checkpoint trained for a few steps, shared by the tests of this program.
const fs::path& checkpoint() {
  static const fs::path folder = [] {
    std::string pattern = (fs::temp_directory_path() / "kvphase-lab-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    const std::string command = fmt::format(
        "'{}' train --recipe small-wc --steps 4 --set batch=8 --out '{}/model' -q "
        ">/dev/null",
        KVPHASE_PROGRAM, pattern);
    EXPECT_EQ(std::system(command.c_str()), 0);
    return fs::path(pattern) / "model";
  }();
  return folder;
}

class Lab : public test::Program {
 protected:
  void SetUp() override {
    test::Program::SetUp();
    fs::copy(checkpoint(), folder_ / "model", fs::copy_options::recursive);
  }

  base::Json result_of(const std::string& folder) const {
    base::Json json = base::Json::parse(read(folder + "/result.json"));
    json.erase("context");
    return json;
  }
};

// The model answers nothing right, so its audits are complete but inconclusive: exit code 3.
constexpr int kAudited = 3;
constexpr const char* kAudit = "audit model --modulus 8 --items 64 --threads 1 -q ";

TEST_F(Lab, AuditLeavesEveryFileAndAResultWithThePromisedKeys) {
  const auto outcome = run(std::string(kAudit) + "--out run");
  ASSERT_EQ(outcome.code, kAudited) << outcome.err;
  for (const char* file : {"manifest.json", "journal.jsonl", "result.json", "residues.csv",
                           "report.html", "report.txt"}) {
    EXPECT_TRUE(fs::exists(folder_ / "run" / file)) << file;
  }
  const record::Result result =
      record::result_from_json(base::Json::parse(read("run/result.json")), "test");
  EXPECT_EQ(result.residues.size(), 8U);
  EXPECT_EQ(result.design.scored, 64 * 8);
  EXPECT_TRUE(result.positions.ok);
  EXPECT_NEAR(result.positions.mean_low, result.positions.mean_high, 1e-9);
  EXPECT_EQ(result.folded->stride, 4);
  EXPECT_FALSE(result.context.prompt_set_sha256.empty());
  EXPECT_TRUE(result.mean.value && result.worst.estimate.value && result.gap.estimate.value);
}

TEST_F(Lab, AuditGivesTheSameBytesAgainAndAfterAnInterruption) {
  ASSERT_EQ(run(std::string(kAudit) + "--out one").code, kAudited);
  ASSERT_EQ(run(std::string(kAudit) + "--out two").code, kAudited);
  EXPECT_EQ(read("one/journal.jsonl"), read("two/journal.jsonl"));
  EXPECT_EQ(result_of("one"), result_of("two"));
  // As a kill leaves it: the journal's tail is missing and its last line torn.
  const std::string journal = read("two/journal.jsonl");
  write("two/journal.jsonl", journal.substr(0, journal.size() / 2));
  const auto resumed = run("audit model --modulus 8 --items 64 --threads 1 -q --resume two");
  ASSERT_EQ(resumed.code, kAudited) << resumed.err;
  EXPECT_EQ(read("two/journal.jsonl"), journal);
  EXPECT_EQ(result_of("one"), result_of("two"));
  const auto other = run("audit model --modulus 8 --items 64 --seed 2 -q --resume two");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("options.seed (1, now 2)"));
}

TEST_F(Lab, InSequencePaddingIsAnotherAuditOfTheSameQuestions) {
  ASSERT_EQ(run(std::string(kAudit) + "--out prefix").code, kAudited);
  ASSERT_EQ(run(std::string(kAudit) + "--padding in-sequence --out within").code, kAudited);
  EXPECT_EQ(result_of("within").at("design").at("padding"), "in-sequence");
  EXPECT_NE(read("prefix/journal.jsonl"), read("within/journal.jsonl"));
}

TEST_F(Lab, JsonOnStdoutIsTheResultAndNothingElse) {
  const auto outcome = run(std::string(kAudit) + "--out run --json");
  ASSERT_EQ(outcome.code, kAudited) << outcome.err;
  EXPECT_EQ(outcome.out, read("run/result.json"));
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST_F(Lab, AModelThatHasNotLearnedIsInconclusiveWhenAMinimumIsAskedFor) {
  const auto outcome = run(std::string(kAudit) + "--min-accuracy 0.98 --out run");
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_EQ(result_of("run").at("verdict").at("kind"), "not_learned");
}

TEST_F(Lab, AnAuditFailsARequirementThatItsModelDoesNotMeet) {
  const auto outcome = run(std::string(kAudit) + "--require 'worst>=0.5' --out run");
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("worst>=0.5  fail"));
  EXPECT_EQ(result_of("run").at("requirements").at(0).at("outcome"), "fail");
  EXPECT_THAT(read("run/report.html"), HasSubstr("<h2>Requirements</h2>"));
  EXPECT_EQ(run("audit model --require 'gap=0.1' --out r").code, 2);
  EXPECT_FALSE(fs::exists(folder_ / "r"));
}

TEST_F(Lab, ASequentialAuditStopsByItsRuleAndGoesOnFromItsJournal) {
  const std::string sequential = std::string(kAudit) + "--sequential --block-items 8 ";
  const auto outcome = run(sequential + "--require 'worst>=0.5' --out run");
  ASSERT_EQ(outcome.code, 1) << outcome.err;
  const base::Json result = result_of("run");
  EXPECT_EQ(result.at("sequential").at("planned"), 64 * 4);
  EXPECT_LE(result.at("sequential").at("prompts"), 64 * 4);
  EXPECT_TRUE(result.at("period").at("p_value").is_null());
  EXPECT_THAT(read("run/report.html"), HasSubstr("<h2>Early stop</h2>"));
  const std::string journal = read("run/journal.jsonl");
  write("run/journal.jsonl", journal.substr(0, journal.size() / 2));
  const auto resumed =
      run("audit model --modulus 8 --items 64 --threads 1 -q --sequential --block-items 8 "
          "--require 'worst>=0.5' --resume run");
  EXPECT_EQ(resumed.code, 1) << resumed.err;
  EXPECT_EQ(read("run/journal.jsonl"), journal);
  EXPECT_EQ(result_of("run"), result);
  EXPECT_EQ(run("analyze run -q").code, 2) << "its rows must not get a fixed-size p-value";
  for (const char* arguments : {"--require no-period --sequential", "--block-items 8"}) {
    const auto refused = run(std::string(kAudit) + arguments + " --out r");
    EXPECT_EQ(refused.code, 2) << arguments;
    EXPECT_EQ(refused.error_lines(), 1U) << refused.err;
    EXPECT_FALSE(fs::exists(folder_ / "r"));
  }
}

TEST_F(Lab, DemoRefusesToShowAnythingWhenItsControlHasNotLearned) {
  const auto outcome = run("demo --steps 2 --items 48 --out demo -q");
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the control has not learned"));
  for (const char* model : {"control", "chunked", "staggered"}) {
    EXPECT_TRUE(fs::exists(folder_ / "demo" / model / "result.json")) << model;
    EXPECT_THAT(outcome.out, HasSubstr(fmt::format("demo/{}/report.html", model)));
  }
}

TEST_F(Lab, DemoRefusesToRunUnderALauncherOfRanks) {
  const auto outcome = run("demo --out demo", ".out", "WORLD_SIZE=2 RANK=0");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("got WORLD_SIZE"));
  EXPECT_FALSE(fs::exists(folder_ / "demo"));
}

// Replaces the first occurrence in a file of the same length or longer.
void replace_in(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = base::read_file(path);
  const auto found = text.find(from);
  ASSERT_NE(found, std::string::npos) << from << " in " << path;
  text.replace(found, from.size(), to);
  base::write_file_atomically(path, text);
}

TEST_F(Lab, BadInputGetsOneLineAndExitCodeTwo) {
  struct Case {
    const char* arguments;
    const char* says;
  };
  const auto expect = [&](const Case& c) {
    const auto outcome = run(c.arguments);
    EXPECT_EQ(outcome.code, 2) << c.arguments << "\n" << outcome.err;
    EXPECT_EQ(outcome.error_lines(), 1U) << c.arguments << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(c.says)) << c.arguments;
    EXPECT_THAT(outcome.out, IsEmpty()) << c.arguments;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"audit absent", "absent"},
           {"audit model --modulus 10 --out r", "multiple of the stride 4"},
           {"audit model --modulus 8 --haystack 300 --out r", "context"},
           {"audit model --modulus 24 --out r", "at least 71 tokens"},
           {"audit model --modulus 8 --records 99 --out r", "records"},
           {"audit model --modulus 8 --demonstrations 8 --out r", "--demonstrations"},
           {"audit model --modulus 8 --items 0 --out r", "item"},
           {"audit model --modulus 8 --out model", "exists"},
           {"audit model --modulus 8 --out /proc/none", "/proc/none"},
           {"audit model --modulus 8 --stride 8 --out r", "--stride 4"},
           {"audit model --task lokup", "lookup"},
           {"audit model --modulus 8 --control absent --out r", "absent"},
           {"audit model --modulus 8 --resume absent", "absent"},
           {"audit model --itmes 9", "--items"},
           {"audit model --modulus 8 --padding foo --out r", "in-sequence"},
           {"audit model --modulus 8 --seed -1 --out r", "--seed"},
           {"audit model --modulus 8 --threads -7 --out r", "--threads"},
           {"audit model --modulus 8 --min-accuracy nan --out r", "--min-accuracy"},
           {"audit model --modulus 8 --stride 0 --out r", "--stride"},
           {"audit model --modulus 8 --demonstrations -1 --out r", "demonstrations"},
           {"audit model --modulus 8 --items 99999999999999 --out r", "items"},
           {"audit model --modulus 8 --haystack 3000000 --out r", "context"},
           {"train --set steps=3 --set steps.x=4 --out r", "contradiction"},
           {"train --set 'a/b.c~=3' --out r", "a/b"},
           {"demo --items 5 --out r", "--items"},
           {"demo --steps 0 --out r", "--steps"},
           {"demo --window 40000000 --out r", "--window"},
           {"train --out model", "exists"},
           {"train --out /proc/none", "/proc/none"},
           {"train", "--out"},
           {"train --recipe main-wk --out r", "main-wc"},
           {"train --window 2 --stride 4 --out r", "stride"},
           {"train --window 0 --stride 0 --out r", "window"},
           {"train --set model.chunk.widow=4 --out r", "window"},
           {"train --set learning_rate=1e999 --out r", "learning_rate"},
           {"train --set steps --out r", "KEY=VALUE"},
           {"train --resume absent", "absent"},
           {"demo --stride 1", "--stride"},
           {"demo --stride 4 --window 3", "--window"},
           {"demo --out model", "exists"},
       }) {
    expect(c);
  }
  EXPECT_FALSE(fs::exists(folder_ / "r")) << "a refused command left its folder behind";
}

TEST_F(Lab, DamagedCheckpointsAreNamedAndRefused) {
  struct Damage {
    const char* file;
    const char* from;
    const char* to;
    const char* says;
  };
  for (const Damage& damage : std::initializer_list<Damage>{
           {"config.json", "\"norm_epsilon\": 1e-06", "\"norm_epsilon\": NaN", "config.json"},
           {"config.json", "\"window\": 4", "\"window\": 0", "window"},
           {"config.json", "\"stride\": 4", "\"stride\": 5", "stride"},
           {"config.json", "\"ff_width\": 96", "\"ff_width\": 97", "shape"},
           {"config.json", "\"width\": 48", "\"width\": 16777216", "shape"},
           {"model.safetensors", "\"F32\"", "\"F64\"", "model.safetensors"},
           {"card.json", "\"language\"", "\"langauge\"", "language"},
       }) {
    fs::remove_all(folder_ / "model");
    fs::copy(checkpoint(), folder_ / "model", fs::copy_options::recursive);
    replace_in(folder_ / "model" / damage.file, damage.from, damage.to);
    const auto outcome = run("audit model --modulus 8 --out r");
    EXPECT_EQ(outcome.code, 2) << damage.to << "\n" << outcome.err;
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(damage.says)) << damage.to;
  }
  fs::remove_all(folder_ / "model");
  fs::copy(checkpoint(), folder_ / "model", fs::copy_options::recursive);
  fs::resize_file(folder_ / "model" / "model.safetensors",
                  fs::file_size(folder_ / "model" / "model.safetensors") - 5);
  const auto truncated = run("audit model --modulus 8 --out r");
  EXPECT_EQ(truncated.code, 2) << truncated.err;
  EXPECT_THAT(truncated.err, HasSubstr("model.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / "r"));
}

TEST_F(Lab, EveryKindOfPresetTrainsAndIsAudited) {
  for (const char* preset : {"small/w8s4-1kv", "small/full-1kv", "small/w8s8-2kv"}) {
    const std::string name = fs::path(preset).filename();
    const auto trained = run(fmt::format(
        "train --recipe small-wc --model {} --steps 2 --set batch=4 --out {} -q", preset, name));
    ASSERT_EQ(trained.code, 0) << preset << "\n" << trained.err;
    const auto audited =
        run(fmt::format("audit {} --modulus 8 --items 16 --threads 1 -q --out {}-run", name, name));
    EXPECT_EQ(audited.code, kAudited) << preset << "\n" << audited.err;
  }
  EXPECT_EQ(run("presets").code, 0);
  EXPECT_THAT(run("presets small/w8s4-1kv").out, HasSubstr("\"window\": 8"));
  EXPECT_EQ(run("presets small/w8s4").code, 2);
}

TEST_F(Lab, TextIsMadeIntoShardsTrainedOnAndAuditedForLookups) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += fmt::format("line {} of some text\n", i * i);
  base::write_file_atomically(folder_ / "text", text);
  const auto made = run("tokens text --documents line --validation 0.1 --out tokens");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("of 1 files"));
  EXPECT_THAT(run("tokens --check tokens").out, HasSubstr("tokenizer bytes"));
  for (const char* share : {"0", "0.5"}) {
    fs::remove_all(folder_ / "bytes");
    fs::remove_all(folder_ / "run");
    const auto trained = run(fmt::format(
        "train --recipe small-wc --set 'data.text=[\"tokens\"]' --set data.sequence=40 --set "
        "data.lookup_share={} --steps 3 --set batch=4 --out bytes",
        share));
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_THAT(trained.out, AllOf(HasSubstr("on fresh lookups"), HasSubstr("held-out text")));
    const auto audited = run("audit bytes --modulus 8 --items 16 --threads 1 -q --out run");
    EXPECT_EQ(audited.code, kAudited) << audited.err;
    EXPECT_THAT(read("run/manifest.json"), HasSubstr("ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
  }
}

TEST_F(Lab, TokensAndDevicesThatCannotBeHadAreRefused) {
  base::write_file_atomically(folder_ / "text", "a\nb\nc\nd\n");
  base::write_file_atomically(folder_ / "cut.tokens", "KVTOKENS");
  const std::initializer_list<std::pair<const char*, const char*>> cases = {
      {"tokens text --out r", "--documents"},
      {"tokens text --documents word --out r", "file, line or nul"},
      {"tokens text", "--out FOLDER or --check"},
      {"tokens absent --out r", "absent"},
      {"tokens text --validation 1 --out r", "below 1"},
      {"tokens --check cut.tokens", "got 8 bytes"},
      {"train --set 'data.text=[\"absent\"]' --out r", "kvphase tokens"},
      {"train --set 'data.text=[]' --out r", "got none"},
      {"train --set device=gpu --out r", "cuda"},
  };
  for (const auto& [arguments, says] : cases) {
    const auto outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << "\n" << outcome.err;
    EXPECT_EQ(outcome.error_lines(), 1U) << arguments << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(says)) << arguments;
  }
  const auto device = run("train --set device=cuda:63 --out r");
  EXPECT_EQ(device.code, 4) << device.err;
  EXPECT_THAT(device.err, HasSubstr("cuda:63"));
  EXPECT_FALSE(fs::exists(folder_ / "r")) << "a refused command left its folder behind";
}

TEST_F(Lab, PresetsAreBuiltAsTheirFormulaCounts) {
  const auto outcome = run("presets small/w8s8-1kv --build");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("built"), ::testing::Not(HasSubstr("DIFFERENT"))));
}

TEST_F(Lab, ListsItsRecipes) {
  const auto outcome = run("train --list");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("main-wc"), HasSubstr("main-wf")));
}

}  // namespace
}  // namespace kvphase
