// The nearest valid name to a mistyped one, for error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvphase::base {

// The name with the smallest edit distance (insert, delete, replace, swap neighbours), the first of
// equals; empty when names is empty.
std::string nearest_name(std::string_view wanted, std::span<const std::string> names);

}  // namespace kvphase::base
