// Which period, if any, does the score follow? Epoch folding with permutation nulls.
//
// Every candidate period s folds the scores by (position mod s). Between-phase sum of squares
// SSB_s = sum_g T_g^2 / n_g, with T_g the sum of centred, detrended scores of phase g; its share of
// the total is compared with the same share under a null that has no period (epoch folding: Leahy
// et al. 1983; the single-step min-p adjustment over all candidates: Westfall and Young 1993). The
// null shifts whole items, so that it holds for items whose answers depend on one another as they
// like, as long as items share no phase (a randomisation of the items' starts: Fisher 1935).
// Which candidates share the evidence is settled by nested tests: a divisor d explains s when
// shifts by multiples of d do not reject; a multiple is taken only when they do.
//
// What this cannot know: which side of the target the weak phase belongs to, a stride above the
// largest candidate, and (from counts) any period that does not divide R.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stats/score_table.h"

namespace kvphase::stats {

struct PeriodOptions {
  // Candidates are min_period..max_period. max_period 0: for items with K observations
  // max(K/2, min(K, 12)), at most 64; for counts all divisors of R up to R/2.
  std::int64_t min_period = 2;
  std::int64_t max_period = 0;
  // Of items: candidates must divide it, as when positions are known only modulo it. 0: any.
  std::int64_t divisor_of = 0;
  // Of the first null; more: finer p. From 1,000 on it goes on, up to 16 times as many, while p may
  // lie on either side of `level` by chance. Small counts are enumerated instead.
  std::int64_t permutations = 10000;
  std::int64_t other_permutations = 2000;  // of the second null and of every nested test
  double level = 0.05;                     // largest p that names a period; nested tests use half
  std::uint64_t seed = 1;
  // Work out the second null even where the first does not reject; only to be reported then.
  // Without it `statistic` and `clustering` are those of the first null alone.
  bool always_second = true;
};

struct PeriodCandidate {
  std::int64_t period = 0;
  double statistic = 0;   // SSB_s over its mean under permutations: 1 is what noise gives
  double p_raw = 1;       // first null, this candidate alone
  double p_adjusted = 1;  // first null, min-p over all candidates
  // How many times as much a phase's mean varies as if an item's answers were independent (a design
  // effect): above 1 where items have phases of their own. Known with the second null of items.
  double clustering = 1;
};

// One comparison of two nested periods, in the order it was made.
struct NestedTest {
  std::int64_t from = 0;  // the smaller period, taken as true under the null
  std::int64_t to = 0;    // a multiple of it
  double p = 1;           // adjusted when several multiples were tried together
};

struct PeriodResult {
  std::optional<std::int64_t> period;  // empty: none named; see reason
  std::optional<double> p_value;       // p_adjusted of the named, else of the best candidate
  std::optional<double> p_second;      // the same question under the second null, adjusted
  std::string second_null;             // what the second null keeps
  bool second_decides = false;         // it must reject, too (of items)
  // Do residues (columns) differ beyond the named period? Only where every observation's column is
  // known: counts, and items that share their positions.
  std::optional<double> p_misfit;
  // Does the named period, or the one that was withdrawn, stand out from columns that merely differ
  // (F tests, period_fit.h)? Where columns are known.
  std::optional<double> p_fit;
  // Residues, or positions that items share, with observations; 0: items do not share them, and
  // nothing is asked of them.
  std::int64_t columns = 0;
  double level = 0.05;
  std::vector<PeriodCandidate> candidates;  // ascending
  std::vector<NestedTest> nested;
  std::int64_t items = 0;         // items with more than one distinct score; 0 for counts
  std::int64_t observations = 0;  // of all items
  std::int64_t permutations = 0;  // done under the first null; tables, when exact
  bool exact = false;             // counts: every table of as many right answers
  std::string data_kind;          // "item-level" | "counts"
  std::string method;
  std::string reason;  // why there is no test or no period; what the data cannot tell
};

// Item-level, paired. Items are centred; an item with 6 (12, 24) or more observations also loses
// its own linear (quadratic, cubic) trend over position, so that depth and slow drift neither make
// nor hide a period; every drawn data set is detrended in the same way.
//
// First null, from 9 informative items on: every item's positions moved by its own random amount.
// That keeps whatever the answers of an item have to do with one another (phases of its own, drift,
// autocorrelation) and is exact where items start anywhere, or have phases of their own at random.
// Second null: scores permuted inside items. It is reported and does not decide: where it rejects
// and the first does not, answers of an item go together at phases that items do not share. With 5
// to 8 items shifts have too few arrangements to tell periods apart, so permutations are the first
// null and shifts the second, which must reject at `level`, too; with fewer there are permutations
// alone.
//
// Where items share their positions (at least half of the cells filled), phases must also differ
// more than positions inside a phase do (period_fit.h, at `level`), and where these differ beyond
// the period (p_misfit <= level / 5) and are 12 or more, no random order of them may be as
// periodic, at `level`. Where items do not, the phases must differ at twice `level` without a trend
// being taken out. Beyond 250,000 cells a random sample of whole items is permuted or shifted,
// fewer times, and stands for all items, which are observed in full (large_table.h); a single item
// of that size is drawn by position (position_folder.h).
PeriodResult find_period(const ScoreTable& table, const PeriodOptions& options = {});

// From counts per residue mod R. Candidates are the divisors of R from 2 to R/2: R itself has no
// second cycle in which to repeat. First null: all prompts exchangeable (hypergeometric), which is
// exact for independent prompts and conservative for paired ones. A linear (R >= 6), quadratic (R
// >= 12) or cubic (R >= 24) trend over the residues is taken out. Phases must also differ more than
// residues inside a phase do (period_fit.h, at `level`); for R < 12 that is reported as the second
// null. R >= 12 has as second null the residues' shares in any order, which decides (at `level`)
// only when residues do differ beyond the period found (p_misfit <= level / 5).
PeriodResult find_period(const ResidueCounts& counts, const PeriodOptions& options = {});

// All rows as one exchangeable item: for unpaired data (every prompt its own item), where a
// permutation inside items has nothing to permute. Positions may repeat.
ScoreTable pool_items(const ScoreTable& table);

}  // namespace kvphase::stats
