// Words that several sentences of an analysis share. Internal to audit/.
#pragma once

#include <optional>
#include <string>

#include "record/result.h"

namespace kvphase::audit {

// "p = 0.034", "p < 0.0001", "p unknown": the same in every sentence.
std::string p_text(std::optional<double> p);

// Why fields of a residue or phase are empty; `interval`: why low and high are. Empty: all there.
std::string why_empty(const record::Group& group, const std::string& interval);

}  // namespace kvphase::audit
