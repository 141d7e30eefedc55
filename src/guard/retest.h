// The retest of one prompt: which replies are asked for, in which order, and when there are enough.
// Knows no transport: a function asks. Replies can come from an earlier session.
//
// First every offset once and offset 0 twice. If these k+1 replies are one answer, that is the
// result. If not, every offset is asked until it has `repeats` replies: only they can tell an
// answer that follows the offset from a random one. The test then looks once, at all replies; that
// the first ones differed can only make an accusation rarer, so its level holds.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "guard/agreement.h"

namespace kvphase::guard {

struct RetestDesign {
  AgreementOptions agreement;
  std::int64_t repeats = 0;    // per offset once two replies differ; 0: as many as decide
  bool always_repeat = false;  // ask for all of them even when the first agree
  std::uint64_t seed = 1;      // of the order in which offsets are asked
};

// Replies per offset that the design asks for at most.
std::int64_t repeats_of(const RetestDesign& design);

struct Trial {
  std::int64_t offset = 0;
  std::int64_t repeat = 0;
};

// The trials of the first look, and those that follow where it finds two answers. Offsets are
// shuffled within each repeat, so that a server's drift does not line up with them.
std::vector<Trial> first_trials(const RetestDesign& design);
std::vector<Trial> further_trials(const RetestDesign& design);

// Asks for all trials and calls on_reply for each as it comes, from one thread at a time. Returns
// false when it was stopped before the end.
using OnReply = std::function<void(const Reply&)>;
using AskTrials = std::function<bool(std::span<const Trial> trials, const OnReply& on_reply)>;

struct RetestRun {
  std::vector<Reply> replies;  // by repeat and offset
  bool complete = true;        // false: stopped
  Agreement agreement;         // of what there is
};

// `known` are replies of earlier sessions; `keep` is called for each new one before the next is
// taken (a journal). Throws what `ask` and `keep` throw.
RetestRun run_retest(const RetestDesign& design, std::vector<Reply> known, const AskTrials& ask,
                     const OnReply& keep);

// Chance that k consecutive offsets meet the one weak phase of stride S: 1 for k >= S, else k/S.
double chance_to_meet(std::int64_t offsets, std::int64_t stride);

}  // namespace kvphase::guard
