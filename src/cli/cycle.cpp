// kvphase cycle: does the pattern of accuracy move with the gates?
#include "cli/lab_api.h"
#include "cli/look_inside.h"

namespace kvphase::cli {
namespace {

struct CycleArguments {
  LookInside look;
  std::string deltas = "-3..3";
  std::string rotate = "window";
};

ExitCode run_cycle(const CycleArguments& arguments, const Session& session) {
  constexpr std::int64_t kItems = 240;
  const std::vector<std::int64_t> deltas = lab::deltas_from_text(arguments.deltas);
  const LookPlan plan = plan_look(arguments.look, "cycle", kItems, session);
  const lab::CycleOptions options{.lookup = plan.lookup,
                                  .stride = plan.stride,
                                  .deltas = deltas,
                                  .rotation = arguments.rotate == "window"
                                                  ? lab::Rotation::kWindow
                                                  : lab::Rotation::kWithinStrides,
                                  .seed = arguments.look.seed,
                                  .run = plan.run};
  return finish_look(
      arguments.look, plan,
      load_lab().cycle(arguments.look.checkpoint, options, plan.context, prompt_progress(session)),
      session);
}

}  // namespace

Action add_cycle(CLI::App& app) {
  const auto arguments = std::make_shared<CycleArguments>();
  declare_look_inside(app, arguments->look, "240");
  app.add_option("--delta", arguments->deltas,
                 "Offsets to rotate the gates by: -3..3 (default) or a list, 1,2,-1");
  app.add_option("--rotate", arguments->rotate,
                 "window (default): over all W offsets; stride: within each stretch of S offsets")
      ->check(CLI::IsMember({"window", "stride"}).description(""));
  return [arguments](const Session& session) { return run_cycle(*arguments, session); };
}

}  // namespace kvphase::cli
