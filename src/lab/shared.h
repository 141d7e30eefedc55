// What the findings of this folder say in the same words. Knows no tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvphase::lab {

// Throws a usage error unless 2 <= stride and it divides the modulus at least twice, so that every
// phase is seen at two residues.
void check_stride(std::int64_t stride, std::int64_t modulus, std::string_view scope);

std::vector<std::string> names_of_phases(std::int64_t stride);  // "0", "1", ...

std::string p_cell(std::optional<double> p);  // "< 0.001", "0.034", "-"

}  // namespace kvphase::lab
