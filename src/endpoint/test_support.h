// Shared by the tests of this folder.
#pragma once

#include <optional>
#include <string>

#include "endpoint/client.h"

namespace kvphase::endpoint {

// One attempt, no waiting, nothing from the environment.
inline ClientOptions quiet() {
  ClientOptions options;
  options.environment = [](const std::string&) { return std::nullopt; };
  options.retry.attempts = 1;
  options.sleep = [](double) {};
  return options;
}

}  // namespace kvphase::endpoint
