// The project's one exception type. Bad input and a broken environment throw it; a caller's bug
// asserts; an expected outcome is a value. Only cli catches it and turns its kind into an exit
// code.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace kvphase::base {

enum class ErrorKind {
  kUsage,         // bad input or configuration; exit code 2
  kEnvironment,   // endpoint, disk, missing library; exit code 4
  kPhaseControl,  // positions cannot be guaranteed; exit code 5
  kInterrupted,   // stopped by the user, resumable; exit code 130
};

// what() reads "[scope] expected X, got Y; hint".
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string_view scope, std::string_view message);
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// usage_error("analyze", "expected a file, got '{}'; give a path", path): builds the exception to
// throw.
template <typename... Args>
Error usage_error(std::string_view scope, fmt::format_string<Args...> text, Args&&... args) {
  return Error(ErrorKind::kUsage, scope, fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
Error environment_error(std::string_view scope, fmt::format_string<Args...> text, Args&&... args) {
  return Error(ErrorKind::kEnvironment, scope, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace kvphase::base
