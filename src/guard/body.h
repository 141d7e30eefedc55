// Bodies of requests and replies as JSON and back, whatever they hold.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace kvphase::guard {

// On one line; bytes that are no UTF-8 are replaced.
inline std::string dump(const base::Json& json) {
  return json.dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

// null where the text is no JSON.
inline base::Json parse(std::string_view text) {
  base::Json json = base::Json::parse(text, nullptr, false);
  return json.is_discarded() ? base::Json() : json;
}

}  // namespace kvphase::guard
