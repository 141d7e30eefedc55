// For the tests of this folder that look into the checkpoints of models/.
#pragma once

#include <filesystem>

#include "base/files.h"
#include "base/json.h"
#include "task/lookup.h"

namespace kvphase::lab {

inline std::filesystem::path model(const char* name) {
  return std::filesystem::path(KVPHASE_MODELS) / name;
}

// Prompts in the language that a checkpoint was trained on, two cycles of a stride of 4.
inline task::LookupOptions lookup_of(const std::filesystem::path& checkpoint, std::int64_t items) {
  const base::Json card = base::parse_json(base::read_file(checkpoint / "card.json"), "card");
  task::LookupOptions lookup;
  lookup.language = task::lookup_language_from_json(card.at("language"), "card");
  lookup.demonstrations = 4;
  lookup.modulus = 8;
  lookup.items = items;
  return lookup;
}

}  // namespace kvphase::lab
