// Keys: read from a named environment variable or a .env file, sent in one header, and taken out of
// every text that leaves this folder. Must not know HTTP.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "endpoint/url.h"

namespace kvphase::endpoint {

// A key that cannot be printed by accident: it has no text form but reveal(), which only the
// Authorization header uses.
class ApiKey {
 public:
  ApiKey() = default;
  explicit ApiKey(std::string value) : value_(std::move(value)) {}
  bool empty() const { return value_.empty(); }
  const std::string& reveal() const { return value_; }

 private:
  std::string value_;
};

// The key in the variable `name`, else in the .env file, else an empty one. Throws a usage error
// (without the value) when the value cannot stand in a header. .env lines: NAME=value,
// export NAME=value, quotes around the value, # comments.
ApiKey find_api_key(const std::string& name, const Environment& environment,
                    const std::filesystem::path& env_file = ".env");

// Takes secrets out of text: each secret, its percent-encoded, base64 and JSON-escaped forms, and
// every run of 8 or more characters that it shares with one (servers echo parts).
class Redactor {
 public:
  void add(std::string_view secret);

  // Known secrets only: for answers, which must stay as they are otherwise.
  std::string answer(std::string_view text) const;

  // Also what looks like a key: "Bearer ...", "sk-...", "api_key=...", user:password@ in URLs. For
  // messages, headers and bodies of errors.
  std::string message(std::string_view text) const;

 private:
  std::vector<std::string> secrets_;  // all forms
};

std::string base64(std::string_view bytes);

}  // namespace kvphase::endpoint
