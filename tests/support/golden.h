// Golden files: expected output kept as text under tests/golden.
#pragma once

#include <string>
#include <string_view>

namespace kvphase::test {

// The golden file's content. With KVPHASE_UPDATE_GOLDENS=1 in the environment, `actual` is written
// to it first: look at the difference before committing it.
std::string golden(std::string_view name, std::string_view actual);

}  // namespace kvphase::test
