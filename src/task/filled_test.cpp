#include "task/filled.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "task/completion.h"
#include "task/needle.h"
#include "task/template_file.h"
#include "task/words.h"

namespace kvphase::task {
namespace {

std::vector<std::string> words() {
  const auto all = candidate_words();
  return {all.begin(), all.begin() + 40};
}

// Our counter for the tests: every blank or newline starts a token, nothing else does.
std::int64_t count(std::string_view text) {
  return std::ranges::count(text, ' ') + std::ranges::count(text, '\n');
}

TaskSettings settings(std::optional<PadAt> at = std::nullopt) {
  return {.pad_at = at, .haystack = 300, .words = words(), .count_tokens = count};
}

std::string text_of(const Prompt& prompt) {
  std::string text;
  for (const std::string& piece : prompt.words->pieces) text += piece;
  return text;
}

std::int64_t tokens_before(const Task& task, const Prompt& prompt, std::string_view what) {
  const std::string text = text_of(prompt).substr(task.preamble().size());
  const std::size_t found = text.find(what);
  EXPECT_NE(found, std::string::npos) << what;
  return count(std::string_view(text).substr(0, found));
}

TEST(Needle, StandsAtItsResidueAndTheEndIsWhereTheDesignSays) {
  for (const std::string& name : pad_at_names()) {
    const PadAt at = pad_at_from_name(name);
    const auto task = make_task("needle", settings(at));
    std::set<std::int64_t> queries;
    for (std::int64_t r = 0; r < 8; ++r) {
      const Prompt prompt = task->prompt(3, r);
      EXPECT_EQ(tokens_before(*task, prompt, " The contract"), prompt.target_position) << name;
      EXPECT_EQ(count(text_of(prompt).substr(task->preamble().size())), prompt.length) << name;
      EXPECT_EQ(task->recount(prompt), prompt.length) << name;
      EXPECT_LE(prompt.length, task->longest_prompt());
      EXPECT_EQ((moves_end_only(at) ? prompt.query_position : prompt.target_position) % 8, r)
          << name;
      EXPECT_NE(text_of(prompt).find(prompt.expected), std::string::npos);
      queries.insert(prompt.query_position);
    }
    EXPECT_EQ(queries.size(), at == PadAt::kSplit ? 1U : 8U) << name;
  }
}

TEST(Needle, SplitMovesItThroughFillerThatStays) {
  const auto task = make_task("needle", settings());
  std::set<std::string> without;
  for (std::int64_t r = 0; r < 8; ++r) {
    std::string text = text_of(task->prompt(3, r));
    const std::size_t from = text.find(" The contract");
    text.erase(from, text.find("no other.") + 9 - from);
    without.insert(text);
  }
  EXPECT_EQ(without.size(), 1U) << "the prompts differ in the needle's place only";
}

TEST(Needle, StandsAtTheChosenDepth) {
  for (const double depth : {0.0, 0.25, 0.9, 1.0}) {
    TaskSettings s = settings();
    s.haystack = 2000;
    s.depth = depth;
    const auto task = make_task("needle", s);
    const auto position = static_cast<double>(task->prompt(0, 0).target_position);
    EXPECT_NEAR(position / 2000, depth, 0.015) << depth;
  }
}

TEST(Needle, EachKindIsAnExactStringOfItsShapeAndAllDiffer) {
  const std::map<std::string, std::string> shapes = {
      {"code", "@@-###-#####-##"},
      {"path", "/"},
      {"hex", "****************"},
      {"uuid", "********-****-4***-****-************"}};
  for (const std::string& name : identifier_names()) {
    std::set<std::string> seen;
    const FilledOptions options =
        needle_options({.identifier = identifier_from_name(name), .entries = 50});
    for (const FilledItem& entry : options.entries) {
      EXPECT_TRUE(seen.insert(entry.answer).second);
      EXPECT_NE(entry.needle.find(" " + entry.answer + " "), std::string::npos);
      const std::string& shape = shapes.at(name);
      if (name == "path") {
        EXPECT_TRUE(entry.answer.starts_with("/srv/data") && entry.answer.ends_with(".log"))
            << entry.answer;
        continue;
      }
      ASSERT_EQ(entry.answer.size(), shape.size()) << entry.answer;
      for (std::size_t i = 0; i < shape.size(); ++i) {
        const auto c = static_cast<unsigned char>(entry.answer[i]);
        EXPECT_TRUE(shape[i] == '@'   ? std::isupper(c)
                    : shape[i] == '#' ? std::isdigit(c)
                    : shape[i] == '*' ? std::isxdigit(c)
                                      : c == static_cast<unsigned char>(shape[i]))
            << entry.answer;
      }
    }
  }
}

TEST(Needle, AMovingEndNeedsATokenizerBecauseIdentifiersDifferInTokens) {
  for (const PadAt at : {PadAt::kAfterNeedle, PadAt::kTwoFactor}) {
    TaskSettings s = settings(at);
    s.count_tokens = nullptr;
    try {
      make_task("needle", s);
      FAIL() << name_of(at);
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kPhaseControl) << error.what();
    }
  }
  TaskSettings s = settings();
  s.count_tokens = nullptr;
  const auto task = make_task("needle", s);
  EXPECT_EQ(task->prompt(2, 5).target_position % 8, 5) << "the needle's own place is known";
}

TEST(Completion, LengthensTheFillerOneUnitAtATimeInEveryFamilyAndComparesTheCandidates) {
  const auto task = make_task("completion", {.modulus = 4, .words = words()});
  EXPECT_EQ(task->pad_at(), PadAt::kStart);
  EXPECT_EQ(task->items(), 16);
  std::set<std::string> families;
  for (std::int64_t item = 0; item < task->items(); ++item) {
    std::set<std::int64_t> lengths;
    for (std::int64_t r = 0; r < 4; ++r) {
      const Prompt prompt = task->prompt(item, r);
      EXPECT_EQ(prompt.target_position % 4, r);
      EXPECT_EQ(prompt.words->candidates, (std::vector<std::string>{"8", "32"}));
      EXPECT_TRUE(text_of(prompt).ends_with("as FP"));
      const std::string& filler = prompt.words->pieces[1];
      EXPECT_EQ(std::ranges::count(filler, ' '), prompt.target_position) << filler;
      lengths.insert(prompt.length);
      families.insert(filler.substr(0, 2));
    }
    EXPECT_EQ(*lengths.rbegin() - *lengths.begin(), 3);
  }
  EXPECT_GE(families.size(), 4U);
  EXPECT_EQ(task->grade(task->prompt(0, 0), {.candidate_logprobs = {-0.5, -1.0}}).correct, true);
}

TEST(Completion, TheSnippetIsCodeWhoseLastLineEndsInFp) {
  EXPECT_TRUE(fp8_snippet().ends_with(" FP"));
  EXPECT_THROW(completion_options({.text = "no slot", .candidates = {"a", "b"}}), base::Error);
  EXPECT_THROW(completion_options({.text = "{filler} x", .candidates = {"a"}}), base::Error);
  const FilledOptions code =
      completion_options({.text = "d = {filler} {x: 1}; f\"{x}\"", .candidates = {"a", "b"}});
  EXPECT_EQ(code.segments.back().text, " {x: 1}; f\"{x}\"") << "code has braces of its own";
}

constexpr const char* kTemplate = R"({
  "name": "contract",
  "prompt": "Read {{this}}.{filler_before} Note: {needle}{filler_after}\n{question}",
  "items": [
    {"needle": "Rome pays 12.", "question": "What does Rome pay?", "answer": "12"},
    {"needle": "Oslo pays 7 or so.", "question": "What does Oslo pay?", "answer": "7", "others": ["12"]}],
  "filler": ["red", "blue"],
  "haystack": 120, "depth": 0.5, "max_tokens": 5, "stop": ["\n"], "grading": "contains"
})";

