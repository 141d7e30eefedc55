// kvphase compare RUN... as a user runs it, on simulated studies: what is found in folders, what is
// paired, what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "audit/analysis.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/random.h"
#include "model/presets.h"
#include "record/journal.h"
#include "record/published.h"
#include "record/table.h"
#include "report/write.h"
#include "tests/support/program.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kItems = 60;

struct Simulated {
  std::string design = "w8s8-1kv";
  std::uint64_t seed = 42;
  std::string padding = "prefix";
  std::int64_t modulus = 24;
  std::string prompts = "the same prompts";
  std::int64_t tokens = 78000;  // of the training
};

class CompareRuns : public test::Program {
 protected:
  // A cell's audit as kvphase family leaves it: weak at the boundary phase of a chunked design.
  void simulate(const std::string& study, const Simulated& s) const {
    const fs::path cell = folder_ / study / fmt::format("{}-seed{}", s.design, s.seed);
    const model::ModelConfig config = model::preset("small/" + s.design);
    const std::string weights = fmt::format("weights of {} {}", s.design, s.seed);
    const auto put = [](const fs::path& path, const std::string& text) {
      fs::create_directories(path.parent_path());
      base::write_file_atomically(path, text);
    };
    put(cell / "model" / "config.json", model::to_json(config).dump());
    put(cell / "model" / "card.json", base::Json{{"recipe", "family"},
                                                 {"seed", s.seed},
                                                 {"steps", 100},
                                                 {"tokens", s.tokens},
                                                 {"loss", 0.5},
                                                 {"seconds", 7.5}}
                                          .dump());
    put(cell / "model" / "model.safetensors", weights);
    const fs::path run = cell / s.padding;
    fs::create_directories(run);
    const bool chunked = model::has_chunked_layer(config);
    base::Random random(base::derive_seed(s.seed, s.design + s.padding));
    std::vector<record::Observation> observations;
    record::JournalWriter journal(run / "journal.jsonl");
    for (std::int64_t item = 0; item < kItems; ++item) {
      for (std::int64_t r = 0; r < s.modulus; ++r) {
        const bool weak = chunked && r % config.chunk.stride == config.chunk.stride - 1;
        observations.push_back({.item = item,
                                .residue = r,
                                .target_position = r,
                                .query_position = 100,
                                .length = 101,
                                .expected = "v1",
                                .answer = "v1",
                                .reply_class = "exact",
                                .correct = random.uniform() < (weak ? 0.1 : 0.8)});
        journal.append(observations.back());
      }
    }
    journal.sync();
    put(run / "manifest.json", R"({"schema": "kvphase.manifest/1"})");
    record::Dataset data = record::dataset_from(observations, s.modulus, "test");
    data.task = "lookup";
    data.padding = s.padding;
    if (chunked) {
      data.window = config.chunk.window;
      data.stride = config.chunk.stride;
    }
    audit::AnalysisOptions options{.replicates = 200, .permutations = 400};
    options.context.model_name = "model";
    options.context.model_kind = "checkpoint";
    options.context.model_sha256 = base::sha256_hex(weights);
    options.context.model_config = model::to_json(config);
    options.context.prompt_set_sha256 = s.prompts + s.padding;
    report::write_report(run, audit::analyse(data, options));
  }
  void study(const std::string& name, std::int64_t modulus = 24,
             const std::vector<std::string>& sets = {}) const {
    fs::create_directories(folder_ / name);
    write(name + "/study.json", base::Json{{"schema", "kvphase.study/1"},
                                           {"shape", "small"},
                                           {"recipe", "family"},
                                           {"sets", sets},
                                           {"paddings", {"prefix"}},
                                           {"items", kItems},
                                           {"modulus", modulus}}
                                    .dump());
  }
  base::Json comparison(const std::string& folder) const {
    return base::Json::parse(read(folder + "/comparison.json"));
  }
};

