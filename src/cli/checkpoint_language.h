// What a checkpoint's card says of the language that it was trained on.
#pragma once

#include <filesystem>

#include "base/json.h"
#include "task/lookup_language.h"

namespace kvphase::cli {

// Null: the checkpoint was trained on something else.
base::Json language_of_card(const std::filesystem::path& checkpoint);

// Throws a usage error where there is none.
task::LookupLanguage trained_language(const std::filesystem::path& checkpoint);

}  // namespace kvphase::cli
