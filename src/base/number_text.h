// Numbers as people read them, the same in every sentence, table and page.
#pragma once

#include <string>

namespace kvphase::base {

// With so many decimals, never "-0.0"; from a million on four digits and an exponent.
std::string decimal_text(double value, int decimals);

// A score in its own unit: three decimals, or three digits where decimals would show none.
std::string score_text(double score);

}  // namespace kvphase::base
