// kvphase gates: which offsets a checkpoint's compressors keep.
#include "cli/lab_api.h"
#include "cli/look_inside.h"

namespace kvphase::cli {
namespace {

ExitCode run_gates(const LookInside& look, const Session& session) {
  constexpr std::int64_t kPrompts = 480;
  const LookPlan plan = plan_look(look, "gates", kPrompts, session);
  const lab::GateOptions options{
      .lookup = plan.lookup, .prompts = plan.lookup.items, .seed = look.seed, .run = plan.run};
  return finish_look(
      look, plan,
      load_lab().gates(look.checkpoint, options, plan.context, prompt_progress(session)), session);
}

}  // namespace

Action add_gates(CLI::App& app) {
  const auto look = std::make_shared<LookInside>();
  declare_look_inside(app, *look, "480", "Prompts, one per item");
  return [look](const Session& session) { return run_gates(*look, session); };
}

}  // namespace kvphase::cli