base::Json named(const base::Json& list, const char* key, const std::string& name) {
  for (const base::Json& entry : list) {
    if (entry.at(key) == name) return entry;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

TEST_F(CompareRuns, PutsAStudySideBySideWithPublishedCurvesAndPairsTheSamePrompts) {
  study("study");
  for (const char* design : {"full-1kv", "w8s8-1kv", "w8s8-4kv", "w8s8-4kv-staggered"}) {
    simulate("study", {.design = design});
  }
  simulate("study", {.design = "w8s6-1kv", .seed = 43});  // no control of its seed
  fs::create_directories(folder_ / "study" / "w4s4-1kv-seed42" / "prefix");
  const Outcome outcome = run("compare study --out c");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  fmt::print("{}", outcome.out);
  EXPECT_THAT(outcome.out, HasSubstr("The stride is the period found in"));
  EXPECT_THAT(outcome.out, HasSubstr("1 of 6 audits are unfinished and left out: "
                                     "w4s4-1kv-seed42/prefix"));
  EXPECT_THAT(outcome.out, HasSubstr("no run of the control full-4kv with the same seed"));
  const base::Json c = comparison("c");
  EXPECT_EQ(c.at("schema"), "kvphase.run_comparison/1");

  const base::Json found = named(c.at("runs"), "name", "w8s8-1kv-seed42/prefix");
  const model::ModelConfig config = model::preset("small/w8s8-1kv");
  EXPECT_EQ(found.at("design"), "w8s8-1kv");
  EXPECT_EQ(found.at("audit").at("padding"), "prefix");
  EXPECT_EQ(found.at("parameters"), model::parameter_count(config));
  EXPECT_DOUBLE_EQ(
      found.at("cache").at("bytes_per_token").get<double>(),
      2.0 * static_cast<double>(model::cache_size(config, config.context_length).total()) /
          static_cast<double>(config.context_length));
  EXPECT_EQ(found.at("training").at("tokens"), 78000);
  EXPECT_EQ(found.at("period").at("value"), 8);
  const base::Json published = named(c.at("runs"), "name", "w8s8-1kv-seed42/prefix (published)");
  EXPECT_EQ(published.at("published"), true);
  EXPECT_NEAR(published.at("mean").at("value").get<double>(), 0.5056, 1e-4);
  EXPECT_NEAR(published.at("gap").at("value").get<double>(), 0.753, 1e-9);
  EXPECT_EQ(published.at("period").at("value"), 8);

  ASSERT_EQ(c.at("pairs").size(), 2U);
  const base::Json control = named(c.at("pairs"), "run", "w8s8-1kv-seed42/prefix");
  EXPECT_EQ(control.at("reference"), "full-1kv-seed42/prefix");
  EXPECT_EQ(control.at("rule"), "control");
  EXPECT_EQ(control.at("prompts"), kItems * 24);
  EXPECT_EQ(control.at("modulus"), 8);
  EXPECT_LT(control.at("worst").at("p_holm").get<double>(), 1e-6);
  EXPECT_NEAR(control.at("worst").at("value").get<double>(), -0.7, 0.1);
  const base::Json twin = named(c.at("pairs"), "run", "w8s8-4kv-staggered-seed42/prefix");
  EXPECT_EQ(twin.at("reference"), "w8s8-4kv-seed42/prefix");
  EXPECT_EQ(twin.at("rule"), "aligned twin");
  EXPECT_GT(twin.at("mean").at("p_holm").get<double>(), 0.05);
  EXPECT_EQ(c.at("tests"), 8);
  for (const char* file : {"table.csv", "pairs.csv", "compare.html", "comparison.txt"}) {
    EXPECT_TRUE(fs::exists(folder_ / "c" / file)) << file;
  }
  // The same folders, the same bytes but for the time and the command.
  ASSERT_EQ(run("compare study --out d --json").code, 0);
  base::Json again = comparison("d");
  base::Json first = c;
  for (base::Json* json : {&first, &again}) json->erase("context");
  EXPECT_EQ(first.dump(), again.dump());
}

TEST_F(CompareRuns, ComparesWithTheReferenceThatIsNamed) {
  study("study");
  simulate("study", {.design = "w8s8-2kv"});
  simulate("study", {.design = "full-4kv"});
  const auto reference_of = [&](const std::string& name, const std::string& out) {
    const Outcome outcome = run(fmt::format("compare study --reference {} --out {} -q", name, out));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const base::Json pairs = comparison(out).at("pairs");
    EXPECT_EQ(pairs.size(), 1U);
    return pairs.at(0).at("reference").get<std::string>();
  };
  EXPECT_EQ(reference_of("full-4kv", "a"), "full-4kv-seed42/prefix");
  EXPECT_EQ(reference_of("full-4kv-seed42/prefix", "b"), "full-4kv-seed42/prefix");
  EXPECT_EQ(reference_of("study/full-4kv-seed42/prefix", "c"), "full-4kv-seed42/prefix");
  const Outcome wrong = run("compare study --reference full-4k --out d");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'full-4kv'"));
  EXPECT_FALSE(fs::exists(folder_ / "d"));
}

TEST_F(CompareRuns, KeepsAStudysChangesApartFromTheDesignAsItIs) {
  study("plain");
  study("wider", 24, {"model.local_window=16", "steps=900"});
  for (const char* design : {"full-4kv", "w8s8-4kv", "w8s8-4kv-staggered"}) {
    simulate("plain", {.design = design});
  }
  simulate("wider", {.design = "w8s8-4kv"});
  simulate("wider", {.design = "w4s4-4kv"});
  const Outcome outcome = run("compare plain wider --out c");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const base::Json c = comparison("c");
  const std::string wider = "w8s8-4kv-seed42 (local_window=16)/prefix";
  EXPECT_EQ(named(c.at("runs"), "name", wider).at("variant"), "local_window=16");
  EXPECT_EQ(named(c.at("runs"), "name", "w8s8-4kv-seed42/prefix").at("variant"), "");
  const auto pair = [&](const std::string& name) { return named(c.at("pairs"), "run", name); };
  EXPECT_EQ(pair(wider).at("reference"), "w8s8-4kv-seed42/prefix");
  EXPECT_EQ(pair(wider).at("rule"), "unchanged design");
  EXPECT_EQ(pair("w8s8-4kv-staggered-seed42/prefix").at("reference"), "w8s8-4kv-seed42/prefix");
  EXPECT_EQ(pair("w8s8-4kv-seed42/prefix").at("rule"), "control");
  EXPECT_EQ(pair("w4s4-4kv-seed42 (local_window=16)/prefix").at("rule"), "control")
      << "w4s4-4kv was not run unchanged";
  // The published claims are about designs as they are.
  for (const auto& claim : c.at("claims")) {
    EXPECT_THAT(claim.dump(), Not(HasSubstr("w4s4-4kv"))) << claim.at("name");
  }
}

TEST_F(CompareRuns, OfSeveralControlsTakesTheOneTrainedAlike) {
  simulate("text", {.design = "full-1kv", .tokens = 81920});
  simulate("text", {.design = "w8s8-1kv", .tokens = 81920});
  simulate("mixture", {.design = "full-1kv", .tokens = 82880});
  simulate("mixture", {.design = "w8s8-1kv", .tokens = 82880});
  const Outcome outcome =
      run("compare text/full-1kv-seed42/prefix mixture/full-1kv-seed42/prefix "
          "text/w8s8-1kv-seed42/prefix mixture/w8s8-1kv-seed42/prefix --out c");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const std::string data : {"text", "mixture"}) {
    const base::Json pair =
        named(comparison("c").at("pairs"), "run", data + "/w8s8-1kv-seed42/prefix");
    EXPECT_EQ(pair.at("reference"), data + "/full-1kv-seed42/prefix");
  }
}

TEST_F(CompareRuns, SaysWhyRunsAreNotPaired) {
  simulate("a", {.design = "full-1kv"});
  simulate("a", {.design = "w8s8-1kv", .prompts = "others"});
  simulate("a", {.design = "w4s4-1kv"});
  fs::remove(folder_ / "a/w4s4-1kv-seed42/prefix/journal.jsonl");
  const Outcome outcome =
      run("compare a/full-1kv-seed42 a/w8s8-1kv-seed42/prefix a/w4s4-1kv-seed42/prefix "
          "a/full-1kv-seed42/prefix --out c");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("w8s8-1kv-seed42/prefix: other prompts"));
  EXPECT_THAT(outcome.out, HasSubstr("w4s4-1kv-seed42/prefix: no journal.jsonl"));
  EXPECT_THAT(outcome.out, HasSubstr("a/full-1kv-seed42/prefix was given twice and counts once"));
  EXPECT_EQ(comparison("c").at("pairs").size(), 0U);
}

