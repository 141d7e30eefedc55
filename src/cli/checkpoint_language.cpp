#include "cli/checkpoint_language.h"

#include "base/error.h"
#include "base/files.h"

namespace kvphase::cli {

base::Json language_of_card(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / "card.json";
  const base::Json card = base::parse_json(base::read_file(path), path.string());
  return card.is_object() && card.contains("language") ? card.at("language") : base::Json();
}

task::LookupLanguage trained_language(const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / "card.json";
  const base::Json language = language_of_card(checkpoint);
  if (language.is_null()) {
    throw base::usage_error(
        "audit", "expected a model trained on the lookup language, got none in {}", path.string());
  }
  return task::lookup_language_from_json(language, path.string() + ".language");
}

}  // namespace kvphase::cli
