#include "cli/train_settings.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "model/config.h"
#include "model/presets.h"

namespace kvphase::cli {

void apply_setting(base::Json& overrides, const std::string& setting) {
  const auto equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw base::usage_error("train", "expected --set KEY=VALUE, got '{}'", setting);
  }
  const std::string value = setting.substr(equals + 1);
  base::Json parsed = base::Json::parse(value, nullptr, false);
  if (parsed.is_discarded()) parsed = value;
  base::Json* place = &overrides;
  const std::string key = setting.substr(0, equals);
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('.', begin), key.size());
    if (!place->is_object() && !place->is_null()) {
      throw base::usage_error("train",
                              "expected --set KEY=VALUE without contradiction, got '{}' after {}",
                              setting, overrides.dump());
    }
    place = &(*place)[key.substr(begin, end - begin)];
    begin = end + 1;
  }
  *place = parsed;
}

base::Json model_config(const std::string& name_or_file) {
  const bool file = name_or_file.ends_with(".json");
  const model::ModelConfig config =
      file ? model::config_from_json(base::parse_json(base::read_file(name_or_file), name_or_file),
                                     name_or_file)
           : model::preset(name_or_file);
  base::Json json = model::to_json(config);
  json.erase("vocab_size");
  json.erase("context_length");
  return json;
}

void refuse_launcher(const char* command, const char* instead) {
  if (std::getenv("WORLD_SIZE") == nullptr) return;
  throw base::usage_error(
      command, "expected to run outside a launcher of ranks, got WORLD_SIZE; {}", instead);
}

}  // namespace kvphase::cli