TEST(Template, FillsItsSlotsAndCountsEveryTextWhereATokenizerIsThere) {
  FilledOptions options = parse_template(kTemplate, "t.json");
  options.count_tokens = count;
  options.items = 8;
  const FilledTask task(options);
  EXPECT_EQ(task.name(), "contract");
  EXPECT_EQ(task.preamble(), "Read {this}.");
  for (std::int64_t item = 0; item < 8; ++item) {
    for (std::int64_t r = 0; r < 8; ++r) {
      const Prompt prompt = task.prompt(item, r);
      EXPECT_EQ(tokens_before(task, prompt, item % 2 == 0 ? "Rome pays 12" : "Oslo pays 7"),
                prompt.target_position);
      EXPECT_EQ(prompt.target_position % 8, r);
      EXPECT_EQ(prompt.expected, item % 2 == 0 ? "12" : "7");
      EXPECT_TRUE(text_of(prompt).ends_with(item % 2 == 0 ? "Rome pay?" : "Oslo pay?"));
      EXPECT_EQ(prompt.words->max_tokens, 5);
    }
  }
}

TEST(Template, NamesTheKeyOrSlotThatIsWrongWithTheNearest) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      parse_template(text, "t.json");
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
      return error.what();
    }
    return "accepted";
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = kTemplate;
    const std::size_t found = text.find(from);
    EXPECT_NE(found, std::string::npos) << from;
    return message(text.replace(found, from.size(), to));
  };
  const auto expect = [](const std::string& got, const std::string& part) {
    EXPECT_NE(got.find(part), std::string::npos) << got << " has no " << part;
  };
  expect(with("\"stop\"", "\"stops\""), "stop");
  expect(with("\"answer\": \"7\"", "\"anwser\": \"7\""), "items[1]");
  expect(with("{needle}", "{neddle}"), "did you mean {needle}");
  expect(with("{filler_before}", ""), "filler_before");
  expect(with("{question}", "{needle}"), "again");
  expect(with("\"contains\"", "\"regex\""), "grading");
  expect(with("\"contains\"", "\"choice\""), "others");
  expect(with("{filler_before} Note: {needle}", "{needle}{filler_before}"), "before every other");
  expect(with("{needle}{filler_after}", "{filler_after}{needle}"), "behind");
  expect(with("\"depth\": 0.5", "\"depth\": \"deep\""), "depth");
  expect(message(R"({"prompt": "{filler} x", "items": []})"), "items");
}

