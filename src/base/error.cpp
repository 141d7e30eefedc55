#include "base/error.h"

namespace kvphase::base {

Error::Error(ErrorKind kind, std::string_view scope, std::string_view message)
    : std::runtime_error(fmt::format("[{}] {}", scope, message)), kind_(kind) {}

}  // namespace kvphase::base
