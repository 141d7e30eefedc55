// The task of an audit out of what the command line says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "task/lookup.h"

namespace kvphase::cli {

// What shapes the prompts of the lookup task. Empty: as the model was trained.
struct LookupChoices {
  std::string padding = "prefix";
  std::int64_t modulus = 24;  // R
  std::int64_t items = 576;
  std::optional<std::int64_t> records;
  std::optional<std::int64_t> haystack;
  std::optional<std::int64_t> demonstrations;  // default: 8, fewer when there are few records
};

// Throws a usage error for a padding that is none.
task::LookupOptions lookup_options(const LookupChoices& choices,
                                   const task::LookupLanguage& language, std::uint64_t seed);

}  // namespace kvphase::cli