TEST_F(CompareRuns, ShowsRunsOfAnotherModulusInAFigureOfTheirOwn) {
  simulate("a", {.design = "w8s8-1kv", .modulus = 24});
  simulate("b", {.design = "w8s8-1kv", .modulus = 8});
  const Outcome outcome =
      run("compare a/w8s8-1kv-seed42 b/w8s8-1kv-seed42 --out c --reference "
          "a/w8s8-1kv-seed42/prefix");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("another modulus"));
  const std::string page = read("c/compare.html");
  EXPECT_THAT(page, HasSubstr("Prefix padding, positions modulo 24"));
  EXPECT_THAT(page, HasSubstr("Prefix padding, positions modulo 8"));
  // Two of one name are told apart by their folders; published curves are folded.
  const base::Json runs = comparison("c").at("runs");
  named(runs, "name", "b/w8s8-1kv-seed42/prefix");
  EXPECT_EQ(runs.size(), 2 + 2 * 2U);
}

TEST_F(CompareRuns, DoesNotTakeAnotherCheckpointForTheAuditedOne) {
  simulate("a", {.design = "w8s8-1kv"});
  write("a/w8s8-1kv-seed42/model/model.safetensors", "trained again");
  const Outcome outcome = run("compare a/w8s8-1kv-seed42 --out c -q");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const base::Json found = named(comparison("c").at("runs"), "name", "w8s8-1kv-seed42/prefix");
  EXPECT_TRUE(found.at("training").at("tokens").is_null());
  EXPECT_EQ(found.at("training").at("reason"), "the audited checkpoint was not found");
  EXPECT_FALSE(found.at("cache").at("bytes_per_token").is_null());
}

