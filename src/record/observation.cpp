#include "record/observation.h"

#include "base/error.h"

namespace kvphase::record {

using base::Json;

std::string format_observation(const Observation& o) {
  Json json = {{"item", o.item},
               {"residue", o.residue},
               {"target_position", o.target_position},
               {"query_position", o.query_position},
               {"length", o.length},
               {"expected", o.expected},
               {"answer", o.answer},
               {"class", o.reply_class},
               {"correct", o.correct ? Json(*o.correct) : Json(nullptr)},
               {"logprob", base::number_or_null(o.logprob)},
               {"margin", base::number_or_null(o.margin)}};
  if (o.repeat != 0) json["repeat"] = o.repeat;
  if (o.cached != 0) json["cached"] = o.cached;
  if (!o.top.empty()) {
    Json& top = json["top"] = Json::array();
    for (const AnswerProbability& p : o.top) top.push_back({p.token, p.logprob});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Observation parse_observation(std::string_view line, std::string_view scope) {
  const Json json = base::parse_json(line, scope);
  base::ObjectReader reader(json, std::string(scope));
  Observation o;
  o.item = reader.integer("item");
  o.residue = reader.integer("residue");
  o.target_position = reader.integer("target_position");
  o.query_position = reader.integer("query_position");
  o.length = reader.integer("length");
  o.expected = reader.text("expected");
  o.answer = reader.text("answer");
  o.reply_class = reader.text("class");
  if (!reader.required("correct").is_null()) o.correct = reader.boolean("correct");
  o.logprob = reader.optional_real("logprob");
  o.margin = reader.optional_real("margin");
  o.repeat = reader.integer("repeat", 0);
  o.cached = reader.integer("cached", 0);
  if (reader.has("top")) {
    const Json& top = reader.required("top");
    if (!top.is_array())
      throw base::usage_error(scope, "expected 'top' to be a list, got {}", top.dump());
    for (const Json& entry : top) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() ||
          !entry[1].is_number()) {
        throw base::usage_error(scope, "expected [token, log-probability] in 'top', got {}",
                                entry.dump());
      }
      o.top.push_back({.token = entry[0].get<std::string>(), .logprob = entry[1].get<double>()});
    }
  }
  reader.finish();
  return o;
}

}  // namespace kvphase::record
