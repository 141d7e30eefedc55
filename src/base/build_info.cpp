#include "base/build_info.h"

#include "kvphase_commit.h"

namespace kvphase::base {

std::string build_version() { return KVPHASE_VERSION; }
std::string build_commit() { return KVPHASE_COMMIT; }
std::string build_description() { return KVPHASE_BUILD; }

}  // namespace kvphase::base
