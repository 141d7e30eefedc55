// kvphase plan: how many items, prompts and tokens an audit needs.
#include "audit/plan.h"

#include <fmt/format.h>

#include <memory>

#include "audit/score_saving.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"

namespace kvphase::cli {
namespace {

struct PlanOptions {
  audit::PlanRequest request;
  bool scores = false;
  bool json = false;
};

std::string count(double n) {
  if (n >= 1e9) return fmt::format("{:.1f} billion", n / 1e9);
  if (n >= 1e6) return fmt::format("{:.1f} million", n / 1e6);
  return fmt::format("{:.0f}", n);
}

std::string tokens_text(const std::optional<std::int64_t>& tokens) {
  return tokens ? count(static_cast<double>(*tokens)) : "";
}

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string confirm_text(const audit::Plan& plan, bool stride_known) {
  const audit::ConfirmSizes& c = plan.confirm;
  std::string out = fmt::format(
      "\nTo confirm two phases chosen beforehand on fresh items (kvphase analyze --confirm), by "
      "formula\n(below about 20 items take a few more):\n"
      "  each item once at both phases     {} items, {} prompts ({} of the items answer "
      "differently)\n",
      c.paired, 2 * c.paired, percent(c.discordant));
  if (c.repeats > 1) {
    out += fmt::format("  {:<34}{} items, {} prompts\n",
                       fmt::format("{} prompts per item and phase", c.repeats), c.repeated,
                       2 * c.repeats * c.repeated);
  }
  out += fmt::format("  other items for each phase        {} items a phase, {} prompts\n",
                     c.unpaired, 2 * c.unpaired);
  if (stride_known) {
    out += fmt::format(
        "To show that the {} phases differ at all (Cochran's Q, simulated):\n"
        "  each item once at every phase     {}\n",
        plan.assumed_period,
        plan.one_per_phase ? fmt::format("{} items, {} prompts", *plan.one_per_phase,
                                         *plan.one_per_phase * plan.assumed_period)
                           : std::string("more items than are simulated"));
  }
  return out;
}

std::string text(const audit::Plan& plan, const PlanOptions& options,
                 const std::optional<audit::Saving>& saving) {
  const audit::PlanRequest& r = options.request;
  std::string out = fmt::format(
      "To find one phase of {} that is {:.1f} points weaker than {} ({}, level {}, power {}):\n"
      "  items              {}\n"
      "  offsets per item   {}\n"
      "  prompts            {}\n",
      plan.assumed_period, 100 * r.gap, percent(r.accuracy),
      r.stride ? fmt::format("known stride {}", *r.stride) : "stride unknown", r.level,
      percent(r.power), plan.items, plan.offsets, plan.prompts);
  if (plan.tokens) {
    out += fmt::format("  tokens             {} ({} a prompt)\n", tokens_text(plan.tokens),
                       *r.prompt_tokens);
  }
  const auto share = [](const audit::PlanPower& p) {
    return fmt::format("{} of {} audits [{} to {}]", percent(p.power), p.runs, percent(p.low),
                       percent(p.high));
  };
  if (!plan.simulated || !plan.right) {
    out +=
        "By formula: audits of this size are too large to simulate here. Smaller ones\n"
        "of 18 items or more needed 0.86 to 1.06 times the formula's items when simulated.\n";
  } else if (r.stride) {
    out += fmt::format("Simulated at these sizes: found in {}.\n", share(*plan.simulated));
  } else {
    out += fmt::format("Simulated at these sizes: a period is named in {}, the right one in {}.\n",
                       share(*plan.simulated), share(*plan.right));
  }
  out += confirm_text(plan, r.stride.has_value());
  if (r.requirement) {
    out +=
        fmt::format("\nTo show that every one of {} phases is right in at least {} of prompts:\n",
                    plan.assumed_period, percent(*r.requirement));
    out += plan.gate_items ? fmt::format("  items              {}\n", *plan.gate_items)
                           : std::string("  more than 100000: the true share is too near\n");
    out += fmt::format("  if all are right   {}\n", plan.gate_items_all_right.value_or(0));
  }
  if (saving) {
    const auto items = [](const std::optional<std::int64_t>& n) {
      return n ? fmt::format("{}", *n) : std::string("more than 800");
    };
    out += fmt::format(
        "\nThe same simulated prompts scored by right/wrong: {} items; by a log-probability "
        "margin: "
        "{} items{}.\n",
        items(saving->items_right_wrong), items(saving->items_margin),
        saving->ratio ? fmt::format(" ({:.1f} times fewer)", *saving->ratio) : "");
  }
  out += fmt::format("\n{:<10}{:>6}{:>10}{:>15}   {:<22}{}\n", "preset", "items", "prompts",
                     "tokens", "finds a dip of", "can show a worst phase of");
  for (const audit::PresetLine& line : plan.presets) {
    out += fmt::format("{:<10}{:>6}{:>10}{:>15}   {:<22}{}\n", line.name, line.items, line.prompts,
                       tokens_text(line.tokens),
                       line.dip ? fmt::format("{:.1f} points", 100 * *line.dip) : "nothing",
                       percent(line.bound));
  }
  return out;
}

base::Json simulation(const std::optional<audit::PlanPower>& power) {
  if (!power) {
    return {{"value", nullptr}, {"runs", 0}, {"reason", "audits too large to simulate"}};
  }
  return {
      {"value", power->power}, {"low", power->low}, {"high", power->high}, {"runs", power->runs}};
}

base::Json json(const audit::Plan& plan, const std::optional<audit::Saving>& saving) {
  const auto optional = [](const auto& x) { return x ? base::Json(*x) : base::Json(nullptr); };
  base::Json presets = base::Json::array();
  for (const audit::PresetLine& line : plan.presets) {
    presets.push_back({{"name", line.name},
                       {"items", line.items},
                       {"prompts", line.prompts},
                       {"tokens", optional(line.tokens)},
                       {"dip", optional(line.dip)},
                       {"bound", line.bound}});
  }
  base::Json out = {{"schema", "kvphase.plan/1"},
                    {"items", plan.items},
                    {"offsets", plan.offsets},
                    {"prompts", plan.prompts},
                    {"tokens", optional(plan.tokens)},
                    {"period", plan.assumed_period},
                    {"power", simulation(plan.simulated)},
                    {"right_period", simulation(plan.right)},
                    {"confirm",
                     {{"paired_items", plan.confirm.paired},
                      {"discordant", plan.confirm.discordant},
                      {"repeats", plan.confirm.repeats},
                      {"repeated_items", plan.confirm.repeated},
                      {"unpaired_items_per_phase", plan.confirm.unpaired}}},
                    {"one_per_phase_items", optional(plan.one_per_phase)},
                    {"gate_items", optional(plan.gate_items)},
                    {"gate_items_all_right", optional(plan.gate_items_all_right)},
                    {"presets", presets}};
  if (saving) {
    out["scores"] = {{"items_right_wrong", optional(saving->items_right_wrong)},
                     {"items_margin", optional(saving->items_margin)},
                     {"ratio", optional(saving->ratio)}};
  }
  return out;
}

ExitCode plan(const PlanOptions& options, const Session& session) {
  // --scores simulates up to 800 items with a search of every period.
  constexpr std::int64_t kMostScoreOffsets = 64;
  const audit::PlanRequest& r = options.request;
  const std::int64_t offsets = r.offsets.value_or(r.stride ? 2 * *r.stride : 0);
  if (options.scores && offsets > kMostScoreOffsets) {
    throw base::usage_error("plan",
                            "expected at most {} offsets beside --scores, got {}; leave --scores "
                            "out, or measure it for a smaller stride",
                            kMostScoreOffsets, offsets);
  }
  session.console.progress("simulating audits ...");
  const audit::Plan plan = audit::make_plan(options.request);
  std::optional<audit::Saving> saving;
  if (options.scores) {
    saving = audit::measure_saving({.accuracy = options.request.accuracy,
                                    .dip = options.request.gap,
                                    .period = plan.assumed_period,
                                    .offsets = plan.offsets,
                                    .item_sd = options.request.item_sd},
                                   {.power = options.request.power,
                                    .runs = options.request.runs,
                                    .seed = options.request.seed});
  }
  session.console.result(options.json ? json(plan, saving).dump(2) + "\n"
                                      : text(plan, options, saving));
  return kSuccess;
}

}  // namespace

Action add_plan(CLI::App& app) {
  const auto o = std::make_shared<PlanOptions>();
  audit::PlanRequest& r = o->request;
  app.add_option("--gap", r.gap, "How far one phase lies below the others (share, 0 to 1)")
      ->capture_default_str();
  app.add_option("--accuracy", r.accuracy, "Of the other phases")->capture_default_str();
  app.add_option("--stride", r.stride, "S, when it is known: no search, fewer prompts");
  app.add_option("--offsets", r.offsets, "Target positions per item (default 24, or 2 S)");
  app.add_option("--power", r.power, "Chance to find that gap")->capture_default_str();
  app.add_option("--level", r.level, "Chance of a false alarm")->capture_default_str();
  app.add_option("--item-sd", r.item_sd, "How much items differ, logits")->capture_default_str();
  app.add_option("--prompt-tokens", r.prompt_tokens, "Tokens of one prompt, to count them")
      ->check(CLI::PositiveNumber);
  app.add_option("--require-worst", r.requirement,
                 "Also: items that show every phase to be at least this good");
  app.add_option("--true-worst", r.true_share,
                 "What the phases really reach (default: halfway from the requirement to 1)");
  app.add_flag("--scores", o->scores,
               "Also measure how many items a log-probability margin would need");
  app.add_option(
         "--runs", r.runs,
         "Simulated audits behind each power figure; fewer, at least 50, where they are large")
      ->capture_default_str();
  app.add_option("--seed", r.seed, "Of the simulation")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--json", o->json, "The plan as JSON");
  return [o](const Session& session) { return plan(*o, session); };
}

}  // namespace kvphase::cli