TEST(Template, RefusesAPaddingThatItsSlotsCannotCarry) {
  FilledOptions options = parse_template(
      R"({"prompt": "{filler} Say {needle}", "items": [{"needle": "a", "answer": "a"}],
          "filler": ["red"], "haystack": 100})",
      "t.json");
  EXPECT_THROW(FilledTask{options}, base::Error) << "split needs filler behind the needle";
  options.pad_at = PadAt::kStart;
  EXPECT_EQ(FilledTask(options).prompt(0, 3).target_position % 8, 3);
}

TEST(Catalog, RefusesAnUnknownTaskWithTheNearestAndSaysWhichWordsEachNeeds) {
  try {
    make_task("record", {});
    FAIL() << "expected a refusal";
  } catch (const base::Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean records"), std::string::npos);
  }
  EXPECT_EQ(words_needed("records", {}).required, std::vector<std::string>{"is"});
  EXPECT_GT(words_needed("records", {.records = 16000}).wanted,
            words_needed("records", {.records = 100}).wanted);
  EXPECT_EQ(words_needed("completion", {}).required, (std::vector<std::string>{"=", "-", "#"}));
  for (const std::string name : {"records", "needle", "completion"}) {
    const WordNeed need = words_needed(name, {});
    const auto all = candidate_words();
    ASSERT_LE(need.wanted, all.size()) << name;
    const auto task = make_task(
        name, {.words = {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(need.wanted)}});
    const auto used = task->one_token_words();
    for (const std::string& word : need.required) {
      EXPECT_NE(std::ranges::find(used, word), used.end()) << name << " " << word;
    }
  }
}

}  // namespace
}  // namespace kvphase::task
