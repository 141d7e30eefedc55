#include "cli/endpoint_plan.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "task/mitigate.h"
#include "task/plan_cost.h"

namespace kvphase::cli {
namespace {

// Rates that the time estimate assumes; the plan says so.
constexpr double kPrefillPerSecond = 2000;  // prompt tokens of one request
constexpr double kDecodePerSecond = 20;     // generated tokens of one request
constexpr double kRoundTrip = 0.1;          // seconds

std::string grouped(std::int64_t n) {
  std::string text = std::to_string(n);
  for (std::ptrdiff_t at = std::ssize(text) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

double seconds_of(const endpoint::Spent& spent, int concurrency) {
  const auto anew = static_cast<double>(spent.prompt_tokens - spent.cached_tokens);
  return (anew / kPrefillPerSecond +
          static_cast<double>(spent.completion_tokens) / kDecodePerSecond +
          static_cast<double>(spent.requests) * kRoundTrip) /
         concurrency;
}

}  // namespace

EndpointPlan plan_endpoint(const EndpointTask& made, double share, std::int64_t journalled,
                           const EndpointChoices& choices) {
  const task::Task& task = *made.task;
  const std::int64_t all = task.items() * std::ssize(task.residues());
  EndpointPlan plan{
      .prompts = static_cast<std::int64_t>(std::llround(static_cast<double>(all) * share)),
      .journalled = journalled,
      .proof_requests = made.proof_requests};
  const task::CostOptions options{.constant_tokens = made.constant_tokens,
                                  .constant_shared = made.shared_constant,
                                  .completion_tokens = choices.answer_tokens};
  const task::PlanCost cost = task::plan_cost(task, !made.cold, options);
  const double left = static_cast<double>(std::max<std::int64_t>(0, plan.prompts - journalled)) /
                      static_cast<double>(all);
  const auto part = [&](std::int64_t n) {
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(n) * left));
  };
  plan.primers = part(cost.primers);
  plan.spent = {
      .requests = part(cost.requests) + plan.proof_requests,
      .prompt_tokens = part(cost.prompt_tokens) +
                       plan.proof_requests * (task.longest_prompt() + made.constant_tokens),
      .cached_tokens = part(cost.cached_tokens),
      .completion_tokens = part(cost.completion_tokens) + plan.proof_requests};
  return plan;
}

void check_caps(const EndpointPlan& plan, const EndpointChoices& choices) {
  const std::string broken = endpoint::broken_cap(plan.spent, choices.prices, choices.caps);
  if (broken.empty()) return;
  throw base::usage_error("audit",
                          "expected a plan within the caps, got {}; ask fewer items, or raise the "
                          "cap (--dry-run shows the plan)",
                          broken);
}

std::string plan_text(const EndpointPlan& plan, const EndpointTask& made,
                      const EndpointChoices& choices, const endpoint::ServerInfo& server) {
  const task::Task& task = *made.task;
  std::string text = fmt::format(
      "Plan: {} on {} at {} ({}), prompts as {}, {}\n", task.name(),
      server.model.empty() ? "the server's model" : server.model, server.address,
      endpoint::name_of(server.kind), name_of(made.form),
      made.cold ? "kept out of the prompt cache where the server can" : "sharing the prompt cache");
  const auto row = [&](std::string_view what, const std::string& value) {
    text += fmt::format("  {:<18}{}\n", what, value);
  };
  const endpoint::Spent& s = plan.spent;
  row("prompts",
      fmt::format("{} of {} items{}{}", grouped(plan.prompts), grouped(task.items() / task.votes()),
                  task.votes() > 1 ? fmt::format(", {} votes each", task.votes()) : "",
                  plan.journalled > 0
                      ? fmt::format(", {} of them answered", grouped(plan.journalled))
                      : ""));
  row("requests",
      fmt::format("about {} without retries (words and position proof {}, cache fillers {})",
                  grouped(s.requests), grouped(plan.proof_requests), grouped(plan.primers)));
  row("prompt tokens",
      fmt::format("{} ({:.1f}% cached when the cache works)", grouped(s.prompt_tokens),
                  s.prompt_tokens > 0 ? 100 * static_cast<double>(s.cached_tokens) /
                                            static_cast<double>(s.prompt_tokens)
                                      : 0.0));
  if (const auto cost = task::mitigation_cost(task)) {
    const auto prompts = static_cast<double>(plan.prompts);
    const double more_prompts = prompts - prompts / static_cast<double>(cost->votes);
    const double more =
        prompts * cost->tokens_per_prompt +
        more_prompts * static_cast<double>(cost->plain_tokens + made.constant_tokens);
    row("mitigation",
        fmt::format("{}: about {} prompt tokens more than with plain prompts{}", task.mitigation(),
                    grouped(static_cast<std::int64_t>(std::llround(more))),
                    made.constant_tokens > 0 ? ", constant texts not counted" : ""));
  }
  row("completion tokens", fmt::format("{} at most", grouped(s.completion_tokens)));
  row("time", fmt::format("about {} at {} at once, if one request reads {:g} and writes {:g} "
                          "tokens a second",
                          base::format_duration(seconds_of(s, choices.concurrency)),
                          choices.concurrency, kPrefillPerSecond, kDecodePerSecond));
  row("money", choices.priced
                   ? fmt::format("{:.4g} at {:g} in, {:g} cached, {:g} out per million tokens",
                                 endpoint::cost_of(s, choices.prices), choices.prices.in,
                                 choices.prices.cached, choices.prices.out)
                   : "unknown; give --price-in, --price-cached and --price-out");
  const std::string broken = endpoint::broken_cap(s, choices.prices, choices.caps);
  if (!broken.empty()) row("caps", "would be refused: " + broken);
  return text;
}

}  // namespace kvphase::cli
