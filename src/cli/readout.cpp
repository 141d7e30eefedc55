// kvphase readout: where the query's attention goes, and what wrong answers are due to.
#include "cli/lab_api.h"
#include "cli/look_inside.h"

namespace kvphase::cli {
namespace {

struct ReadoutArguments {
  LookInside look;
  std::optional<std::int64_t> calibration;
};

ExitCode run_readout(const ReadoutArguments& arguments, const Session& session) {
  constexpr std::int64_t kItems = 120;
  const LookPlan plan = plan_look(arguments.look, "readout", kItems, session);
  lab::ReadoutOptions options{
      .lookup = plan.lookup, .stride = plan.stride, .seed = arguments.look.seed, .run = plan.run};
  options.calibration = arguments.calibration.value_or(options.calibration);
  return finish_look(arguments.look, plan,
                     load_lab().readout(arguments.look.checkpoint, options, plan.context,
                                        prompt_progress(session)),
                     session);
}

}  // namespace

Action add_readout(CLI::App& app) {
  const auto arguments = std::make_shared<ReadoutArguments>();
  declare_look_inside(app, arguments->look, "120");
  app.add_option("--calibration", arguments->calibration,
                 "Other prompts on which the reading heads are chosen (default 480)");
  return [arguments](const Session& session) { return run_readout(*arguments, session); };
}

}  // namespace kvphase::cli
