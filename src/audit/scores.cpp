#include "audit/scores.h"

#include <array>
#include <cmath>

namespace kvphase::audit {
namespace {

using record::Reply;
using record::ScoreRows;

const std::vector<float>& floats_of(const ScoreRows& rows, Column column) {
  switch (column) {
    case Column::kLogprob:
      return rows.logprob;
    case Column::kMargin:
      return rows.margin;
    default:
      return rows.score;
  }
}

// Calls visit(item, group, first time of the item in this group) for every cell.
template <typename Visit>
void for_each_group(const stats::ScoreTable& table, std::int64_t modulus, Visit visit) {
  std::vector<std::size_t> last_item(static_cast<std::size_t>(modulus), table.items());
  for (std::size_t item = 0; item < table.items(); ++item) {
    for (std::size_t c = table.first[item]; c < table.first[item + 1]; ++c) {
      const auto group = static_cast<std::size_t>(table.position[c] % modulus);
      visit(group, last_item[group] != item);
      last_item[group] = item;
    }
  }
}

}  // namespace

Column main_column(const ScoreRows& rows) {
  if (rows.has_right_wrong) return Column::kReply;
  if (!rows.score.empty()) return Column::kScore;
  return rows.margin.empty() ? Column::kLogprob : Column::kMargin;
}

std::string_view name_of(Column column) {
  constexpr std::array<std::string_view, 4> kNames = {"accuracy", "score", "logprob", "margin"};
  return kNames[static_cast<std::size_t>(column)];
}

bool has_column(const ScoreRows& rows, Column column) {
  return column == Column::kReply ? rows.has_right_wrong : !floats_of(rows, column).empty();
}

stats::ScoreTable score_table(const ScoreRows& rows, Column column) {
  stats::ScoreTable table;
  const bool replies = column == Column::kReply;
  const std::vector<float>* floats = replies ? nullptr : &floats_of(rows, column);
  table.position.reserve(rows.size());
  table.score.reserve(rows.size());
  table.ids.reserve(static_cast<std::size_t>(rows.items));
  table.first.reserve(static_cast<std::size_t>(rows.items) + 1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool missing = replies ? rows.reply[i] == Reply::kMissing : std::isnan((*floats)[i]);
    if (missing) continue;
    if (table.ids.empty() || table.ids.back() != rows.item[i]) {
      if (!table.ids.empty()) table.first.push_back(table.position.size());
      table.ids.push_back(rows.item[i]);
    }
    table.position.push_back(rows.position[i]);
    table.score.push_back(replies ? (rows.reply[i] == Reply::kRight ? 1.0 : 0.0)
                                  : static_cast<double>((*floats)[i]));
  }
  if (!table.ids.empty()) table.first.push_back(table.position.size());
  return table;
}

bool is_paired(const stats::ScoreTable& table) {
  std::size_t paired = 0;
  for (std::size_t i = 0; i < table.items(); ++i) {
    const std::size_t n = table.first[i + 1] - table.first[i];
    if (n >= 2) paired += n;
  }
  return 2 * paired >= table.cells() && paired > 0;
}

bool repeats_in_groups(const stats::ScoreTable& table, std::int64_t modulus) {
  bool repeats = false;
  for_each_group(table, modulus, [&](std::size_t, bool first) { repeats = repeats || !first; });
  return repeats;
}

}  // namespace kvphase::audit
