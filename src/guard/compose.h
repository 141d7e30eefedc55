// Letters with marks in one spelling: a letter and the combining mark behind it as one character.
#pragma once

#include <string>
#include <string_view>

namespace kvphase::guard {

// Latin letters (U+0041 to U+024F, U+1E00 to U+1EFF) with the marks that Unicode's canonical
// composition joins to them, each mark to the letter before it, in the order they stand. What
// decomposes to such a letter and marks in canonical order (NFD) becomes its composed form (NFC).
// Other alphabets, marks in another order and bytes that are no UTF-8 stay as they are.
std::string composed(std::string_view text);

}  // namespace kvphase::guard
