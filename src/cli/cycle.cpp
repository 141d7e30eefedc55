// kvphase cycle: does the pattern of accuracy move with the gates?
#include <fmt/format.h>

#include <charconv>
#include <set>
#include <string_view>

#include "base/error.h"
#include "cli/lab_api.h"
#include "cli/look_inside.h"

namespace kvphase::cli {
namespace {

struct CycleArguments {
  LookInside look;
  std::optional<std::string> deltas;  // none: -3..3, as far as that is less than a full turn
  std::string rotate = "window";
};

// "-3..3" or "-1,2,5"; throws a usage error for anything else, for more than 64 and for
// repetitions.
std::vector<std::int64_t> deltas_from_text(std::string_view text) {
  constexpr std::int64_t kMost = 64;
  const auto bad = [&] {
    return base::usage_error("cycle", "expected --delta as -3..3 or -1,2, got '{}'", text);
  };
  const auto number = [&](std::string_view part) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size()) throw bad();
    return value;
  };
  std::vector<std::int64_t> deltas;
  if (const auto dots = text.find(".."); dots != std::string_view::npos) {
    const std::int64_t first = number(text.substr(0, dots)), last = number(text.substr(dots + 2));
    if (first > last || last - first >= kMost) throw bad();
    for (std::int64_t d = first; d <= last; ++d) deltas.push_back(d);
    return deltas;
  }
  while (true) {
    const auto comma = text.find(',');
    deltas.push_back(number(text.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  if (std::set<std::int64_t>(deltas.begin(), deltas.end()).size() != deltas.size() ||
      std::ssize(deltas) > kMost) {
    throw base::usage_error("cycle", "expected at most {} different deltas, got {}", kMost,
                            fmt::join(deltas, ","));
  }
  return deltas;
}

ExitCode run_cycle(const CycleArguments& arguments, const Session& session) {
  constexpr std::int64_t kItems = 240;
  std::vector<std::int64_t> deltas;
  if (arguments.deltas) deltas = deltas_from_text(*arguments.deltas);
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
  app.add_option(
      "--delta", arguments->deltas,
      "Offsets to rotate the gates by, less than a full turn (W, or S with --rotate stride): "
      "-3..3 (default) or a list, 1,2,-1");
  app.add_option("--rotate", arguments->rotate,
                 "window (default): over all W offsets; stride: within each stretch of S offsets")
      ->check(CLI::IsMember({"window", "stride"}).description(""));
  return [arguments](const Session& session) { return run_cycle(*arguments, session); };
}

}  // namespace kvphase::cli
