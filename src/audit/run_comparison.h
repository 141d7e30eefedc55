// Audited models side by side: what they show together in one sentence, and each against its
// reference on the same prompts. Must not know models or files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "record/observation.h"
#include "record/run_comparison.h"

namespace kvphase::audit {

// What a comparison needs of one prompt. Positions are the plan's: without the tokens that a server
// puts in front, so that the same prompt has the same ones everywhere.
struct PromptReply {
  std::int64_t item = 0;
  std::int64_t target_position = 0;
  std::int64_t query_position = 0;
  std::int64_t residue = 0;  // as the model saw it: tokens in front included
  bool correct = false;
};

// The usable right/wrong replies of a run, sorted by prompt; A/A repeats and missing replies are
// left out. position_offset: tokens in front, which the observations include.
std::vector<PromptReply> prompt_replies(std::span<const record::Observation> observations,
                                        std::int64_t position_offset);

// The same, known by item and residue alone: for runs whose prompts differ in what they went
// through (task/mitigate.h) and not in what they ask.
std::vector<PromptReply> by_residue(std::vector<PromptReply> replies);

// Worst and gap over residues modulo `modulus`. Fills everything but run, reference and rule.
record::PairedRuns compare_replies(std::span<const PromptReply> run,
                                   std::span<const PromptReply> reference, std::int64_t modulus,
                                   double level = 0.05);

// Holm's correction over all p-values of all pairs, and their number.
void correct_for_all(record::RunComparison& comparison);

// The sentence: of the runs with plain prompts how many audits of chunked models name their stride,
// how many controls show a period, and which has the lowest worst residue; of the mitigated ones
// which raise their worst residue (p after correction under the level).
std::string summary_sentence(const record::RunComparison& comparison);

}  // namespace kvphase::audit
