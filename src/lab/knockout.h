// Knockouts (Zhu et al., arXiv 2609.36322): the output of a KV head (of all query heads that read
// it), of a query head or of a whole layer at the query position is replaced, and the answer is
// taken again. Everything that follows at that position is computed anew; nothing else changes.
//
// All knockouts of a prompt share one prefill: earlier positions cannot see the last one, so only
// the last token's pass is repeated, for all of them in one batch. Knows no tensors here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lab/lookup_run.h"
#include "record/findings.h"
#include "task/lookup.h"

namespace kvphase::lab {

// What takes the place of the output.
enum class Replacement {
  kMean,      // its mean over the calibration prompts
  kZero,      // nothing
  kResample,  // that of one calibration prompt, drawn per prompt, the same for all sites
};

// Which heads are sites beside the layers.
enum class HeadUnit { kKvHeads, kQueryHeads };

struct KnockoutOptions {
  task::LookupOptions lookup;  // the prompts
  std::int64_t stride = 0;     // S: folds residues to phases; divides lookup.modulus
  Replacement replacement = Replacement::kMean;
  HeadUnit unit = HeadUnit::kKvHeads;
  std::int64_t calibration = 480;     // prompts of other items, all residues alike often
  std::uint64_t seed = 1;             // of calibration and resampling
  std::int64_t replicates = 2000;     // bootstrap
  std::int64_t permutations = 10000;  // draws of items, of the two tests
  RunOptions run;
  bool separately = false;  // a prefill per knockout: the plain way, to compare speed and answers
};

// What is knocked out: query heads first_head .. first_head + heads - 1 of one layer.
struct Site {
  std::int64_t layer = 0;
  std::int64_t first_head = 0;
  std::int64_t heads = 0;
  bool whole_layer = false;
  std::string name;  // "layer 1 head 2", "layer 1"
};

// Answers to the same prompts, item by item and residue by residue: 1 right, 0 wrong.
struct KnockoutAnswers {
  std::int64_t items = 0;
  std::int64_t modulus = 0;            // R
  std::vector<std::int64_t> position;  // [items * R] of the target
  std::vector<std::uint8_t> clean;     // [items * R]
  std::vector<Site> sites;
  std::vector<std::vector<std::uint8_t>> knocked;  // [site][items * R]
};

// KV heads and layers of a model; where a layer has one of them, the layer alone.
std::vector<Site> knockout_sites(std::int64_t layers, std::int64_t kv_heads,
                                 std::int64_t query_heads, HeadUnit unit);

// Opens the checkpoint and asks. `context` is filled with the model's identity. Throws usage errors
// for a folder that is no checkpoint, prompts that do not fit it and fewer than 2 calibration
// prompts.
KnockoutAnswers run_knockouts(const std::filesystem::path& checkpoint,
                              const KnockoutOptions& options, record::RunContext& context,
                              const OnProgress& progress = {});

// The analysis: relative change per residue and phase and the net change of accuracy in points,
// with bootstrap intervals over items; two tests per site, each with Holm's correction over all
// sites.
//
// Relative change 100 (knocked - clean) / clean per residue, averaged over the residues of a phase.
// Its largest loss minus its mean loss is a maximum, above 0 for noise alone; so the same stands
// beside it with the phase chosen in one half of the items and measured in the other, both ways
// round (0 on average where phases are alike).
//
// Net: every phase keeps the same share c of what its accuracy exceeds a floor f by, net of what is
// gained, so that knocked - f - c (clean - f) is 0 on average at each; its sum of squares over
// phases against that of items drawn with replacement, around what was found (Davison and Hinkley
// 1997, 4.4). Permuting inside items would not do: what is right differs by phase, so prompts are
// not exchangeable. The floor is what guessing leaves: between 0 and what a guess among the
// prompt's records may reach (or the lowest accuracy of a phase, clean or knocked), whichever fits
// best. Without one, a layer whose loss leaves the same guess everywhere would depend on phase
// wherever clean accuracy does. The sentence counts a site where this p, corrected, is at most the
// level and the interval of the crossed largest loss minus the mean lies above 0: an effect, not
// only a difference.
// Lost: of the prompts that are right without the knockout the same share stays right at every
// phase; tested alike, without a floor. Gains are not seen, so it also rejects where phases differ
// only in how near the margin their answers are.
record::Findings knockout_findings(const KnockoutAnswers& answers, const KnockoutOptions& options,
                                   const record::RunContext& context);

}  // namespace kvphase::lab
