// kvphase knockout: which heads the answers at each phase depend on.
#include "base/error.h"
#include "cli/lab_api.h"
#include "cli/look_inside.h"

namespace kvphase::cli {
namespace {

struct KnockoutArguments {
  LookInside look;
  std::string mode = "mean";
  std::string heads = "kv";
  std::optional<std::int64_t> calibration;
  bool separately = false;
};

ExitCode run_knockout(const KnockoutArguments& arguments, const Session& session) {
  constexpr std::int64_t kItems = 240;
  const LookPlan plan = plan_look(arguments.look, "knockout", kItems, session);
  lab::KnockoutOptions options{
      .lookup = plan.lookup,
      .stride = plan.stride,
      .unit = arguments.heads == "kv" ? lab::HeadUnit::kKvHeads : lab::HeadUnit::kQueryHeads,
      .seed = arguments.look.seed,
      .run = plan.run,
      .separately = arguments.separately};
  if (arguments.mode == "zero") options.replacement = lab::Replacement::kZero;
  if (arguments.mode == "resample") options.replacement = lab::Replacement::kResample;
  options.calibration = arguments.calibration.value_or(options.calibration);
  return finish_look(arguments.look, plan,
                     load_lab().knockout(arguments.look.checkpoint, options, plan.context,
                                         prompt_progress(session)),
                     session);
}

}  // namespace

Action add_knockout(CLI::App& app) {
  const auto arguments = std::make_shared<KnockoutArguments>();
  declare_look_inside(app, arguments->look, "240");
  app.add_option(
         "--mode", arguments->mode,
         "What takes a head's place: its mean over other prompts (default), zero, or resample: "
         "what it was at one of them")
      ->check(CLI::IsMember({"mean", "zero", "resample"}).description(""));
  app.add_option("--heads", arguments->heads,
                 "kv (default): a KV head with all its query heads; query: each query head")
      ->check(CLI::IsMember({"kv", "query"}).description(""));
  app.add_option("--calibration", arguments->calibration,
                 "Other prompts that mean and resample are taken from (default 480)");
  app.add_flag("--separately", arguments->separately,
               "A prefill per knockout, to compare: slower, the same answers");
  app.footer(
      "\nA head or layer is counted as depending on phase where the corrected p of its net change "
      "is "
      "at most 0.05\nand the interval of its crossed largest loss minus mean loss lies above 0. "
      "Losing every phase the same share\nof what it has above a guess is no dependence on "
      "phase.\n" +
      app.get_footer());
  return [arguments](const Session& session) { return run_knockout(*arguments, session); };
}

}  // namespace kvphase::cli
