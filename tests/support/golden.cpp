#include "tests/support/golden.h"

#include <cstdlib>
#include <filesystem>

#include "base/files.h"

namespace kvphase::test {

std::string golden(std::string_view name, std::string_view actual) {
  const std::filesystem::path path = std::filesystem::path(KVPHASE_GOLDEN_DIR) / name;
  const char* update = std::getenv("KVPHASE_UPDATE_GOLDENS");
  if (update != nullptr && std::string_view(update) == "1") {
    base::write_file_atomically(path, actual);
  }
  return base::read_file(path);
}

}  // namespace kvphase::test
