// JSON with this project's rules: keys keep their order, NaN and Infinity never appear, unknown
// keys are refused by name with the nearest valid one.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvphase::base {

using Json = nlohmann::ordered_json;

// Parses text. The error says where it stops being JSON: "[scope] what: expected valid JSON, got
// ...".
Json parse_json(std::string_view text, std::string_view scope, std::string_view what = {});

// A number for JSON: null when x is empty. Asserts that a present value is finite.
Json number_or_null(std::optional<double> x);

// Reads one JSON object strictly: every key asked for is remembered, and finish() refuses the rest.
// Wrong types, non-finite numbers and missing keys throw a usage error naming "scope.key".
class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string scope);

  bool has(const std::string& key);
  const Json& required(const std::string& key);

  std::int64_t integer(const std::string& key);
  std::uint64_t unsigned_integer(const std::string& key);
  double real(const std::string& key);  // finite
  bool boolean(const std::string& key);
  std::string text(const std::string& key);
  std::vector<std::string> texts(const std::string& key);

  // The same with a default for an absent key.
  std::int64_t integer(const std::string& key, std::int64_t fallback);
  double real(const std::string& key, double fallback);
  bool boolean(const std::string& key, bool fallback);
  std::string text(const std::string& key, const std::string& fallback);
  std::optional<double> optional_real(const std::string& key);  // absent or null: empty

  // Text that must be one of `choices`; returns its index.
  std::size_t choice(const std::string& key, std::span<const std::string> choices);
  std::size_t choice(const std::string& key, std::span<const std::string> choices,
                     std::size_t fallback);

  // Refuses keys that nothing asked for.
  void finish() const;

  const std::string& scope() const { return scope_; }

 private:
  const Json& object_;
  std::string scope_;
  std::vector<std::string> known_;
};

}  // namespace kvphase::base
