#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"

namespace kvphase::base {

namespace {

// Where and how a text stops being JSON. at: bytes read, the offending one included.
std::string json_fault(std::string_view text, std::size_t at) {
  if (at > text.size()) return "a text that ends inside a value; is it complete?";
  const std::string_view before = text.substr(0, at == 0 ? 0 : at - 1);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n');
  const std::size_t column = before.size() - (start == before.npos ? 0 : start + 1) + 1;
  return fmt::format("a text that is not from line {}, column {} on", line, column);
}

}  // namespace

Json parse_json(std::string_view text, std::string_view scope, std::string_view what) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw usage_error(scope, "{}{}expected valid JSON (NaN and Infinity are not), got {}", what,
                      what.empty() ? "" : ": ", json_fault(text, error.byte));
  } catch (const nlohmann::json::exception& error) {  // a number too large for a double
    throw usage_error(scope, "{}{}expected valid JSON, got: {}", what, what.empty() ? "" : ": ",
                      error.what());
  }
}

Json number_or_null(std::optional<double> x) {
  if (!x) return nullptr;
  assert(std::isfinite(*x));
  return *x;
}

ObjectReader::ObjectReader(const Json& object, std::string scope)
    : object_(object), scope_(std::move(scope)) {
  if (!object_.is_object()) {
    throw usage_error(scope_, "expected a JSON object, got {}", object_.type_name());
  }
}

bool ObjectReader::has(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  return object_.contains(key);
}

const Json& ObjectReader::required(const std::string& key) {
  if (!has(key)) throw usage_error(scope_, "expected the key '{}', got none", key);
  return object_.at(key);
}

std::int64_t ObjectReader::integer(const std::string& key) {
  const Json& value = required(key);
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  if (!value.is_number_integer() || too_large) {
    throw usage_error(scope_, "expected '{}' to be an integer, got {}", key, value.dump());
  }
  return value.get<std::int64_t>();
}

std::uint64_t ObjectReader::unsigned_integer(const std::string& key) {
  const Json& value = required(key);
  if (!value.is_number_unsigned()) {
    throw usage_error(scope_, "expected '{}' to be an integer >= 0, got {}", key, value.dump());
  }
  return value.get<std::uint64_t>();
}

double ObjectReader::real(const std::string& key) {
  const Json& value = required(key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    throw usage_error(scope_, "expected '{}' to be a finite number, got {}", key, value.dump());
  }
  return value.get<double>();
}

bool ObjectReader::boolean(const std::string& key) {
  const Json& value = required(key);
  if (!value.is_boolean()) {
    throw usage_error(scope_, "expected '{}' to be true or false, got {}", key, value.dump());
  }
  return value.get<bool>();
}

std::string ObjectReader::text(const std::string& key) {
  const Json& value = required(key);
  if (!value.is_string()) {
    throw usage_error(scope_, "expected '{}' to be a string, got {}", key, value.dump());
  }
  return value.get<std::string>();
}

std::vector<std::string> ObjectReader::texts(const std::string& key) {
  const Json& value = required(key);
  const auto is_text = [](const Json& element) { return element.is_string(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_text)) {
    throw usage_error(scope_, "expected '{}' to be a list of strings, got {}", key, value.dump());
  }
  return value.get<std::vector<std::string>>();
}

std::int64_t ObjectReader::integer(const std::string& key, std::int64_t fallback) {
  return has(key) ? integer(key) : fallback;
}

double ObjectReader::real(const std::string& key, double fallback) {
  return has(key) ? real(key) : fallback;
}

bool ObjectReader::boolean(const std::string& key, bool fallback) {
  return has(key) ? boolean(key) : fallback;
}

std::string ObjectReader::text(const std::string& key, const std::string& fallback) {
  return has(key) ? text(key) : fallback;
}

std::optional<double> ObjectReader::optional_real(const std::string& key) {
  if (!has(key) || object_.at(key).is_null()) return std::nullopt;
  return real(key);
}

std::size_t ObjectReader::choice(const std::string& key, std::span<const std::string> choices) {
  const std::string value = text(key);
  const auto found = std::find(choices.begin(), choices.end(), value);
  if (found == choices.end()) {
    throw usage_error(scope_, "expected '{}' to be one of {}, got '{}'; did you mean '{}'?", key,
                      fmt::join(choices, " | "), value, nearest_name(value, choices));
  }
  return static_cast<std::size_t>(found - choices.begin());
}

std::size_t ObjectReader::choice(const std::string& key, std::span<const std::string> choices,
                                 std::size_t fallback) {
  return has(key) ? choice(key, choices) : fallback;
}

void ObjectReader::finish() const {
  for (const auto& entry : object_.items()) {
    if (std::find(known_.begin(), known_.end(), entry.key()) == known_.end()) {
      throw usage_error(scope_, "expected a known key, got '{}'; did you mean '{}'?", entry.key(),
                        nearest_name(entry.key(), known_));
    }
  }
}

}  // namespace kvphase::base
