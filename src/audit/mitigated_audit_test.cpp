// Mitigated prompts under the audit's own plan check.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "audit/position_check.h"
#include "task/catalog.h"
#include "task/lookup.h"
#include "task/words.h"

namespace kvphase::audit {
namespace {

task::TaskSettings word_settings(task::PadAt pad_at) {
  task::TaskSettings settings{.pad_at = pad_at, .modulus = 8, .items = 64, .haystack = 512};
  for (const std::string& word : task::candidate_words()) settings.words.push_back(word);
  std::erase(settings.words, "is");
  settings.words.resize(140);
  return settings;
}

void expect_controlled(const task::Task& task, const std::string& what) {
  const PlanCheck plan = check_plan(task);
  EXPECT_TRUE(plan.positions.ok) << what << ": " << plan.positions.note;
}

TEST(MitigatedAudit, ResiduesOfTheLookupStillDifferInPhaseOnly) {
  for (const auto padding :
       {task::Padding::kPrefix, task::Padding::kInSequence, task::Padding::kAroundTarget}) {
    for (const task::MitigationInfo& info : task::mitigations()) {
      task::LookupOptions options{.padding = padding, .items = 288};
      const auto task = task::mitigate(std::make_unique<task::LookupTask>(options),
                                       {.mitigation = info.mitigation, .votes = 8});
      expect_controlled(*task, fmt::format("{} {}", task::name_of(padding), info.name));
    }
  }
}

TEST(MitigatedAudit, ResiduesOfTasksInWordsStillDifferInPhaseOnlyWhereverTheFillerGoes) {
  int checked = 0;
  for (const char* name : {"records", "needle"}) {
    for (const std::string& pad : task::pad_at_names()) {
      for (const task::MitigationInfo& info : task::mitigations()) {
        task::TaskSettings settings = word_settings(task::pad_at_from_name(pad));
        if (std::string_view(name) == "records") {
          settings.records = 60;
          settings.per_haystack = 16;
        } else {
          // A tokenizer that counts words.
          settings.count_tokens = [](std::string_view text) {
            std::int64_t words = 0;
            for (std::size_t i = 0; i < text.size(); ++i) {
              words += text[i] != ' ' && text[i] != '\n' &&
                       (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\n');
            }
            return words;
          };
        }
        settings.mitigation = task::MitigationOptions{.mitigation = info.mitigation};
        const std::string what = fmt::format("{} {} {}", name, pad, info.name);
        const bool impossible = (pad == "two-factor" || pad == "after-needle") &&
                                info.mitigation == task::Mitigation::kRandomPadding;
        if (impossible) {
          EXPECT_THROW(task::make_task(name, settings), std::exception) << what;
          continue;
        }
        expect_controlled(*task::make_task(name, settings), what);
        ++checked;
      }
    }
  }
  fmt::print("{} plans checked\n", checked);
}

}  // namespace
}  // namespace kvphase::audit
