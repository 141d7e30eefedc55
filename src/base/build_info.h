// What this binary was built from.
#pragma once

#include <string>

namespace kvphase::base {

std::string build_version();      // "0.1.0"
std::string build_commit();       // git commit at build time, "unknown" outside a checkout
std::string build_description();  // compiler, build type

}  // namespace kvphase::base
