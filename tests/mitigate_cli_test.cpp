// `kvphase audit http://... --mitigate NAME` as a user runs it, against scripted engines that are
// wrong at one phase in four.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "base/files.h"
#include "task/mitigate.h"
#include "task/words.h"
#include "tests/support/endpoint_program.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;
using test::completions;
using test::Outcome;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kLookup = "--modulus 8 --items 24 --demonstrations 2 -q ";
constexpr const char* kRecords = "--task records --items 16 --per-haystack 8 --haystack 512 -q ";

// Answers " key word is" at the prompt's end with what follows the same words: where they stand
// first, wrong where that is in phase 3, or, `recent`, where they stand last.
scripted::EngineOptions records_engine(bool recent) {
  std::map<std::int32_t, std::string> texts;
  for (const std::string& word : task::candidate_words()) {
    const auto ids = scripted::scripted_tokens(word);
    if (ids.size() == 1) texts.emplace(ids[0], " " + word);
  }
  const auto model = [recent](const std::vector<std::int32_t>& prompt) {
    const std::size_t n = prompt.size();
    const std::int32_t other = scripted::scripted_tokens("about")[0];
    std::vector<scripted::Alternative> said = {{other, -0.5}};
    for (std::size_t i = 0; n >= 7 && i + 3 < n; ++i) {
      if (!std::equal(prompt.end() - 3, prompt.end(),
                      prompt.begin() + static_cast<std::ptrdiff_t>(i))) {
        continue;
      }
      const std::int32_t right = prompt[i + 3];
      const bool near = recent && n - i < 200;
      said = i % 4 == 3 && !near ? std::vector<scripted::Alternative>{{other, -0.5}, {right, -2}}
                                 : std::vector<scripted::Alternative>{{right, -0.125}, {other, -3}};
      if (!recent) break;
    }
    return said;
  };
  return {.model = model, .context = 100'000, .say = [texts](std::int32_t token) {
            const auto found = texts.find(token);
            return found == texts.end() ? " unknown" : found->second;
          }};
}

class MitigateCli : public test::EndpointProgram {
 protected:
  double share_right(const std::string& folder) const {
    double right = 0, all = 0;
    for (const record::Observation& o : journal(folder)) {
      right += o.correct.value_or(false) ? 1 : 0;
      ++all;
    }
    return right / all;
  }
};

TEST_F(MitigateCli, MajorityRecoversOnePhaseInFourAndRandomPaddingDoesNot) {
  scripted::ScriptedServer server(scripted::vllm_engine(test::weak_lookup(), "kvphase"));
  const std::string audit = fmt::format("audit {} {}", server.url(), kLookup);
  ASSERT_EQ(run(audit + "--out plain").code, 0);
  const Outcome random = run(audit + "--mitigate random-padding --out random");
  ASSERT_EQ(random.code, 0) << random.err;
  const Outcome majority = run(audit + "--mitigate majority --out majority");
  ASSERT_EQ(majority.code, 3) << "all right, but few items" << majority.err;
  fmt::print("right: plain {}, random padding {}, majority {}\n", share_right("plain"),
             share_right("random"), share_right("majority"));
  EXPECT_EQ(share_right("plain"), 0.75);
  EXPECT_EQ(share_right("random"), 0.75);
  EXPECT_EQ(share_right("majority"), 1);
  EXPECT_EQ(result("random").period.value, 4) << "it is as weak where the target really stands";
  const record::Result found = result("majority");
  EXPECT_FALSE(found.period.value);
  EXPECT_EQ(found.design.mitigation, "majority of 4") << "the stride is the server's";
  EXPECT_EQ(found.design.items, 24);
  EXPECT_EQ(journal("majority").size(), 24U * 8);
  EXPECT_EQ(record::read_journal(folder_ / "majority/votes.jsonl").size(), 4U * 24 * 8);
  const double tokens = result("plain").design.tokens_per_answer.value();
  EXPECT_NEAR(found.design.tokens_per_answer.value(), 4 * tokens + 6, 1e-9);
  EXPECT_THAT(read("majority/report.txt"), HasSubstr("mitigation majority of 4"));
  const base::Json manifest = base::Json::parse(read("random/manifest.json"));
  EXPECT_EQ(manifest["options"]["mitigation"]["name"], "random-padding");
}

