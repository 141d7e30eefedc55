// An audit that stops when it knows enough: items are run in whole blocks over the phases still in
// question.
//
// Three things are watched, all by e-values, so that looking after every block costs nothing:
//  - phase dependence: the mean over pairs of phases of the anytime McNemar e-value; known at
//  1/alpha;
//  - the worst phase: phase p leaves the search once some phase w has shown to be worse (one-sided
//    e-value of the discordant items of the pair, threshold P(P-1)/alpha: all ordered pairs at
//    once); it is run no more (successive elimination; Even-Dar, Mannor and Mansour 2006);
//  - a requirement, if given: the anytime gate of gate.h.
// The mean is that of all phases, each over the items it was run on. A p-value for a fixed sample
// size must not be computed from what a stopped audit leaves; the e-value is the honest figure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stats/gate.h"

namespace kvphase::stats {

struct SequentialOptions {
  std::int64_t phases = 0;
  std::int64_t max_items = 400;  // of the fixed design that is being saved on
  std::int64_t block = 10;       // items between looks; smaller stops earlier
  double alpha = 0.05;
  std::optional<double> requirement;  // smallest acceptable share of every phase
};

enum class StopReason { kWorstFound, kGateDecided, kAllItemsRun, kInterrupted };

struct SequentialResult {
  std::int64_t items = 0;
  std::int64_t prompts = 0;  // run
  std::int64_t planned = 0;  // max_items * phases
  double saving = 0;         // 1 - prompts / planned
  StopReason stop = StopReason::kAllItemsRun;
  ResidueCounts counts;        // per phase, over the items it was run on
  std::optional<double> mean;  // of the phases' shares, equal weights; empty: a phase has none
  std::optional<std::int64_t> worst;        // the only phase left in the search; empty: not known
  std::vector<std::int64_t> candidates;     // phases that may still be the worst
  std::vector<std::int64_t> dropped_after;  // per phase: items run when it left; -1: never
  double e_dependence = 1;                  // evidence that phases differ, at the end
  std::optional<std::int64_t> dependence_after;  // items when it first reached 1/alpha
  std::optional<GateResult> gate;
  std::string method;  // the stopping rule
};

// The prompts of one block, named before any of their answers is read.
struct SequentialBlock {
  std::int64_t first = 0;  // items first .. end-1
  std::int64_t end = 0;
  std::vector<std::int64_t> phases;  // still asked
};

// answer(item, phase): was the reply right? Empty: no usable reply; the search for the worst phase
// leaves it out, the gate counts it wrong (the pessimistic reading). Items 0, 1, ... are asked at
// every phase still in question, whole items at a time. Stops when the worst phase is known (and
// the gate, if wanted, is decided: then all phases are run until it is). prepare, where given, is
// called before each block, so that its prompts can be run together; false stops (kInterrupted).
using SequentialAnswer = std::function<std::optional<bool>(std::int64_t, std::int64_t)>;
SequentialResult run_sequential(const SequentialAnswer& answer, const SequentialOptions& options,
                                const std::function<bool(const SequentialBlock&)>& prepare = {});

// One-sided anytime e-value: evidence that an item right at only one of two phases is right at the
// second more often than not, from b items right only at the first and c only at the second.
// Mixture over theta in (1/2, 1) of Jeffreys' prior, against every theta <= 1/2.
double one_sided_e_value(std::int64_t b, std::int64_t c);

}  // namespace kvphase::stats
