// kvphase presets: the named model configurations, with their sizes and what their cache costs.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
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

}  // namespace

Action add_presets(CLI::App& options) {
  auto name = std::make_shared<std::string>();
  options.add_option("name", *name, "Print this preset's configuration as JSON");
  return [name](const Session& session) {
    if (name->empty()) return list_presets(session);
    session.console.result(model::to_json(model::preset(*name)).dump(2) + "\n");
    return kSuccess;
  };
}

}  // namespace kvphase::cli
