// The groups of a curve (phases mod S, or residues mod R) against each other: do they differ at
// all, how far apart are they once sampling noise is taken out, and which of them differ from the
// worst. Three versions, by what the data know: paired items, prompts without partners, bare
// counts. Each result names what was used.
//
// What none of them knows: position. A drift along the positions is a difference of groups here;
// only period.h takes it out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stats/estimate.h"
#include "stats/paired.h"
#include "stats/score_table.h"
#include "stats/spread.h"

namespace kvphase::stats {

struct ContrastOptions {
  std::int64_t modulus = 0;               // groups = position mod modulus (not read for counts)
  std::optional<std::int64_t> reference;  // the group that pairs are compared with: the worst
  std::int64_t permutations = 10000;      // of the test over all groups; fewer for large tables
  double level = 0.95;                    // of the mean's interval, and of all pairs' together
  std::uint64_t seed = 1;
};

// One group minus the reference.
struct Contrast {
  std::int64_t group = 0;
  Estimate difference;  // simultaneous: Bonferroni over all pairs of groups
  // Paired right/wrong, one prompt per item and group: items right at one of the two only.
  std::optional<std::int64_t> only_group;
  std::optional<std::int64_t> only_reference;
  std::optional<double> p;  // of this pair alone
  std::optional<double>
      p_holm;  // over all pairs of groups, because the worst was chosen among them
};

// Do the groups differ at all?
struct GroupTest {
  std::optional<double> statistic;
  std::optional<std::int64_t> freedom;  // degrees of freedom of p_chi_squared
  std::optional<double> p_chi_squared;  // for many informative items or prompts; see cochran_q()
  std::optional<double> p_permutation;  // for any number; unpaired: empty beyond kLargeCells
  std::int64_t items = 0;               // paired: with every group
  std::int64_t informative = 0;         // paired: whose groups differ
  std::int64_t dropped = 0;             // paired: miss a group
  std::string method;
  std::string reason;  // why a field is empty
};

struct Contrasts {
  Estimate mean;  // clustered over items where there are items
  std::optional<double> standard_error;
  GroupTest test;
  PhaseSpread spread;
  std::vector<Contrast> pairs;  // every other group with observations against the reference
  std::string pairs_method;
  std::string pairs_reason;  // why there are no pairs
};

// More groups than this are not compared in pairs: Holm's price would hide everything.
inline constexpr std::int64_t kMostContrastGroups = 64;

// Items asked at several groups. Over all groups: Cochran's Q of items that have every group.
// Pairs: items that have both; McNemar's mid-p and Bonett-Price where every item has one
// right/wrong prompt per group, else the paired t of the items' group means (with few items only
// approximate).
Contrasts contrast_items(const ScoreTable& table, const ContrastOptions& options);

// Prompts without partners, all independent. Over all groups: (N-1) SSB/SST, Pearson's chi-squared
// times (N-1)/N for right/wrong, against chi-squared and against random deals of the scores. Pairs:
// Fisher's mid-p and Newcombe for right/wrong, else Welch's t.
Contrasts contrast_prompts(const ScoreTable& table, const ContrastOptions& options);

// The same from right/wrong counts. If the same items stand behind all groups, everything but the
// mean's error is conservative; counts cannot tell.
Contrasts contrast_counts(const ResidueCounts& counts, const ContrastOptions& options);

// Two independent shares, two-sided, conditional on both margins, in the mid-p form: twice the
// smaller tail of the hypergeometric distribution with half the mass of the observed table, at most
// 1 (Lancaster 1961; Agresti 2013, section 3.5). No observation in a group: 1.
double fisher_mid_p(std::int64_t correct_a, std::int64_t n_a, std::int64_t correct_b,
                    std::int64_t n_b);

}  // namespace kvphase::stats
