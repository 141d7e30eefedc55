#include "record/observation.h"

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
  reader.finish();
  return o;
}

}  // namespace kvphase::record
