// Reads a request's JSON object as real servers do: unknown parameters are ignored, null counts as
// absent, a wrong type is refused with 400 naming the parameter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "serve/api_error.h"

namespace kvphase::serve {

class Parameters {
 public:
  // Throws a 400 error unless it is an object; `prefix` stands before the names in errors
  // ("stream_options.").
  explicit Parameters(const base::Json& object, std::string prefix = "");

  // Null when absent.
  const base::Json* find(const std::string& name) const;
  const base::Json& required(const std::string& name) const;

  std::optional<std::int64_t> integer(const std::string& name) const;
  std::optional<double> real(const std::string& name) const;
  std::optional<std::string> text(const std::string& name) const;
  bool boolean(const std::string& name, bool fallback = false) const;

  // The same, refused outside low..high.
  std::optional<std::int64_t> integer(const std::string& name, std::int64_t low,
                                      std::int64_t high) const;
  std::optional<double> real(const std::string& name, double low, double high) const;

  // "expected 'name' to be WHAT, got VALUE".
  ApiError wrong(const std::string& name, const std::string& what) const;
  // A parameter this server knows but cannot honour: refused rather than ignored, since ignoring
  // it would change what the reply means.
  ApiError unsupported(const std::string& name, const std::string& only) const;

 private:
  const base::Json& object_;
  std::string prefix_;
};

// Bytes of a request's body as a JSON object; a 400 error otherwise.
base::Json parse_body(const std::string& body);

}  // namespace kvphase::serve
