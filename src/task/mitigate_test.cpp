#include "task/mitigate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "task/catalog.h"
#include "task/lookup.h"
#include "task/words.h"

namespace kvphase::task {
namespace {

using ::testing::HasSubstr;

LookupOptions lookup_options() {
  return {.language = {.haystack = 30, .records = 5, .queries = 5},
          .demonstrations = 3,
          .modulus = 8,
          .items = 16,
          .seed = 3};
}

TaskSettings word_settings() {
  TaskSettings settings{.pad_at = {}, .modulus = 8, .items = 16, .haystack = 512};
  for (const std::string& word : candidate_words()) settings.words.push_back(word);
  std::erase(settings.words, "is");
  settings.words.resize(140);
  settings.records = 60;
  settings.per_haystack = 8;
  settings.constant_tokens = 40;
  return settings;
}

std::unique_ptr<Task> make(std::string_view name, std::optional<MitigationOptions> mitigation) {
  if (name == "lookup") {
    auto plain = std::make_unique<LookupTask>(lookup_options());
    if (!mitigation) return plain;
    return mitigate(std::move(plain), *mitigation);
  }
  TaskSettings settings = word_settings();
  settings.mitigation = mitigation;
  if (name != "records") settings.records = settings.per_haystack = std::nullopt;
  return make_task(name, settings);
}

std::string text_of(const Prompt& prompt) {
  std::string text;
  if (prompt.words) {
    for (const std::string& piece : prompt.words->pieces) text += piece;
  } else {
    for (const lm::TokenId token : prompt.request.prompt) text += fmt::format(" {}", token);
  }
  return text;
}

TEST(Mitigate, EveryPromptIsAtItsResidueAndHasTheTokensThatItSays) {
  for (const char* name : {"lookup", "records", "needle"}) {
    for (const MitigationInfo& info : mitigations()) {
      const auto plain = make(name, std::nullopt);
      const auto task = make(name, MitigationOptions{.mitigation = info.mitigation, .votes = 4});
      ASSERT_EQ(task->items(), plain->items() * task->votes()) << name << info.name;
      double extra = 0;
      for (std::int64_t item = 0; item < task->items(); ++item) {
        std::set<std::int64_t> lengths;
        for (std::int64_t residue = 0; residue < 8; ++residue) {
          const Prompt p = task->prompt(item, residue);
          ASSERT_EQ(p.item, item);
          ASSERT_EQ(p.residue, residue);
          ASSERT_EQ(p.target_position % 8, residue) << name << " " << info.name << item;
          ASSERT_EQ(task->recount(p), p.length) << name << " " << info.name << text_of(p);
          ASSERT_EQ(p.query_position, p.length - 1);
          ASSERT_LE(p.length, task->longest_prompt());
          ASSERT_EQ(p.haystack, task->haystack(item, residue));
          lengths.insert(p.length);
          const Prompt before = plain->prompt(item / task->votes(), residue);
          ASSERT_EQ(p.expected, before.expected);
          extra += static_cast<double>(p.length - before.length);
          if (p.words) {
            ASSERT_EQ(p.words->tokens.has_value(), before.words->tokens.has_value());
            if (p.words->tokens) {
              ASSERT_EQ(*p.words->tokens - p.length, *before.words->tokens - before.length);
            }
          } else {
            ASSERT_EQ(p.request.prompt[static_cast<std::size_t>(p.target_position)],
                      p.request.prompt.back());
          }
        }
        ASSERT_EQ(lengths.size(), 1U) << "one length within an item: " << name << info.name;
      }
      const MitigationCost cost = mitigation_cost(*task).value();
      const double mean = extra / static_cast<double>(8 * task->items());
      fmt::print("{:<8}{:<16}{:.1f} more tokens per prompt, {} prompts per answer\n", name,
                 info.name, mean, cost.votes);
      EXPECT_NEAR(cost.tokens_per_prompt, mean, 1e-9) << name << info.name;
    }
  }
}

TEST(Mitigate, WordsInAPlaceOfTheTargetAreWhereThePositionSays) {
  // Every word of the records is one token: the target's key stands right after as many words.
  for (const MitigationInfo& info : mitigations()) {
    const auto task = make("records", MitigationOptions{.mitigation = info.mitigation});
    const std::string preamble = task->preamble();
    for (std::int64_t item = 0; item < task->items(); ++item) {
      const Prompt p = task->prompt(item, item % 8);
      const std::string text = text_of(p);
      ASSERT_TRUE(text.starts_with(preamble)) << info.name;
      // " key key is" ends the prompt.
      std::size_t key = text.size();
      for (int words = 0; words < 3; ++words) key = text.rfind(' ', key - 1);
      const std::string asked = text.substr(key);
      std::size_t at = text.find(asked + " " + p.expected, preamble.size());
      ASSERT_NE(at, std::string::npos) << info.name << asked;
      const auto words = std::count(text.begin() + static_cast<std::ptrdiff_t>(preamble.size()),
                                    text.begin() + static_cast<std::ptrdiff_t>(at), ' ');
      ASSERT_EQ(words, p.target_position) << info.name << item;
    }
  }
}

TEST(Mitigate, RestateAndListHoldEveryKeyFactAndRetrieveFindsTheAskedOneByTheQuestionAlone) {
  for (const char* name : {"lookup", "records", "needle"}) {
    const auto plain = make(name, std::nullopt);
    for (const Mitigation m : {Mitigation::kRestate, Mitigation::kList, Mitigation::kRetrieve}) {
      const auto task = make(name, MitigationOptions{.mitigation = m});
      for (std::int64_t item = 0; item < task->items(); ++item) {
        const Prompt before = plain->prompt(item, 3);
        const Prompt after = task->prompt(item, 3);
        const Anatomy anatomy = plain->anatomy(before);
        // What was added begins where the two texts part, or, by chance alike, a little earlier.
        const std::string old = text_of(before);
        const std::string now = text_of(after);
        std::size_t same = 0;
        while (same < old.size() && old[same] == now[same]) ++same;
        const std::string rest = now.substr(same > 2 ? same - 2 : 0);
        for (const KeyFact& fact : anatomy.facts) {
          if (m == Mitigation::kRetrieve && !fact.asked) continue;
          std::string wanted =
              m == Mitigation::kList && !fact.key.empty() ? fact.key + ":" + fact.value : fact.text;
          if (!fact.ids.empty()) wanted = fmt::format("{} {}", fact.ids[0], fact.ids[1]);
          ASSERT_THAT(rest, HasSubstr(wanted)) << name << info_of(m).name << item;
        }
      }
    }
  }
}

TEST(Mitigate, AFewKeyFactsHoldTheAskedOneAndTheSameOnesAtEveryResidue) {
  const auto plain = make("lookup", std::nullopt);
  const auto task = make("lookup", MitigationOptions{.mitigation = Mitigation::kList, .facts = 2});
  const std::size_t H = 30, D = 3;
  for (std::int64_t item = 0; item < task->items(); ++item) {
    std::set<std::vector<lm::TokenId>> lists;
    for (std::int64_t residue = 0; residue < 8; ++residue) {
      const auto& tokens = task->prompt(item, residue).request.prompt;
      const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(H + 1 + 2 * D);
      const std::vector<lm::TokenId> list(from, tokens.end() - 1);
      ASSERT_EQ(list.size(), 4U);
      ASSERT_TRUE(list[0] == tokens.back() || list[2] == tokens.back());
      lists.insert(list);
    }
    ASSERT_EQ(lists.size(), 1U);
  }
}

TEST(Mitigate, RandomPaddingTakesEveryNumberOfTokensAndVotesTakeAllOfThemInTurn) {
  LookupOptions options = lookup_options();
  options.items = 800;
  const LookupTask plain(options);
  const auto random =
      mitigate(std::make_unique<LookupTask>(options), {.mitigation = Mitigation::kRandomPadding});
  std::map<std::int64_t, int> fronts;
  std::map<std::int64_t, double> mean;
  for (std::int64_t item = 0; item < 800; ++item) {
    ++fronts[random->prompt(item, 0).length - plain.prompt(item, 0).length];
    for (std::int64_t r = 0; r < 8; ++r) {
      mean[r] += static_cast<double>(random->prompt(item, r).target_position) / 800;
    }
  }
  ASSERT_EQ(fronts.size(), 8U);
  for (const auto& [front, count] : fronts) {
    fmt::print("{} tokens in front of {} items\n", front, count);
    EXPECT_NEAR(count, 100, 45) << front;  // over four standard deviations
  }
  for (const auto& [r, m] : mean) EXPECT_NEAR(m, mean[0], 1e-9) << r;
  const auto votes =
      mitigate(std::make_unique<LookupTask>(options), {.mitigation = Mitigation::kMajority});
  for (std::int64_t v = 0; v < 4; ++v) {
    const Prompt vote = votes->prompt(5 * 4 + v, (2 + v) % 8);
    const Prompt asked = plain.prompt(5, 2);
    EXPECT_EQ(vote.target_position, asked.target_position + v);
    EXPECT_TRUE(std::equal(asked.request.prompt.begin(), asked.request.prompt.end(),
                           vote.request.prompt.begin() + v));
  }
}

TEST(Mitigate, WhatATaskCannotDoIsRefusedWithWhatCanBeDone) {
  const auto error_of = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_THAT(
      error_of([] { make("completion", MitigationOptions{.mitigation = Mitigation::kList}); }),
      HasSubstr("write a template with {needle}"));
  EXPECT_THAT(error_of([] {
                make("completion", MitigationOptions{.mitigation = Mitigation::kQueryFirst});
              }),
              HasSubstr("{question}"));
  EXPECT_THAT(error_of([] {
                make("lookup", MitigationOptions{.mitigation = Mitigation::kList, .facts = 6});
              }),
              HasSubstr("at most the 5 key facts"));
  EXPECT_THAT(error_of([] {
                make("lookup", MitigationOptions{.mitigation = Mitigation::kMajority, .votes = 9});
              }),
              HasSubstr("2 to 8 --votes"));
  EXPECT_THAT(error_of([] { mitigation_from_name("ristate"); }), HasSubstr("'restate'"));
  EXPECT_NO_THROW(make("completion", MitigationOptions{.mitigation = Mitigation::kMajority}));
}

}  // namespace
}  // namespace kvphase::task
