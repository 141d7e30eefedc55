#include "audit/contrasts.h"

#include "audit/scores.h"
#include "stats/contrasts.h"

namespace kvphase::audit {
namespace {

record::Estimate convert(const stats::Estimate& e) {
  return {.value = e.value, .low = e.low, .high = e.high, .method = e.method, .reason = e.reason};
}

record::Contrasts convert(const stats::Contrasts& c, bool paired) {
  record::Contrasts out{.mean = convert(c.mean),
                        .standard_error = c.standard_error,
                        .test = {.method = c.test.method,
                                 .statistic = c.test.statistic,
                                 .freedom = c.test.freedom,
                                 .p_chi_squared = c.test.p_chi_squared,
                                 .p_permutation = c.test.p_permutation,
                                 .reason = c.test.reason},
                        .spread = {.method = c.spread.method,
                                   .sd = c.spread.sd,
                                   .standard_error = c.spread.standard_error,
                                   .shrinkage = c.spread.shrinkage,
                                   .shrunk = c.spread.shrunk,
                                   .reason = c.spread.reason},
                        .pairs_method = c.pairs_method,
                        .pairs_reason = c.pairs_reason};
  if (paired) {
    out.test.items = c.test.items;
    out.test.informative = c.test.informative;
    out.test.dropped = c.test.dropped;
  }
  for (const stats::Contrast& pair : c.pairs) {
    out.pairs.push_back({.group = pair.group,
                         .difference = convert(pair.difference),
                         .only_group = pair.only_group,
                         .only_worst = pair.only_reference,
                         .p = pair.p,
                         .p_holm = pair.p_holm});
  }
  return out;
}

constexpr const char* kDrift =
    " A drift along the positions, or one longer pattern, counts as a difference here; only the "
    "period test tells them apart.";

}  // namespace

record::Contrasts compare_groups(const record::Result& result, const record::Dataset& data,
                                 std::int64_t permutations, std::uint64_t seed) {
  const auto& worst = result.folded ? result.folded->worst : result.worst;
  const stats::ContrastOptions options{
      .modulus = result.folded ? result.folded->stride : data.modulus,
      .reference = worst.group,
      .permutations = permutations,
      .level = result.confidence,
      .seed = seed};
  record::Contrasts out;
  if (data.counts) {
    out = convert(stats::contrast_counts(
                      stats::fold_counts({.correct = data.counts->correct, .n = data.counts->n},
                                         options.modulus),
                      options),
                  false);
    out.data = "counts";
    out.limits =
        "Bare counts do not say whether the same items stand behind all groups. If they do, tests "
        "and intervals here are conservative, and the mean's standard error is too small.";
  } else {
    const stats::ScoreTable table = score_table(*data.rows, main_column(*data.rows));
    const bool paired = data.rows->items_known && is_paired(table);
    out = convert(
        paired ? stats::contrast_items(table, options) : stats::contrast_prompts(table, options),
        paired);
    out.data = paired ? "paired" : "unpaired";
    out.limits = paired ? "Items are taken as a random sample of independent ones; nothing is said "
                          "about other kinds of items."
                        : "No item was asked at several positions: prompts are taken as "
                          "independent, and how items differ in difficulty is noise here.";
  }
  out.limits += kDrift;
  out.groups = result.folded ? "phase" : "residue";
  out.modulus = options.modulus;
  out.worst = worst.group;
  return out;
}

}  // namespace kvphase::audit
