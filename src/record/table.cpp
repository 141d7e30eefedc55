#include "record/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "base/error.h"

namespace kvphase::record {
namespace {

constexpr float kAbsent = std::numeric_limits<float>::quiet_NaN();

std::uint64_t key_of(std::int32_t item, std::int32_t position) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(item)) << 32 |
         static_cast<std::uint32_t>(position);
}

template <typename T>
void reorder(std::vector<T>& column, std::span<const std::uint32_t> order) {
  if (column.empty()) return;
  std::vector<T> sorted(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) sorted[i] = column[order[i]];
  column = std::move(sorted);
}

void keep_order(ScoreRows& rows, std::span<const std::uint32_t> order) {
  reorder(rows.item, order);
  reorder(rows.position, order);
  reorder(rows.reply, order);
  reorder(rows.score, order);
  reorder(rows.logprob, order);
  reorder(rows.margin, order);
}

bool has_reply(const ScoreRows& rows, std::size_t i) {
  const auto present = [i](const std::vector<float>& column) {
    return !column.empty() && !std::isnan(column[i]);
  };
  if (rows.has_right_wrong) return rows.reply[i] != Reply::kMissing;
  return present(rows.score) || present(rows.logprob) || present(rows.margin);
}

Reply reply_of(const std::optional<bool>& correct) {
  if (!correct) return Reply::kMissing;
  return *correct ? Reply::kRight : Reply::kWrong;
}

}  // namespace

std::optional<std::size_t> prepare_rows(ScoreRows& rows) {
  const std::size_t count = rows.size();
  const auto key = [&](std::size_t i) { return key_of(rows.item[i], rows.position[i]); };
  bool strictly_sorted = true;
  for (std::size_t i = 1; i < count && strictly_sorted; ++i) strictly_sorted = key(i - 1) < key(i);
  if (strictly_sorted) return std::nullopt;
  // By counting over items, then a small sort inside each: linear for huge tables.
  std::vector<std::uint32_t> start(static_cast<std::size_t>(rows.items) + 1, 0);
  for (const std::int32_t item : rows.item) ++start[static_cast<std::size_t>(item) + 1];
  std::partial_sum(start.begin(), start.end(), start.begin());
  std::vector<std::uint32_t> order(count);
  std::vector<std::uint32_t> next(start.begin(), start.end() - 1);
  for (std::size_t i = 0; i < count; ++i) {
    order[next[static_cast<std::size_t>(rows.item[i])]++] = static_cast<std::uint32_t>(i);
  }
  for (std::size_t item = 0; item + 1 < start.size(); ++item) {
    std::sort(order.begin() + start[item], order.begin() + start[item + 1],
              [&](std::uint32_t a, std::uint32_t b) {
                return rows.position[a] != rows.position[b] ? rows.position[a] < rows.position[b]
                                                            : a < b;
              });
  }
  std::vector<std::uint32_t> kept;
  kept.reserve(count);
  for (const std::uint32_t i : order) {
    if (kept.empty() || key(kept.back()) != key(i)) {
      kept.push_back(i);
    } else if (!has_reply(rows, kept.back())) {
      kept.back() = i;
    } else if (has_reply(rows, i)) {
      return i;
    }
  }
  keep_order(rows, kept);
  return std::nullopt;
}

PositionCheck check_positions(const ScoreRows& rows, std::int64_t modulus) {
  // Exact sums of the distance from the first position: no order of additions to depend on.
  __extension__ using Wide = unsigned __int128;
  struct Moments {
    std::int64_t n = 0;
    std::int64_t sum = 0;
    Wide squares = 0;
  };
  std::vector<Moments> moments(static_cast<std::size_t>(modulus));
  const std::int64_t origin = rows.position.empty() ? 0 : rows.position.front();
  const auto divisor = static_cast<std::uint32_t>(modulus);
  for (const std::int32_t position : rows.position) {
    Moments& m = moments[static_cast<std::uint32_t>(position) % divisor];
    const std::int64_t distance = position - origin;
    ++m.n;
    m.sum += distance;
    m.squares += static_cast<std::uint64_t>(distance * distance);
  }
  PositionCheck check;
  bool first = true;
  for (const Moments& m : moments) {
    if (m.n == 0) continue;
    const auto n = static_cast<double>(m.n);
    const double mean = static_cast<double>(origin) + static_cast<double>(m.sum) / n;
    const auto size = static_cast<std::uint64_t>(std::abs(m.sum));
    const Wide spread = static_cast<Wide>(m.n) * m.squares - static_cast<Wide>(size) * size;
    const double variance = static_cast<double>(spread) / n / n;
    check.mean_low = first ? mean : std::min(check.mean_low, mean);
    check.mean_high = first ? mean : std::max(check.mean_high, mean);
    check.variance_low = first ? variance : std::min(check.variance_low, variance);
    check.variance_high = first ? variance : std::max(check.variance_high, variance);
    first = false;
  }
  check.checked = !first;
  // A design that only shifts the filler moves a residue's mean by less than one cycle.
  check.ok = check.checked && check.mean_high - check.mean_low < static_cast<double>(modulus);
  return check;
}