TEST_F(MitigateCli, ComparePairsTheSameItemsAndResiduesWithThePlainPromptsOfTheSameModel) {
  scripted::ScriptedServer weak(scripted::vllm_engine(test::weak_lookup(), "kvphase"));
  const std::string audit = fmt::format("audit {} {}", weak.url(), kLookup);
  ASSERT_EQ(run(audit + "--mitigate majority --out majority").code, 3);
  ASSERT_EQ(run(audit + "--out plain").code, 0);
  ASSERT_EQ(run(audit + "--mitigate random-padding --out random").code, 0);
  ASSERT_EQ(run(audit + "--seed 2 --mitigate list --out other").code, 0);
  const Outcome outcome = run("compare majority random plain other --out c");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  fmt::print("{}", outcome.out);
  const base::Json c = base::Json::parse(read("c/comparison.json"));
  ASSERT_EQ(c.at("pairs").size(), 2U) << "the run of another seed asks other items";
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("the worst residue rises with 1 of 2 mitigations: majority."),
                    HasSubstr("No paired test of other + list: no run of the same model with the "
                              "same items in plain prompts")));
  for (const base::Json& pair : c.at("pairs")) {
    EXPECT_EQ(pair.at("rule"), "plain prompts");
    EXPECT_EQ(pair.at("reference"), "plain");
    EXPECT_EQ(pair.at("prompts"), 24 * 8);
    const bool majority = pair.at("run") == "majority";
    EXPECT_EQ(pair.at("mean").at("value"), majority ? 0.25 : 0.0);
    EXPECT_EQ(pair.at("worst").at("value"), majority ? 1.0 : 0.0);
    EXPECT_EQ(pair.at("gap").at("value"), majority ? -1.0 : 0.0);
    EXPECT_NEAR(pair.at("tokens").get<double>(), majority ? 3 * 36 + 6 : 3.5, 1.5);
  }
}

TEST_F(MitigateCli, MajorityOfVotesInWordsRecoversThePhaseToo) {
  scripted::ScriptedServer server(scripted::vllm_engine(records_engine(false)));
  const Outcome plain = run(fmt::format("audit {} {} --out plain", server.url(), kRecords));
  ASSERT_EQ(plain.code, 0) << plain.err;
  const Outcome outcome =
      run(fmt::format("audit {} {} --mitigate majority --out votes", server.url(), kRecords));
  ASSERT_EQ(outcome.code, 3) << "all right, but few items" << outcome.err;
  EXPECT_EQ(share_right("plain"), 0.75);
  EXPECT_EQ(share_right("votes"), 1);
  for (const record::Observation& o : record::read_journal(folder_ / "votes/votes.jsonl")) {
    ASSERT_EQ(o.correct, o.target_position % 4 != 3) << "every vote's position is the server's";
  }
}

TEST_F(MitigateCli, WhatStandsNearTheQuestionHelpsAModelThatReadsItThere) {
  // As ids, as text with a start token, and as a chat: positions are proven with the mitigation.
  scripted::EngineOptions with_bos = records_engine(true);
  with_bos.bos = 1;
  scripted::EngineOptions chat = records_engine(true);
  chat.template_overhead = 7;
  const struct {
    const char* name;
    scripted::Handler engine;
    const char* form;
  } servers[] = {{"ids", scripted::vllm_engine(records_engine(true)), ""},
                 {"text", scripted::vllm_engine(with_bos), "--form text"},
                 {"chat", scripted::chat_api(chat), ""}};
  for (const auto& [name, engine, form] : servers) {
    scripted::ScriptedServer server(engine);
    for (const char* mitigation : {"restate", "retrieve", "query-first"}) {
      const std::string out = fmt::format("{}-{}", name, mitigation);
      const Outcome outcome = run(fmt::format("audit {} {} {} --mitigate {} --out {}", server.url(),
                                              kRecords, form, mitigation, out));
      ASSERT_TRUE(outcome.code == 0 || outcome.code == 3) << out << outcome.err;
      EXPECT_EQ(result(out).design.missing, 0) << out;
      fmt::print("{}: {} right, {} tokens per answer\n", out, share_right(out),
                 result(out).design.tokens_per_answer.value());
      if (std::string_view(mitigation) == "query-first") {
        EXPECT_EQ(result(out).period.value, 4) << out;
        std::map<bool, std::set<std::int64_t>> phases;
        for (const record::Observation& o : journal(out)) {
          phases[o.correct.value()].insert(o.target_position % 4);
        }
        EXPECT_EQ(phases[false].size(), 1U) << out << ": positions are right up to one rotation";
        if (std::string_view(name) != "chat") {
          EXPECT_EQ(*phases[false].begin(), 3) << out;
        }
      } else {
        // A passage with both words of the key in other records may outrank the asked one.
        EXPECT_GE(share_right(out), std::string_view(mitigation) == "restate" ? 1 : 0.95) << out;
      }
    }
  }
}

