#include "lab/shared.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/error.h"
#include "task/position_design.h"

namespace kvphase::lab {

void check_stride(std::int64_t stride, std::int64_t modulus, std::string_view scope) {
  if (stride >= 2 && modulus % stride == 0 && modulus / stride >= 2) return;
  throw base::usage_error(scope,
                          "expected a modulus that is twice the stride {} or another multiple, got "
                          "{}; use --modulus {} or another --stride",
                          stride, modulus, 2 * stride);
}

void warn_of_rounded_items(std::int64_t wanted, std::int64_t asked, std::int64_t modulus,
                           record::RunContext& context) {
  std::string text = task::rounded_items(wanted, asked, modulus);
  if (!text.empty()) context.warnings.push_back(std::move(text));
}

std::vector<std::string> names_of_phases(std::int64_t stride) {
  std::vector<std::string> names;
  for (std::int64_t phase = 0; phase < stride; ++phase) names.push_back(fmt::format("{}", phase));
  return names;
}

std::optional<double> correlation(std::span<const double> x, std::span<const double> y) {
  const std::size_t n = x.size();
  if (n < 2 || y.size() != n) return std::nullopt;
  double mean_x = 0, mean_y = 0, size_x = 0, size_y = 0;
  for (std::size_t i = 0; i < n; ++i) {
    mean_x += x[i] / static_cast<double>(n);
    mean_y += y[i] / static_cast<double>(n);
    size_x = std::max(size_x, std::abs(x[i]));
    size_y = std::max(size_y, std::abs(y[i]));
  }
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < n; ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  // A constant that differs by rounding only is constant.
  constexpr double kFlat = 1e-20;
  const auto count = static_cast<double>(n);
  if (xx <= kFlat * count * size_x * size_x || yy <= kFlat * count * size_y * size_y) {
    return std::nullopt;
  }
  return xy / std::sqrt(xx * yy);
}

std::optional<double> percent(std::optional<double> share) {
  return share ? std::optional(100 * *share) : std::nullopt;
}

record::Figure map_figure(record::Figure words, std::int64_t columns, std::vector<MapRow> rows) {
  words.kind = record::Figure::Kind::kHeatmap;
  words.columns = names_of_phases(columns);
  for (MapRow& row : rows) {
    assert(std::ssize(row.cells) == columns);
    words.rows.push_back(std::move(row.name));
    words.cells.push_back(std::move(row.cells));
  }
  words.description = fmt::format("{}: {} rows, a column per {} ({}).", words.title,
                                  words.rows.size(), words.x_title, columns);
  return words;
}

base::Json to_json(const stats::Estimate& e) {
  return {{"value", base::number_or_null(e.value)},
          {"low", base::number_or_null(e.low)},
          {"high", base::number_or_null(e.high)},
          {"reason", e.reason}};
}

std::string estimate_cell(const stats::Estimate& e, const char* format, double scale) {
  if (!e.value) return "-";
  const auto number = [&](double x) { return fmt::format(fmt::runtime(format), scale * x); };
  std::string text = number(*e.value);
  if (e.low && e.high) text += fmt::format("\n[{} to {}]", number(*e.low), number(*e.high));
  return text;
}

std::string p_cell(std::optional<double> p) {
  if (!p) return "-";
  return *p < 0.001 ? "< 0.001" : fmt::format("{:.3f}", *p);
}

std::string answers_csv(std::int64_t modulus, const std::vector<std::string>& names,
                        const std::vector<const std::vector<std::uint8_t>*>& columns) {
  std::string text = fmt::format("item,residue,{}\n", fmt::join(names, ","));
  for (std::size_t at = 0; at < columns.front()->size(); ++at) {
    const auto index = static_cast<std::int64_t>(at);
    text += fmt::format("{},{}", index / modulus, index % modulus);
    for (const auto* column : columns) text += (*column)[at] != 0 ? ",1" : ",0";
    text += '\n';
  }
  return text;
}

}  // namespace kvphase::lab
