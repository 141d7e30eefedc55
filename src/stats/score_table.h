// The data every item-level estimator reads: items with scored observations at token positions.
//
// Items may sit at different positions and miss different cells. Positions are kept, not only
// residues: a candidate period s folds by (position mod s), and position mod R says nothing about
// an s that does not divide R. A score is right/wrong (0 or 1) or any finite number
// (log-probability in nats, margin); larger is better. Missing replies have no row here: see
// missing.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace kvphase::stats {

struct ScoreRow {
  std::int64_t item = 0;      // the cluster
  std::int64_t position = 0;  // zero-based token position, >= 0
  double score = 0;
};

// Compact rows, item by item (CSR): item i owns cells first[i] .. first[i+1]-1, by position.
struct ScoreTable {
  std::vector<std::size_t> first = {0};  // items + 1
  std::vector<std::int64_t> ids;         // items, ascending
  std::vector<std::int32_t> position;    // cells
  std::vector<double> score;             // cells

  std::size_t items() const { return ids.size(); }
  std::size_t cells() const { return score.size(); }
  std::span<const std::int32_t> positions_of(std::size_t item) const;
  std::span<const double> scores_of(std::size_t item) const;
};

// Order of rows does not matter. Throws a usage error naming scope and the row for a score that is
// not finite, a negative position, and two rows of one item at one position (repetitions of a
// prompt belong to the A/A check, not to the estimates).
ScoreTable make_score_table(std::vector<ScoreRow> rows, std::string_view scope = "stats");

// True when every score is 0 or 1.
bool is_binary(const ScoreTable& table);

// Totals per group = position mod m.
struct GroupTotals {
  std::vector<std::int64_t> n;  // m
  std::vector<double> sum;      // m
};
GroupTotals group_totals(const ScoreTable& table, std::int64_t modulus);

// The same of one item, into totals of modulus = totals.n.size() groups that are used again.
void item_totals(const ScoreTable& table, std::size_t item, GroupTotals& totals);

// Mean of one group; empty when it has no observation.
std::optional<double> group_mean(const GroupTotals& totals, std::size_t group);

// Bare counts per residue mod R: all that a published table gives. Its statistics treat prompts as
// independent; if the same items were run at every residue (paired) they are conservative.
struct ResidueCounts {
  std::vector<std::int64_t> correct;  // R
  std::vector<std::int64_t> n;        // R

  std::int64_t modulus() const { return static_cast<std::int64_t>(n.size()); }
};

// Throws a usage error unless the sizes agree, are >= 1 and 0 <= correct <= n everywhere.
void check_counts(const ResidueCounts& counts, std::string_view scope = "stats");
std::int64_t total_n(const ResidueCounts& counts);
std::int64_t total_correct(const ResidueCounts& counts);

// Counts folded to a divisor s of R (usage error otherwise).
ResidueCounts fold_counts(const ResidueCounts& counts, std::int64_t stride);
// Counts of a right/wrong table; usage error for continuous scores.
ResidueCounts counts_of(const ScoreTable& table, std::int64_t modulus);

}  // namespace kvphase::stats