TEST_F(MitigateCli, NeedleAndTemplatesAreMitigatedToo) {
  scripted::ScriptedServer server(scripted::vllm_engine(records_engine(true)));
  for (const char* mitigation : {"restate", "list", "retrieve", "query-first", "random-padding"}) {
    const Outcome outcome =
        run(fmt::format("audit {} --task needle --items 16 -R 4 --haystack 128 -q --mitigate {} "
                        "--out {}",
                        server.url(), mitigation, mitigation));
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 3) << mitigation << outcome.err;
    EXPECT_EQ(result(mitigation).design.missing, 0) << mitigation;
  }
}

TEST_F(MitigateCli, ADryRunCountsWhatTheMitigationCosts) {
  scripted::ScriptedServer server(scripted::vllm_engine(test::weak_lookup(), "kvphase"));
  const Outcome outcome = run(
      fmt::format("audit {} {} --mitigate majority --votes 3 --dry-run", server.url(), kLookup));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(completions(server), 0);
  // 30 + 1 + 4 + 1 = 36 tokens; two more prompts per answer, 0, 1 and 2 tokens longer.
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("576 of 24 items, 3 votes each"),
                                 HasSubstr("majority of 3: about 14,400 prompt tokens more")));
  fmt::print("{}", outcome.out);
}

TEST_F(MitigateCli, AStoppedVoteGoesOnWhereItWasAndAnotherMitigationIsRefused) {
  scripted::EngineOptions options = test::weak_lookup();
  scripted::ScriptedServer server(scripted::vllm_engine(options, "kvphase"));
  const std::string audit = fmt::format("audit {} {}", server.url(), kLookup);
  const Outcome stopped = run(audit + "--mitigate majority --max-requests 500 --out run");
  // A plan over its cap is refused before it is paid for; so the stop is made by hand.
  EXPECT_EQ(stopped.code, 2) << stopped.err;
  ASSERT_EQ(run(audit + "--mitigate majority --out run").code, 3);
  const std::string votes = read("run/votes.jsonl");
  const std::string answers = read("run/journal.jsonl");
  // As a kill leaves it: half of the votes, no answers.
  write("run/votes.jsonl", votes.substr(0, votes.find('\n', votes.size() / 2) + 1));
  fs::remove(folder_ / "run/journal.jsonl");
  const std::int64_t before = completions(server);
  const Outcome other = run(audit + "--mitigate majority --votes 2 --resume run");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("options.mitigation.votes (4, now 2)"));
  const Outcome plain = run(audit + "--resume run");
  EXPECT_EQ(plain.code, 2);
  EXPECT_THAT(plain.err, HasSubstr("expected --mitigate majority to go on with run, got plain"));
  const Outcome unlike = run(audit + "--mitigate restate --records 8 --resume run");
  EXPECT_EQ(unlike.code, 2);
  EXPECT_THAT(unlike.err, AllOf(HasSubstr("got --mitigate restate"), Not(HasSubstr("language"))));
  const Outcome resumed = run(audit + "--mitigate majority --resume run");
  ASSERT_EQ(resumed.code, 3) << resumed.err;
  EXPECT_EQ(read("run/journal.jsonl"), answers);
  const std::int64_t asked = completions(server) - before;
  fmt::print("{} of 768 votes asked again\n", asked);
  EXPECT_LT(asked, 450);
}