void number_items(ScoreRows& rows, std::span<const std::int64_t> raw_items,
                  std::vector<RepeatRow>& repeats) {
  rows.item.resize(raw_items.size());
  rows.items = 0;
  if (raw_items.empty()) {
    repeats.clear();
    return;
  }
  const auto [low, high] = std::minmax_element(raw_items.begin(), raw_items.end());
  const std::int64_t first = *low;
  const std::uint64_t range = static_cast<std::uint64_t>(*high) - static_cast<std::uint64_t>(first);
  if (range < 4 * raw_items.size() + 1024) {  // ids are close together: rank by table
    std::vector<std::int32_t> rank(range + 1, -1);
    const auto slot = [&](std::int64_t raw) -> std::int32_t& {
      return rank[static_cast<std::size_t>(raw - first)];
    };
    for (const std::int64_t raw : raw_items) slot(raw) = 0;
    std::int32_t next = 0;
    for (std::int32_t& r : rank) r = r == 0 ? next++ : -1;
    for (std::size_t i = 0; i < raw_items.size(); ++i) rows.item[i] = slot(raw_items[i]);
    rows.items = next;
    std::erase_if(repeats, [&](const RepeatRow& r) {
      return r.item < first || r.item > *high || slot(r.item) < 0;
    });
    for (RepeatRow& repeat : repeats) repeat.item = slot(repeat.item);
    return;
  }
  std::vector<std::int64_t> ids(raw_items.begin(), raw_items.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto rank = [&](std::int64_t raw) {
    return static_cast<std::int32_t>(std::lower_bound(ids.begin(), ids.end(), raw) - ids.begin());
  };
  for (std::size_t i = 0; i < raw_items.size(); ++i) rows.item[i] = rank(raw_items[i]);
  rows.items = static_cast<std::int64_t>(ids.size());
  std::erase_if(repeats, [&](const RepeatRow& r) {
    return !std::binary_search(ids.begin(), ids.end(), r.item);
  });
  for (RepeatRow& repeat : repeats) repeat.item = rank(repeat.item);
}

RepeatSummary compare_repeats(const ScoreRows& rows, std::span<const RepeatRow> repeats) {
  RepeatSummary summary;
  std::unordered_map<std::uint64_t, Reply> wanted;
  for (const RepeatRow& r : repeats) {
    wanted.emplace(key_of(static_cast<std::int32_t>(r.item), r.position), Reply::kMissing);
  }
  if (wanted.empty()) return summary;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto found = wanted.find(key_of(rows.item[i], rows.position[i]));
    if (found != wanted.end()) found->second = rows.reply[i];
  }
  for (const RepeatRow& r : repeats) {
    const Reply original = wanted.at(key_of(static_cast<std::int32_t>(r.item), r.position));
    if (original == Reply::kMissing || r.reply == Reply::kMissing) continue;
    ++summary.compared;
    if (original != r.reply) ++summary.changed;
  }
  return summary;
}

Dataset dataset_from(std::span<const Observation> observations, std::int64_t modulus,
                     std::string_view scope) {
  ScoreRows rows;
  rows.items_known = true;
  std::vector<std::int64_t> raw_items;
  std::vector<RepeatRow> repeats;
  std::vector<std::size_t> kept;  // the observation behind each row
  bool any_logprob = false;
  bool any_margin = false;
  PositionCheck fixed{.query_position_fixed = true, .length_fixed = true};
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const Observation& o = observations[i];
    if (o.target_position < 0 || o.target_position > std::numeric_limits<std::int32_t>::max()) {
      throw base::usage_error(scope, "expected a target position of 0 to 2^31-1, got {}",
                              o.target_position);
    }
    const auto position = static_cast<std::int32_t>(o.target_position);
    if (o.repeat > 0) {
      repeats.push_back({.item = o.item, .position = position, .reply = reply_of(o.correct)});
      continue;
    }
    raw_items.push_back(o.item);
    rows.position.push_back(position);
    rows.reply.push_back(reply_of(o.correct));
    rows.logprob.push_back(o.logprob ? static_cast<float>(*o.logprob) : kAbsent);
    rows.margin.push_back(o.margin ? static_cast<float>(*o.margin) : kAbsent);
    any_logprob = any_logprob || o.logprob.has_value();
    any_margin = any_margin || o.margin.has_value();
    kept.push_back(i);
    if (o.query_position != observations.front().query_position) fixed.query_position_fixed = false;
    if (o.length != observations.front().length) fixed.length_fixed = false;
  }
  if (!any_logprob) rows.logprob.clear();
  if (!any_margin) rows.margin.clear();
  number_items(rows, raw_items, repeats);
  if (const auto twice = prepare_rows(rows)) {
    const Observation& o = observations[kept[*twice]];
    throw base::usage_error(scope,
                            "expected one reply per prompt, got two for item {}, position {}",
                            o.item, o.target_position);
  }
  Dataset data;
  data.origin = "observations";
  data.modulus = modulus;
  data.positions = check_positions(rows, modulus);
  data.positions.query_position_fixed = fixed.query_position_fixed;
  data.positions.length_fixed = fixed.length_fixed;
  data.repeats = compare_repeats(rows, repeats);
  data.rows = std::move(rows);
  return data;
}

}  // namespace kvphase::record
