#include "record/estimate.h"

namespace kvphase::record {

using base::Json;
using base::number_or_null;
using base::ObjectReader;

Json to_json(const Estimate& e) {
  return {{"value", number_or_null(e.value)},
          {"low", number_or_null(e.low)},
          {"high", number_or_null(e.high)},
          {"method", e.method},
          {"reason", e.reason}};
}

Estimate read_estimate(ObjectReader& reader) {
  Estimate e;
  e.value = reader.optional_real("value");
  e.low = reader.optional_real("low");
  e.high = reader.optional_real("high");
  e.method = reader.text("method");
  e.reason = reader.text("reason");
  return e;
}

Json integer_or_null(std::optional<std::int64_t> x) { return x ? Json(*x) : Json(nullptr); }

std::optional<std::int64_t> optional_integer(ObjectReader& reader, const std::string& key) {
  if (reader.required(key).is_null()) return std::nullopt;
  return reader.integer(key);
}

}  // namespace kvphase::record
