#include "audit/position_check.h"

#include <gtest/gtest.h>

#include <functional>

#include "audit/two_factor.h"
#include "task/catalog.h"
#include "task/lookup.h"
#include "task/words.h"

namespace kvphase::audit {
namespace {

using task::PadAt;
using task::Prompt;

std::int64_t count(std::string_view text) {
  return std::ranges::count(text, ' ') + std::ranges::count(text, '\n');
}

task::TaskSettings settings(PadAt at) {
  const auto all = task::candidate_words();
  return {.pad_at = at,
          .haystack = 900,
          .words = {all.begin(), all.begin() + 120},
          .count_tokens = count,
          .records = 70,
          .per_haystack = 16};
}

// A task with some of its prompts changed.
class Changed : public task::Task {
 public:
  Changed(const task::Task& inner, std::function<void(Prompt&)> change)
      : inner_(inner), change_(std::move(change)) {}
  std::string name() const override { return inner_.name(); }
  std::string padding() const override { return inner_.padding(); }
  PadAt pad_at() const override { return inner_.pad_at(); }
  std::int64_t modulus() const override { return inner_.modulus(); }
  std::vector<std::int64_t> residues() const override { return inner_.residues(); }
  std::int64_t items() const override { return inner_.items(); }
  std::int64_t longest_prompt() const override { return inner_.longest_prompt(); }
  base::Json options() const override { return inner_.options(); }
  std::string token_name(lm::TokenId token) const override { return inner_.token_name(token); }
  std::int64_t recount(const Prompt& prompt) const override { return inner_.recount(prompt); }
  Prompt prompt(std::int64_t item, std::int64_t residue) const override {
    Prompt prompt = inner_.prompt(item, residue);
    change_(prompt);
    return prompt;
  }

 private:
  const task::Task& inner_;
  std::function<void(Prompt&)> change_;
};

std::string failure(const task::Task& task, std::function<void(Prompt&)> change) {
  const std::string note = check_plan(Changed(task, std::move(change))).positions.note;
  const std::size_t at = note.find("failed: ");
  return at == std::string::npos ? "" : note.substr(at + 8);
}

TEST(PlanCheck, AcceptsEveryTaskWithItsDefaultNumberOfItemsWhereverTheFillerGoes) {
  for (const std::string& name : {std::string("records"), std::string("needle")}) {
    for (const std::string& at : task::pad_at_names()) {
      const auto task = task::make_task(name, settings(task::pad_at_from_name(at)));
      const PlanCheck check = check_plan(*task);
      EXPECT_TRUE(check.positions.ok) << name << " " << at << ": " << check.positions.note;
    }
  }
  for (const std::int64_t modulus : {4, 8}) {
    task::TaskSettings completion = settings(PadAt::kStart);
    completion.modulus = modulus;
    completion.haystack = std::nullopt;
    const PlanCheck check = check_plan(*task::make_task("completion", completion));
    EXPECT_TRUE(check.positions.ok) << check.positions.note;
  }
}

TEST(PlanCheck, AcceptsElevenResiduesOfAStrideOf128AndAnyOffsetInFront) {
  for (const PadAt at : {PadAt::kSplit, PadAt::kStart, PadAt::kAfterNeedle}) {
    for (const std::string& name : {std::string("records"), std::string("needle")}) {
      task::TaskSettings s = settings(at);
      s.modulus = 128;
      s.haystack = 7000;
      const auto task = task::make_task(name, s);
      for (const std::int64_t offset : {0, 5, 200}) {
        const auto residues = asked_residues(*task, offset);
        ASSERT_EQ(residues.size(), 11U);
        for (const std::int64_t r : residues) {
          const std::int64_t absolute = (r + offset) % 128;
          EXPECT_TRUE(absolute % 16 == 0 || absolute == 1 || absolute >= 126) << absolute;
        }
        const PlanCheck check = check_plan(*task, offset);
        EXPECT_TRUE(check.positions.ok) << name << " " << name_of(at) << check.positions.note;
      }
    }
  }
}

TEST(PlanCheck, SaysWhatFailedForEachWayOfPadding) {
  const auto make = [](PadAt at) { return task::make_task("records", settings(at)); };
  const auto odd = [](Prompt& p, std::int64_t& place, std::int64_t by) {
    if (p.residue == 3) place += by;
  };
  const auto expect = [](const std::string& got, const std::string& part) {
    EXPECT_NE(got.find(part), std::string::npos) << "'" << got << "' has no '" << part << "'";
  };
  const auto split = make(PadAt::kSplit);
  expect(failure(*split, [&](Prompt& p) { odd(p, p.query_position, 1); }), "query position moves");
  expect(failure(*split, [&](Prompt& p) { odd(p, p.length, 1); }), "says that it has");
  expect(failure(*split, [&](Prompt& p) { odd(p, p.target_position, 1); }), "at its residue");
  expect(failure(*split, [&](Prompt& p) { odd(p, p.target_position, 8); }), "mean or variance");
  expect(failure(*split, [&](Prompt& p) { p.words->pieces[1] = " short"; }), "says that it has");
  expect(failure(*make(PadAt::kStart), [&](Prompt& p) { odd(p, p.query_position, 8); }),
         "distance from the target");
  expect(failure(*make(PadAt::kAfterNeedle), [&](Prompt& p) { odd(p, p.target_position, 1); }),
         "target moves");
  const auto both = make(PadAt::kTwoFactor);
  expect(failure(*both, [&](Prompt& p) { odd(p, p.query_position, 1); }),
         "same residue of the end");
  expect(failure(*both,
                 [&](Prompt& p) {
                   // Every item at the same difference between its residues.
                   const std::int64_t end = p.query_position / 8 * 8 + p.residue;
                   p.query_position = end;
                 }),
         "equally often");
}

TEST(PlanCheck, RefusesAGeneratorThatIsFarTooShortForWhatItSays) {
  // 4,840 words that claim to be 262,144 tokens: the claim alone must not pass.
  const auto task = task::make_task("records", settings(PadAt::kSplit));
  const std::string why = failure(*task, [](Prompt& p) { p.length = 262144; });
  EXPECT_NE(why.find("says that it has 262144"), std::string::npos) << why;
}

TEST(TwoFactor, EveryItemHasEveryResidueOfEachOnceAndTheEndsCanBeAnalysed) {
  const auto task = task::make_task("records", settings(PadAt::kTwoFactor));
  std::vector<record::Observation> observations;
  for (std::int64_t item = 0; item < task->items(); ++item) {
    for (std::int64_t r = 0; r < 8; ++r) {
      const Prompt p = task->prompt(item, r);
      observations.push_back({.item = item,
                              .residue = r,
                              .target_position = p.target_position,
                              .query_position = p.query_position});
    }
  }
  const auto ends = by_end(observations, 8);
  std::vector<std::vector<std::int64_t>> cells(8, std::vector<std::int64_t>(8));
  for (std::size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(ends[i].residue, observations[i].query_position % 8);
    EXPECT_EQ(ends[i].target_position, observations[i].query_position);
    ++cells[static_cast<std::size_t>(observations[i].residue)]
           [static_cast<std::size_t>(ends[i].residue)];
  }
  for (const auto& row : cells) {
    for (const std::int64_t n : row) EXPECT_EQ(n, task->items() / 8) << "the square is not even";
  }
}

}  // namespace
}  // namespace kvphase::audit
