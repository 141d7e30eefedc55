// An estimate as records hold it.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"

namespace kvphase::record {

// An estimate with its uncertainty; the record says the interval's nominal coverage.
struct Estimate {
  std::optional<double> value;
  std::optional<double> low;
  std::optional<double> high;
  std::string
      method;  // the interval's exact name, e.g. "percentile bootstrap over items, 2000 replicates"
  std::string reason;  // why value (or the interval) is empty
};

base::Json to_json(const Estimate& e);
// Reads the five keys of an estimate; the caller finishes the reader.
Estimate read_estimate(base::ObjectReader& reader);

base::Json integer_or_null(std::optional<std::int64_t> x);
std::optional<std::int64_t> optional_integer(base::ObjectReader& reader, const std::string& key);

}  // namespace kvphase::record
