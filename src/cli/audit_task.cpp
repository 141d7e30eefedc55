#include "cli/audit_task.h"

#include <algorithm>

#include "base/error.h"

namespace kvphase::cli {
namespace {

task::Padding padding_of(const std::string& name) {
  if (name == "prefix") return task::Padding::kPrefix;
  if (name == "in-sequence") return task::Padding::kInSequence;
  throw base::usage_error("audit", "expected --padding prefix or in-sequence, got '{}'", name);
}

}  // namespace

task::LookupOptions lookup_options(const LookupChoices& choices,
                                   const task::LookupLanguage& language, std::uint64_t seed) {
  task::LookupOptions options{.language = language,
                              .padding = padding_of(choices.padding),
                              .modulus = choices.modulus,
                              .items = choices.items,
                              .seed = seed};
  options.language.records = choices.records.value_or(options.language.records);
  options.language.haystack = choices.haystack.value_or(options.language.haystack);
  options.demonstrations = choices.demonstrations.value_or(
      std::min(options.demonstrations, options.language.records - 1));
  return options;
}

}  // namespace kvphase::cli
