#include "cli/lab_api.h"

#include <dlfcn.h>

#include <array>

#include "base/error.h"

namespace kvphase::cli {
namespace {

constexpr const char* kModule = "libkvphase_lab.so";

const LabApi& open_lab() {
#ifndef KVPHASE_HAS_LAB
  throw base::environment_error("lab",
                                "expected a build with the lab half (models and training), got one "
                                "without; build with -DKVPHASE_LAB=ON");
#else
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::array candidates = {program / kModule, program / ".." / "lib" / kModule};
  for (const fs::path& candidate : candidates) {
    if (!fs::exists(candidate, ignored)) continue;
    // Never closed: torch keeps threads and globals for the life of the process.
    void* module = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (module == nullptr) {
      throw base::environment_error("lab", "expected to load {}, got: {}", candidate.string(),
                                    ::dlerror());
    }
    using Entry = const LabApi* (*)();
    const auto entry = reinterpret_cast<Entry>(::dlsym(module, kLabEntryPoint));
    if (entry == nullptr || entry()->abi != kLabAbi) {
      throw base::environment_error("lab", "expected {} to be of this build, got another; rebuild",
                                    candidate.string());
    }
    return *entry();
  }
  throw base::environment_error("lab", "expected {} in {} or {}, got neither; build all targets",
                                kModule, program.string(), (program / ".." / "lib").string());
#endif
}

}  // namespace

const LabApi& load_lab() {
  static const LabApi& api = open_lab();
  return api;
}

}  // namespace kvphase::cli
