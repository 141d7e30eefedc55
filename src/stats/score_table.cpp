#include "stats/score_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace kvphase::stats {
namespace {

void check_modulus(std::int64_t modulus) {
  if (modulus < 1) {
    throw base::usage_error("stats", "expected a modulus of at least 1, got {}", modulus);
  }
}

}  // namespace

std::span<const std::int32_t> ScoreTable::positions_of(std::size_t item) const {
  return std::span(position).subspan(first[item], first[item + 1] - first[item]);
}

std::span<const double> ScoreTable::scores_of(std::size_t item) const {
  return std::span(score).subspan(first[item], first[item + 1] - first[item]);
}

ScoreTable make_score_table(std::vector<ScoreRow> rows, std::string_view scope) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!std::isfinite(rows[i].score)) {
      throw base::usage_error(
          scope,
          "expected a finite score, got {} at item {} position {} (row {}); leave out a row "
          "without a usable reply and count it as missing",
          rows[i].score, rows[i].item, rows[i].position, i + 1);
    }
    if (rows[i].position < 0 || rows[i].position > std::numeric_limits<std::int32_t>::max()) {
      throw base::usage_error(scope,
                              "expected a position of 0 to 2^31-1, got {} at item {} (row {})",
                              rows[i].position, rows[i].item, i + 1);
    }
  }
  std::ranges::stable_sort(rows, [](const ScoreRow& a, const ScoreRow& b) {
    return a.item != b.item ? a.item < b.item : a.position < b.position;
  });
  ScoreTable table;
  table.position.reserve(rows.size());
  table.score.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i > 0 && rows[i].item == rows[i - 1].item && rows[i].position == rows[i - 1].position) {
      throw base::usage_error(scope,
                              "expected one score per item and position, got two for item {} at "
                              "position {}; repetitions of a prompt belong to the A/A check",
                              rows[i].item, rows[i].position);
    }
    if (i == 0 || rows[i].item != rows[i - 1].item) {
      table.ids.push_back(rows[i].item);
      if (i > 0) table.first.push_back(i);
    }
    table.position.push_back(static_cast<std::int32_t>(rows[i].position));
    table.score.push_back(rows[i].score);
  }
  if (!rows.empty()) table.first.push_back(rows.size());
  return table;
}

bool is_binary(const ScoreTable& table) {
  return std::ranges::all_of(table.score, [](double x) { return x == 0 || x == 1; });
}

static void add_cells(const ScoreTable& table, std::size_t begin, std::size_t end,
                      GroupTotals& totals) {
  const auto modulus = static_cast<std::int64_t>(totals.n.size());
  for (std::size_t c = begin; c < end; ++c) {
    const auto g = static_cast<std::size_t>(table.position[c] % modulus);
    ++totals.n[g];
    totals.sum[g] += table.score[c];
  }
}

GroupTotals group_totals(const ScoreTable& table, std::int64_t modulus) {
  check_modulus(modulus);
  const auto m = static_cast<std::size_t>(modulus);
  GroupTotals totals{.n = std::vector<std::int64_t>(m), .sum = std::vector<double>(m)};
  add_cells(table, 0, table.cells(), totals);
  return totals;
}

void item_totals(const ScoreTable& table, std::size_t item, GroupTotals& totals) {
  std::ranges::fill(totals.n, 0);
  std::ranges::fill(totals.sum, 0.0);
  add_cells(table, table.first[item], table.first[item + 1], totals);
}

std::optional<double> group_mean(const GroupTotals& totals, std::size_t group) {
  if (totals.n[group] == 0) return std::nullopt;
  return totals.sum[group] / static_cast<double>(totals.n[group]);
}

void check_counts(const ResidueCounts& counts, std::string_view scope) {
  if (counts.n.empty() || counts.n.size() != counts.correct.size()) {
    throw base::usage_error(scope, "expected as many n as correct, at least one, got {} and {}",
                            counts.n.size(), counts.correct.size());
  }
  for (std::size_t r = 0; r < counts.n.size(); ++r) {
    if (counts.correct[r] < 0 || counts.correct[r] > counts.n[r]) {
      throw base::usage_error(scope, "expected 0 <= correct <= n at residue {}, got {} of {}", r,
                              counts.correct[r], counts.n[r]);
    }
  }
}

std::int64_t total_n(const ResidueCounts& counts) {
  return std::accumulate(counts.n.begin(), counts.n.end(), std::int64_t{0});
}

std::int64_t total_correct(const ResidueCounts& counts) {
  return std::accumulate(counts.correct.begin(), counts.correct.end(), std::int64_t{0});
}

ResidueCounts fold_counts(const ResidueCounts& counts, std::int64_t stride) {
  check_counts(counts);
  if (stride < 1 || counts.modulus() % stride != 0) {
    throw base::usage_error("stats", "expected a stride that divides the modulus {}, got {}",
                            counts.modulus(), stride);
  }
  const auto s = static_cast<std::size_t>(stride);
  ResidueCounts folded{.correct = std::vector<std::int64_t>(s), .n = std::vector<std::int64_t>(s)};
  for (std::size_t r = 0; r < counts.n.size(); ++r) {
    folded.correct[r % s] += counts.correct[r];
    folded.n[r % s] += counts.n[r];
  }
  return folded;
}

ResidueCounts counts_of(const ScoreTable& table, std::int64_t modulus) {
  if (!is_binary(table)) {
    throw base::usage_error("stats", "expected right/wrong scores to count, got continuous scores");
  }
  const GroupTotals totals = group_totals(table, modulus);
  ResidueCounts counts{.correct = {}, .n = totals.n};
  for (const double sum : totals.sum) counts.correct.push_back(std::llround(sum));
  return counts;
}

}  // namespace kvphase::stats
