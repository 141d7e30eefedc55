#include "serve/parameters.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>

namespace kvphase::serve {

using base::Json;

Parameters::Parameters(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {
  if (!object_.is_object()) {
    const std::string what = prefix_.empty() ? "the body" : prefix_.substr(0, prefix_.size() - 1);
    throw invalid_request(
        fmt::format("expected {} to be a JSON object, got {}", what, shown(object_)));
  }
}

const Json* Parameters::find(const std::string& name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Parameters::required(const std::string& name) const {
  const Json* value = find(name);
  if (value == nullptr) {
    throw invalid_request(fmt::format("expected the parameter '{}{}', got none", prefix_, name),
                          prefix_ + name, "missing_required_parameter");
  }
  return *value;
}

std::optional<std::int64_t> Parameters::integer(const std::string& name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const bool too_large = value->is_number_unsigned() && value->get<std::uint64_t>() > INT64_MAX;
  if (!value->is_number_integer() || too_large) throw wrong(name, "an integer");
  return value->get<std::int64_t>();
}

std::optional<std::int64_t> Parameters::integer(const std::string& name, std::int64_t low,
                                                std::int64_t high) const {
  const std::optional<std::int64_t> value = integer(name);
  if (value && (*value < low || *value > high)) {
    throw wrong(name, high == INT64_MAX ? fmt::format("an integer of at least {}", low)
                                        : fmt::format("an integer of {} to {}", low, high));
  }
  return value;
}

std::optional<double> Parameters::real(const std::string& name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) throw wrong(name, "a number");
  return value->get<double>();
}

std::optional<double> Parameters::real(const std::string& name, double low, double high) const {
  const std::optional<double> value = real(name);
  if (value && (*value < low || *value > high)) {
    throw wrong(name, fmt::format("a number of {:g} to {:g}", low, high));
  }
  return value;
}

std::optional<std::string> Parameters::text(const std::string& name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) throw wrong(name, "a text");
  return value->get<std::string>();
}

bool Parameters::boolean(const std::string& name, bool fallback) const {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) throw wrong(name, "true or false");
  return value->get<bool>();
}

ApiError Parameters::wrong(const std::string& name, const std::string& what) const {
  const Json* value = find(name);
  return invalid_request(fmt::format("expected '{}{}' to be {}, got {}", prefix_, name, what,
                                     value == nullptr ? "none" : shown(*value)),
                         prefix_ + name, "invalid_value");
}

ApiError Parameters::unsupported(const std::string& name, const std::string& only) const {
  const Json* value = find(name);
  return invalid_request(
      fmt::format("'{}{}' is not supported by this server: expected {}, got {}", prefix_, name,
                  only, value == nullptr ? "none" : shown(*value)),
      prefix_ + name, "unsupported_parameter");
}

namespace {

// Nothing this API takes is nested deeper than a handful of levels; the parser's own recursion must
// not be left to the client.
constexpr int kMaxNesting = 64;

bool nested_too_deeply(std::string_view json) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxNesting) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Json parse_body(const std::string& body) {
  if (nested_too_deeply(body)) {
    throw invalid_request(
        fmt::format("expected JSON nested at most {} levels deep, got more", kMaxNesting), "",
        "invalid_json");
  }
  Json json = Json::parse(body, nullptr, false);
  if (json.is_discarded()) {
    throw invalid_request("expected the body to be a JSON object in UTF-8, got something else", "",
                          "invalid_json");
  }
  return json;
}

}  // namespace kvphase::serve
