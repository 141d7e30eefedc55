// kvphase gates: which offsets a checkpoint's compressors keep.
#include "base/error.h"
#include "cli/lab_api.h"
#include "cli/look_inside.h"

namespace kvphase::cli {
namespace {

struct GateArguments {
  LookInside look;
  std::vector<std::string> text;
};

ExitCode run_gates(const GateArguments& arguments, const Session& session) {
  constexpr std::int64_t kPrompts = 480;
  const LookInside& look = arguments.look;
  const TaskChoices& task = look.task;
  if (!arguments.text.empty() && (task.modulus || task.records || task.haystack ||
                                  task.demonstrations || !task.padding.empty())) {
    throw base::usage_error("gates",
                            "expected --text or options of lookup prompts, got both; --text knows "
                            "--items alone");
  }
  const LookPlan plan = plan_look(look, "gates", kPrompts, session);
  const lab::GateOptions options{.lookup = plan.lookup,
                                 .text = arguments.text,
                                 .prompts = plan.lookup.items,
                                 .seed = look.seed,
                                 .run = plan.run};
  return finish_look(
      look, plan,
      load_lab().gates(look.checkpoint, options, plan.context, prompt_progress(session)), session);
}

}  // namespace

Action add_gates(CLI::App& app) {
  const auto arguments = std::make_shared<GateArguments>();
  declare_look_inside(app, arguments->look, "480", "Prompts, one per item; with --text, windows");
  app.add_option("--text", arguments->text,
                 "Folder of token shards (`kvphase tokens`): read windows of its validation text "
                 "in place of lookup prompts")
      ->type_name("FOLDER")
      ->allow_extra_args(false);
  return [arguments](const Session& session) { return run_gates(*arguments, session); };
}

}  // namespace kvphase::cli