TEST_F(MitigateCli, AnAnalysisOfAMitigatedRunSaysSoAndSingleVotesAreRefused) {
  scripted::ScriptedServer server(scripted::vllm_engine(test::weak_lookup(), "kvphase"));
  const std::string audit = fmt::format("audit {} {}", server.url(), kLookup);
  ASSERT_EQ(run(audit + "--mitigate random-padding --out random").code, 0);
  ASSERT_EQ(run(audit + "--mitigate majority --out majority").code, 3);
  for (const char* what : {"random", "random/journal.jsonl"}) {
    const Outcome outcome = run(fmt::format("analyze {} --out again", what));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("kvphase journal, mitigation random-padding")) << what;
    EXPECT_EQ(result("again").design.mitigation, "random-padding");
    EXPECT_THAT(result("again").title, HasSubstr("mitigation random-padding"));
    EXPECT_THAT(read("again/report.html"), HasSubstr("mitigation random-padding"));
    const std::string& step = result("again").verdict.next_step;
    EXPECT_THAT(step, HasSubstr("With these prompts (random-padding)"));
    EXPECT_THAT(step, Not(HasSubstr("repeat key facts")));
    fmt::print("{}: {}\n", what, step);
    fs::remove_all(folder_ / "again");
  }
  EXPECT_EQ(run("analyze majority/journal.jsonl -q").code, 3);
  const Outcome votes = run("analyze majority/votes.jsonl");
  EXPECT_EQ(votes.code, 2);
  EXPECT_THAT(votes.err, HasSubstr("single votes"));
  EXPECT_THAT(votes.err, HasSubstr("analyze majority, whose journal.jsonl has the answers"));
  fs::remove(folder_ / "majority/journal.jsonl");
  EXPECT_THAT(run("analyze majority/votes.jsonl").err, HasSubstr("--resume majority"));
}

TEST_F(MitigateCli, ItemsThatAreRoundedUpAreNamed) {
  scripted::ScriptedServer server(scripted::vllm_engine(test::weak_lookup(), "kvphase"));
  const Outcome outcome =
      run(fmt::format("audit {} --modulus 8 --items 20 --demonstrations 2 -q --mitigate "
                      "random-padding --out run",
                      server.url()));
  EXPECT_THAT(outcome.err, HasSubstr("24 items are asked, not 20: a multiple of the 8 residues"));
  ASSERT_EQ(result("run").context.warnings.size(), 1U);
  EXPECT_THAT(read("run/report.html"), HasSubstr("24 items are asked, not 20"));
  const Outcome as_many = run(fmt::format(
      "audit {} --modulus 8 --items 24 --demonstrations 2 -q --out plain", server.url()));
  EXPECT_THAT(as_many.err, Not(HasSubstr("items are asked")));
  EXPECT_TRUE(result("plain").context.warnings.empty());
  const Outcome words = run(
      fmt::format("audit {} --task needle --items 9 --modulus 8 -q --out needle", server.url()));
  EXPECT_THAT(words.err, HasSubstr("items are asked, not 9")) << words.err;
}

TEST_F(MitigateCli, HelpAndDocumentationSayWhatTheTableSays) {
  const Outcome help = run("audit --help");
  const std::string docs = base::read_file(fs::path(KVPHASE_DOCS) / "tasks.md");
  // Help breaks its lines where it likes.
  std::string words;
  for (const char c : help.out) {
    if (c != '\n' && (c != ' ' || words.empty() || words.back() != ' ')) words += c;
    if (c == '\n' && !words.empty() && words.back() != ' ') words += ' ';
  }
  for (const task::MitigationInfo& info : task::mitigations()) {
    EXPECT_THAT(words, HasSubstr(fmt::format("{}: {}", info.name, info.what)));
    EXPECT_THAT(docs,
                HasSubstr(fmt::format("| `{}` | {} | {} |\n", info.name, info.what, info.tasks)));
  }
}

TEST_F(MitigateCli, OptionsThatMeanNothingAreRefused) {
  scripted::ScriptedServer server(scripted::vllm_engine(test::weak_lookup(), "kvphase"));
  const std::string audit = fmt::format("audit {} {} --out no ", server.url(), kLookup);
  const std::pair<const char*, const char*> cases[] = {
      {"--votes 4", "only with --mitigate majority"},
      {"--mitigate list --passages 2", "only with --mitigate retrieve"},
      {"--mitigate retrieve --key-facts 2", "only with --mitigate list or restate"},
      {"--mitigate lists", "did you mean 'list'"},
      {"--mitigate majority --sequential", "leave it out"},
      {"--mitigate list --key-facts 9", "at most the 5 key facts"}};
  for (const auto& [options, says] : cases) {
    const Outcome outcome = run(audit + options);
    EXPECT_EQ(outcome.code, 2) << options << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(says)) << options;
    EXPECT_FALSE(fs::exists(folder_ / "no"));
  }
}

}  // namespace
}  // namespace kvphase
