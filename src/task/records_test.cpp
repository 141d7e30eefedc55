#include "task/records.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "task/plan_cost.h"
#include "task/words.h"

namespace kvphase::task {
namespace {

std::vector<std::string> words(std::size_t count) {
  const auto all = candidate_words();
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

RecordsOptions small(PadAt at = PadAt::kSplit) {
  return {.words = words(120),
          .haystack = 700,
          .records = 60,
          .per_haystack = 8,
          .demonstrations = 3,
          .items = 64,
          .pad_at = at};
}

std::string text_of(const Prompt& prompt) {
  std::string text;
  for (const std::string& piece : prompt.words->pieces) text += piece;
  return text;
}

// The words of a prompt behind its preamble, the question's constant text left out.
std::vector<std::string> words_of(const RecordsTask& task, const Prompt& prompt) {
  std::string text = text_of(prompt).substr(task.preamble().size());
  const std::size_t question = text.find("\n\n");
  text.erase(question, text.find(".\n", question) + 2 - question);
  std::vector<std::string> list;
  for (std::size_t i = 0; i < text.size();) {
    EXPECT_TRUE(text[i] == ' ' || text[i] == '\n') << text.substr(i, 20);
    std::size_t end = i + 1;
    while (end < text.size() && text[end] != ' ' && text[end] != '\n') ++end;
    if (end > i + 1) list.push_back(text.substr(i + 1, end - i - 1));
    i = end;
  }
  return list;
}

TEST(Records, TheTargetStandsAtItsPositionWithItsValueAndTheQuestionAtTheEnd) {
  for (const std::string& name : pad_at_names()) {
    const PadAt at = pad_at_from_name(name);
    const RecordsTask task(small(at));
    for (std::int64_t item = 0; item < task.items(); item += 7) {
      for (std::int64_t r = 0; r < 8; ++r) {
        const Prompt prompt = task.prompt(item, r);
        const auto list = words_of(task, prompt);
        ASSERT_EQ(std::ssize(list), prompt.length) << name << " item " << item << " residue " << r;
        EXPECT_EQ(task.recount(prompt), prompt.length);
        EXPECT_LE(prompt.length, task.longest_prompt()) << name;
        EXPECT_EQ(prompt.query_position, prompt.length - 1);
        EXPECT_EQ((moves_end_only(at) ? prompt.query_position : prompt.target_position) % 8, r);
        const auto t = static_cast<std::size_t>(prompt.target_position);
        const std::size_t n = list.size();
        EXPECT_EQ(list[t], list[n - 3]) << name << ": the question's key is the target's";
        EXPECT_EQ(list[t + 1], list[n - 2]);
        EXPECT_EQ(list[n - 1], "is");
        EXPECT_EQ(list[t + 2], "is");
        EXPECT_EQ(list[t + 3], prompt.expected);
        EXPECT_EQ(prompt.haystack, task.haystack(item, r));
      }
    }
  }
}

TEST(Records, ItemsOfOneVersionShareTheirBeginningAndAHaystackHasAsManyVersionsAsResidues) {
  for (const PadAt at : {PadAt::kSplit, PadAt::kStart, PadAt::kTwoFactor, PadAt::kAfterNeedle}) {
    const RecordsTask task(small(at));
    std::map<std::int64_t, std::vector<std::string>> shared;
    std::map<std::int64_t, std::set<std::int64_t>> residues;
    for (std::int64_t item = 0; item < 8; ++item) {
      for (std::int64_t r = 0; r < 8; ++r) {
        const Prompt prompt = task.prompt(item, r);
        const auto begin = prompt.words->pieces.begin();
        const std::vector<std::string> pieces(
            begin, begin + static_cast<std::ptrdiff_t>(prompt.words->shared));
        const auto [it, fresh] = shared.emplace(prompt.haystack, pieces);
        EXPECT_EQ(it->second, pieces) << name_of(at) << " item " << item << " residue " << r;
        residues[prompt.haystack].insert(r);
      }
    }
    EXPECT_EQ(shared.size(), moves_end_only(at) ? 1U : 8U) << name_of(at);
    for (const auto& [haystack, seen] : residues) {
      EXPECT_EQ(seen.size(), 8U) << "every version has items at every residue";
    }
  }
}

TEST(Records, WithinAnItemOnlyFillerMovesTheRecordsAndTheQuestionStay) {
  const RecordsTask task(small());
  const auto first = words_of(task, task.prompt(5, 0));
  for (std::int64_t r = 1; r < 8; ++r) {
    const Prompt prompt = task.prompt(5, r);
    const auto list = words_of(task, prompt);
    ASSERT_EQ(list.size(), first.size());
    const std::int64_t moved = prompt.target_position - task.prompt(5, 0).target_position;
    for (std::size_t i = 10; i + 40 < list.size(); ++i) {
      if (i + static_cast<std::size_t>(moved + 8) >= 690) break;
      EXPECT_EQ(list[i + static_cast<std::size_t>(moved + 8)], first[i + 8]) << "word " << i;
    }
    EXPECT_EQ(text_of(prompt).substr(text_of(prompt).find("\n\nNow")),
              text_of(task.prompt(5, 0)).substr(text_of(task.prompt(5, 0)).find("\n\nNow")));
  }
}

TEST(Records, SixteenThousandDistinctKeysComeFromAFewHundredWordsIn128kTokens) {
  const RecordsOptions options{.words = words(words_for_records(16000, 2)),
                               .haystack = 128 * 1024 - 200,
                               .records = 16000,
                               .per_haystack = 64,
                               .items = 64};
  EXPECT_LE(options.words.size(), 250U);
  const RecordsTask task(options);
  const Prompt prompt = task.prompt(17, 3);
  EXPECT_EQ(task.recount(prompt), prompt.length) << "a short haystack must not pass for a long one";
  EXPECT_GE(prompt.length, 128 * 1024 - 200);
  const auto list = words_of(task, prompt);
  std::int64_t records = 0;
  std::set<std::string> keys;
  for (std::size_t i = 2; i < list.size(); ++i) {
    if (list[i] != "is") continue;
    ++records;
    keys.insert(list[i - 2] + " " + list[i - 1]);
  }
  EXPECT_EQ(std::ssize(keys), 16000) << "demonstrations and the question repeat keys of the list";
  EXPECT_EQ(records, 16000 + 4 + 1);
}

TEST(Records, PositionsHaveEqualMeansAndVariancesOverResidues) {
  const RecordsTask task(small());
  std::vector<double> mean(8);
  std::vector<double> square(8);
  for (std::int64_t item = 0; item < task.items(); ++item) {
    for (std::int64_t r = 0; r < 8; ++r) {
      const auto p = static_cast<double>(task.prompt(item, r).target_position);
      mean[static_cast<std::size_t>(r)] += p / 64;
      square[static_cast<std::size_t>(r)] += p * p / 64;
    }
  }
  for (std::size_t r = 1; r < 8; ++r) {
    EXPECT_NEAR(mean[r], mean[0], 1e-9);
    EXPECT_NEAR(square[r] - mean[r] * mean[r], square[0] - mean[0] * mean[0],
                0.02 * (square[0] - mean[0] * mean[0]))
        << "residue " << r;
  }
}

TEST(Records, SharingCutsTheFreshTokensByTheNumberOfItemsPerHaystack) {
  RecordsOptions options = small();
  options.haystack = 6000;
  options.records = 600;
  options.per_haystack = 64;
  const RecordsTask task(options);
  const PlanCost alone = plan_cost(task, false);
  const PlanCost shared = plan_cost(task, true);
  EXPECT_EQ(alone.requests, 64 * 8);
  EXPECT_EQ(alone.prompt_tokens, 64 * 8 * task.longest_prompt());
  EXPECT_EQ(shared.requests, 64 * 8 + 8) << "one request per version fills the cache";
  EXPECT_EQ(shared.fresh_tokens(), 8 * 6000 + 64 * 8 * (task.longest_prompt() - 6000));
  const double ratio =
      static_cast<double>(alone.fresh_tokens()) / static_cast<double>(shared.fresh_tokens());
  EXPECT_GT(ratio, 20) << ratio;
}

TEST(Records, AStrideOf128IsAskedAtElevenResiduesInFewVersions) {
  RecordsOptions options = small();
  options.modulus = 128;
  options.haystack = 6000;
  const RecordsTask task(options);
  EXPECT_EQ(task.residues().size(), 11U);
  std::set<std::int64_t> versions;
  for (std::int64_t item = 0; item < 8; ++item) {
    for (const std::int64_t r : task.residues()) {
      const Prompt prompt = task.prompt(item, r);
      EXPECT_EQ(prompt.target_position % 128, r);
      versions.insert(prompt.haystack);
    }
  }
  EXPECT_LE(versions.size(), 32U) << "of 128 shifts";
}

TEST(Records, RefusesWhatCannotBe) {
  const auto refused = [](auto change) {
    RecordsOptions options = small();
    change(options);
    EXPECT_THROW(RecordsTask{options}, base::Error);
  };
  refused([](RecordsOptions& o) { o.words = words(20); });
  refused([](RecordsOptions& o) { o.words.push_back(o.words[0]); });
  refused([](RecordsOptions& o) { o.words.push_back("is"); });
  refused([](RecordsOptions& o) { o.records = 175; });
  refused([](RecordsOptions& o) { o.records = 9; });
  refused([](RecordsOptions& o) { o.haystack = 150; });
  refused([](RecordsOptions& o) { o.key_words = 3; });
  refused([](RecordsOptions& o) { o.modulus = 1; });
  refused([](RecordsOptions& o) { o.items = 0; });
  refused([](RecordsOptions& o) { o.demonstrations = -1; });
  refused([](RecordsOptions& o) {
    o.modulus = 128;
    o.haystack = 6000;
    o.pad_at = PadAt::kTwoFactor;
  });
}

}  // namespace
}  // namespace kvphase::task