TEST_F(CompareRuns, RefusesWhatIsNoRunInOneLine) {
  study("empty");
  simulate("a", {.design = "w8s8-1kv"});
  simulate("old", {.design = "w8s8-1kv"});
  base::Json result = base::Json::parse(read("old/w8s8-1kv-seed42/prefix/result.json"));
  result["schema"] = "kvphase.result/0";
  write("old/w8s8-1kv-seed42/prefix/result.json", result.dump());
  simulate("open", {.design = "w8s8-1kv"});
  fs::remove(folder_ / "open/w8s8-1kv-seed42/prefix/result.json");
  fs::create_directories(folder_ / "nothing");
  fs::create_directories(folder_ / "there");
  const std::string good = "a/w8s8-1kv-seed42";
  struct Case {
    std::string arguments;
    const char* expected;
  };
  for (const Case& c : std::vector<Case>{
           {"absent --out c", "absent, which is not there"},
           {"nothing --out c", "study.json"},
           {"empty --out c", "with none"},
           {"a/w8s8-1kv-seed42/model --out c", "which is a checkpoint; audit it first"},
           {"open/w8s8-1kv-seed42/prefix --out c", "--resume open/w8s8-1kv-seed42/prefix"},
           {"old/w8s8-1kv-seed42 --out c", "expected the schema kvphase.result/1"},
           {good + " http://127.0.0.1:1 --out c", "got both"},
           {good + " --task records --out c", "expected --task only for servers"},
           {"http://127.0.0.1:1 http://127.0.0.1:2 --reference x --out c",
            "expected --reference only for folders of runs"},
           {good + " --out there", "expected a new folder, got there"}}) {
    const Outcome outcome = run("compare " + c.arguments);
    EXPECT_EQ(outcome.code, 2) << c.arguments;
    EXPECT_THAT(outcome.err, HasSubstr(c.expected));
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.err;
    EXPECT_FALSE(fs::exists(folder_ / "c")) << c.arguments;
  }
}

TEST(PublishedDesigns, AreDesignsOfOurs) {
  const auto& designs = model::design_names();
  for (const record::PublishedCurve& curve : record::published_curves()) {
    EXPECT_THAT(designs, ::testing::Contains(curve.design));
  }
}

}  // namespace
}  // namespace kvphase
