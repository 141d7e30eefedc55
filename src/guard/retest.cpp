#include "guard/retest.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/random.h"

namespace kvphase::guard {
namespace {

std::vector<Trial> shuffled(const RetestDesign& design, std::int64_t repeat) {
  std::vector<Trial> trials;
  for (std::int64_t offset = 0; offset < design.agreement.offsets; ++offset) {
    trials.push_back({.offset = offset, .repeat = repeat});
  }
  base::Random random(
      base::derive_seed(design.seed, "retest", {static_cast<std::uint64_t>(repeat)}));
  random.shuffle(std::span(trials));
  return trials;
}

bool is_first(const Trial& trial) {
  return trial.repeat == 0 || (trial.repeat == 1 && trial.offset == 0);
}

}  // namespace

std::int64_t repeats_of(const RetestDesign& design) {
  if (design.repeats > 0) return design.repeats;
  if (design.agreement.offsets < 2) return 2;
  return stats::replies_to_decide(design.agreement.offsets, design.agreement.level);
}

std::vector<Trial> first_trials(const RetestDesign& design) {
  std::vector<Trial> trials = shuffled(design, 0);
  if (repeats_of(design) > 1) trials.push_back({.offset = 0, .repeat = 1});
  return trials;
}

std::vector<Trial> further_trials(const RetestDesign& design) {
  std::vector<Trial> trials;
  for (std::int64_t repeat = 1; repeat < repeats_of(design); ++repeat) {
    for (const Trial& trial : shuffled(design, repeat)) {
      if (!is_first(trial)) trials.push_back(trial);
    }
  }
  return trials;
}

RetestRun run_retest(const RetestDesign& design, std::vector<Reply> known, const AskTrials& ask,
                     const OnReply& keep) {
  RetestRun run{.replies = std::move(known)};
  const auto ask_for = [&](std::vector<Trial> trials) {
    std::set<std::pair<std::int64_t, std::int64_t>> done;
    for (const Reply& reply : run.replies) done.insert({reply.offset, reply.repeat});
    std::erase_if(trials, [&](const Trial& trial) {
      return done.contains({trial.offset, trial.repeat});
    });
    if (trials.empty()) return;
    run.complete = ask(trials, [&](const Reply& reply) {
      keep(reply);
      run.replies.push_back(reply);
    });
  };
  ask_for(first_trials(design));
  run.agreement = find_agreement(run.replies, design.agreement);
  if (run.complete && (design.always_repeat || run.agreement.groups.size() > 1)) {
    ask_for(further_trials(design));
  }
  std::ranges::sort(run.replies, [](const Reply& a, const Reply& b) {
    return std::pair(a.repeat, a.offset) < std::pair(b.repeat, b.offset);
  });
  run.agreement = find_agreement(run.replies, design.agreement);
  return run;
}

double chance_to_meet(std::int64_t offsets, std::int64_t stride) {
  return offsets >= stride ? 1.0 : static_cast<double>(offsets) / static_cast<double>(stride);
}

}  // namespace kvphase::guard
