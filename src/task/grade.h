// Grades an answer in words against the right one and the answers to other questions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "task/task.h"

namespace kvphase::task {

// "exact": the right answer stands in the text, not as part of a longer word, before any other
// record's. "other_record": another record's answer does. Otherwise "wrong".
Grade grade_text(std::string_view text, std::string_view expected,
                 std::span<const std::string> others);

}  // namespace kvphase::task
