#include "record/contrasts.h"

#include <array>

namespace kvphase::record {
namespace {

using base::Json;
using base::number_or_null;
using base::ObjectReader;

constexpr std::array kData = {"paired", "unpaired", "counts"};

Json to_json(const Contrast& c) {
  return {{"group", c.group},
          {"difference", to_json(c.difference)},
          {"only_group", integer_or_null(c.only_group)},
          {"only_worst", integer_or_null(c.only_worst)},
          {"p", number_or_null(c.p)},
          {"p_holm", number_or_null(c.p_holm)}};
}

Estimate estimate_at(ObjectReader& reader, const std::string& key) {
  ObjectReader estimate(reader.required(key), reader.scope() + "." + key);
  Estimate e = read_estimate(estimate);
  estimate.finish();
  return e;
}

Contrast read_contrast(const Json& json, const std::string& scope) {
  ObjectReader reader(json, scope);
  Contrast c;
  c.group = reader.integer("group");
  c.difference = estimate_at(reader, "difference");
  c.only_group = optional_integer(reader, "only_group");
  c.only_worst = optional_integer(reader, "only_worst");
  c.p = reader.optional_real("p");
  c.p_holm = reader.optional_real("p_holm");
  reader.finish();
  return c;
}

Json to_json(const Contrasts::Test& t) {
  return {{"method", t.method},
          {"statistic", number_or_null(t.statistic)},
          {"freedom", integer_or_null(t.freedom)},
          {"p_chi_squared", number_or_null(t.p_chi_squared)},
          {"p_permutation", number_or_null(t.p_permutation)},
          {"items", integer_or_null(t.items)},
          {"informative", integer_or_null(t.informative)},
          {"dropped", integer_or_null(t.dropped)},
          {"reason", t.reason}};
}

Contrasts::Test read_test(const Json& json, const std::string& scope) {
  ObjectReader reader(json, scope);
  Contrasts::Test t;
  t.method = reader.text("method");
  t.statistic = reader.optional_real("statistic");
  t.freedom = optional_integer(reader, "freedom");
  t.p_chi_squared = reader.optional_real("p_chi_squared");
  t.p_permutation = reader.optional_real("p_permutation");
  t.items = optional_integer(reader, "items");
  t.informative = optional_integer(reader, "informative");
  t.dropped = optional_integer(reader, "dropped");
  t.reason = reader.text("reason");
  reader.finish();
  return t;
}

Json to_json(const Contrasts::Spread& s) {
  Json shrunk = Json::array();
  for (const auto& mean : s.shrunk) shrunk.push_back(number_or_null(mean));
  return {{"method", s.method},
          {"sd", number_or_null(s.sd)},
          {"standard_error", number_or_null(s.standard_error)},
          {"shrinkage", number_or_null(s.shrinkage)},
          {"shrunk", shrunk},
          {"reason", s.reason}};
}

Contrasts::Spread read_spread(const Json& json, const std::string& scope) {
  ObjectReader reader(json, scope);
  Contrasts::Spread s;
  s.method = reader.text("method");
  s.sd = reader.optional_real("sd");
  s.standard_error = reader.optional_real("standard_error");
  s.shrinkage = reader.optional_real("shrinkage");
  for (const Json& mean : reader.required("shrunk")) {
    s.shrunk.push_back(mean.is_null() ? std::nullopt : std::optional<double>(mean.get<double>()));
  }
  s.reason = reader.text("reason");
  reader.finish();
  return s;
}

}  // namespace

Json to_json(const Contrasts& c) {
  Json pairs = Json::array();
  for (const Contrast& pair : c.pairs) pairs.push_back(to_json(pair));
  return {{"data", c.data},
          {"limits", c.limits},
          {"groups", c.groups},
          {"modulus", c.modulus},
          {"mean", to_json(c.mean)},
          {"standard_error", number_or_null(c.standard_error)},
          {"test", to_json(c.test)},
          {"spread", to_json(c.spread)},
          {"worst", integer_or_null(c.worst)},
          {"pairs", pairs},
          {"pairs_method", c.pairs_method},
          {"pairs_reason", c.pairs_reason}};
}

Contrasts contrasts_from_json(const Json& json, const std::string& scope) {
  const std::vector<std::string> names(kData.begin(), kData.end());
  ObjectReader reader(json, scope);
  Contrasts c;
  c.data = names.at(reader.choice("data", names));
  c.limits = reader.text("limits");
  c.groups = reader.text("groups");
  c.modulus = reader.integer("modulus");
  c.mean = estimate_at(reader, "mean");
  c.standard_error = reader.optional_real("standard_error");
  c.test = read_test(reader.required("test"), scope + ".test");
  c.spread = read_spread(reader.required("spread"), scope + ".spread");
  c.worst = optional_integer(reader, "worst");
  for (const Json& pair : reader.required("pairs")) {
    c.pairs.push_back(read_contrast(pair, scope + ".pairs"));
  }
  c.pairs_method = reader.text("pairs_method");
  c.pairs_reason = reader.text("pairs_reason");
  reader.finish();
  return c;
}

}  // namespace kvphase::record
