// What the findings of this folder say in the same words. Knows no tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "record/findings.h"
#include "stats/estimate.h"

namespace kvphase::lab {

// Throws a usage error unless 2 <= stride and it divides the modulus at least twice, so that every
// phase is seen at two residues.
void check_stride(std::int64_t stride, std::int64_t modulus, std::string_view scope);

// Warns where another number of items is asked than was wanted: a multiple of the modulus.
void warn_of_rounded_items(std::int64_t wanted, std::int64_t asked, std::int64_t modulus,
                           record::RunContext& context);

std::vector<std::string> names_of_phases(std::int64_t stride);  // "0", "1", ...

// Pearson's; empty for fewer than two points or where one side is constant.
std::optional<double> correlation(std::span<const double> x, std::span<const double> y);

// A row of a map: its name and a value per column.
struct MapRow {
  std::string name;
  std::vector<std::optional<double>> cells;
};
std::optional<double> percent(std::optional<double> share);

// `words` (id, titles, caption, low, high) as a map over columns "0", "1", ..., described.
record::Figure map_figure(record::Figure words, std::int64_t columns, std::vector<MapRow> rows);

base::Json to_json(const stats::Estimate& e);  // value, low, high, reason

// "0.123\n[0.100 to 0.150]", "-": each number, times `scale`, in `format`.
std::string estimate_cell(const stats::Estimate& e, const char* format = "{:.3f}",
                          double scale = 1);

std::string p_cell(std::optional<double> p);  // "< 0.001", "0.034", "-"

// "item,residue,NAMES..." and a line per prompt, item by item: columns[name][item * modulus +
// residue] is 1 or 0.
std::string answers_csv(std::int64_t modulus, const std::vector<std::string>& names,
                        const std::vector<const std::vector<std::uint8_t>*>& columns);

}  // namespace kvphase::lab
