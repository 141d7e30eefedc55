// kvphase presets: the named model configurations, with their sizes and what their cache costs.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/lab_api.h"
#include "model/config.h"
#include "model/presets.h"

namespace kvphase::cli {
namespace {

// Tokens over which the cache's cost per token is stated.
constexpr std::int64_t kTokens = 131072;

ExitCode list_presets(const Session& session) {
  session.console.result(
      fmt::format("{:<40} {:>14} {:>24}\n", "preset", "parameters", "cache numbers per token"));
  for (const std::string& name : model::preset_names()) {
    const model::ModelConfig config = model::preset(name);
    const auto numbers = static_cast<double>(model::cache_size(config, kTokens).total());
    session.console.result(fmt::format("{:<40} {:>14} {:>24.1f}\n", name,
                                       model::parameter_count(config),
                                       numbers / static_cast<double>(kTokens)));
  }
  return kSuccess;
}

// Builds each network whole, one after the other, and compares it with the formula.
ExitCode build_presets(const std::vector<std::string>& names, const Session& session) {
  const LabApi& lab = load_lab();
  bool all_equal = true;
  for (const std::string& name : names) {
    const model::ModelConfig config = model::preset(name);
    const std::int64_t built = lab.count_parameters(model::to_json(config));
    const std::int64_t formula = model::parameter_count(config);
    all_equal = all_equal && built == formula;
    session.console.result(fmt::format("{:<40} {:>14} built, {:>14} by the formula{}\n", name,
                                       built, formula, built == formula ? "" : ": DIFFERENT"));
  }
  return all_equal ? kSuccess : kRequirementNotMet;
}

}  // namespace

Action add_presets(CLI::App& options) {
  auto name = std::make_shared<std::string>();
  options.add_option("name", *name, "Print this preset's configuration as JSON");
  auto build = std::make_shared<bool>(false);
  options.add_flag("--build", *build,
                   "Build the network (all of them without a name) and count its parameters; the "
                   "largest takes 5 GB");
  return [name, build](const Session& session) {
    if (*build) {
      return build_presets(name->empty() ? model::preset_names() : std::vector{*name}, session);
    }
    if (name->empty()) return list_presets(session);
    session.console.result(model::to_json(model::preset(*name)).dump(2) + "\n");
    return kSuccess;
  };
}

}  // namespace kvphase::cli
