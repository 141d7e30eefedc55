#include "stats/sequential.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/special_functions/beta.hpp>
#include <cmath>

#include "base/error.h"
#include "stats/paired.h"

namespace kvphase::stats {

double one_sided_e_value(std::int64_t b, std::int64_t c) {
  const double upper =
      boost::math::ibetac(static_cast<double>(c) + 0.5, static_cast<double>(b) + 0.5, 0.5);
  return 2 * upper * mcnemar_e_value(b, c);
}

SequentialResult run_sequential(const SequentialAnswer& answer, const SequentialOptions& options,
                                const std::function<bool(const SequentialBlock&)>& prepare) {
  if (options.phases < 2 || options.max_items < 1 || options.block < 1 ||
      !(options.alpha > 0 && options.alpha < 1)) {
    throw base::usage_error("sequential",
                            "expected at least 2 phases, 1 item and a block of 1, got {}, {}, {}",
                            options.phases, options.max_items, options.block);
  }
  const auto p = static_cast<std::size_t>(options.phases);
  SequentialResult result{.planned = options.max_items * options.phases};
  result.counts = {.correct = std::vector<std::int64_t>(p), .n = std::vector<std::int64_t>(p)};
  result.dropped_after.assign(p, -1);
  result.method = fmt::format(
      "whole items in blocks of {} over the phases in question; e-values at alpha {:g}; stops when "
      "one phase is left in the search for the worst{}",
      options.block, options.alpha, options.requirement ? " and the anytime gate has decided" : "");
  std::optional<AnytimeGate> gate;
  if (options.requirement) {
    gate.emplace(options.phases,
                 GateOptions{.requirement = *options.requirement, .alpha = options.alpha});
  }
  std::vector<bool> searched(p, true);
  std::vector<std::int64_t> only(p * p);  // only[a * p + b]: items right at a and wrong at b
  const double pairs = static_cast<double>(p * (p - 1));
  bool gate_open = gate.has_value();

  while (result.items < options.max_items) {
    const std::int64_t end = std::min(result.items + options.block, options.max_items);
    if (prepare) {
      SequentialBlock block{.first = result.items, .end = end};
      for (std::size_t a = 0; a < p; ++a) {
        if (searched[a] || gate_open) block.phases.push_back(static_cast<std::int64_t>(a));
      }
      if (!prepare(block)) {
        result.stop = StopReason::kInterrupted;
        break;
      }
    }
    std::vector<int> reply(p);
    for (std::int64_t item = result.items; item < end; ++item) {
      for (std::size_t a = 0; a < p; ++a) {
        reply[a] = -1;
        if (!searched[a] && !gate_open) continue;
        const std::optional<bool> reply_right = answer(item, static_cast<std::int64_t>(a));
        const bool right = reply_right.value_or(false);
        ++result.prompts;
        if (reply_right) {
          reply[a] = right ? 1 : 0;
          ++result.counts.n[a];
        }
        result.counts.correct[a] += right ? 1 : 0;
        if (gate) gate->add(static_cast<std::int64_t>(a), right ? 1 : 0);
      }
      for (std::size_t a = 0; a < p; ++a) {
        for (std::size_t b = 0; b < p; ++b) only[a * p + b] += reply[a] == 1 && reply[b] == 0;
      }
    }
    result.items = end;

    double sum = 0;
    for (std::size_t a = 0; a < p; ++a) {
      for (std::size_t b = a + 1; b < p; ++b) {
        sum += mcnemar_e_value(only[a * p + b], only[b * p + a]);
      }
    }
    result.e_dependence = std::min(sum / (pairs / 2), 1e300);  // finite, however much is known
    if (!result.dependence_after && result.e_dependence >= 1 / options.alpha) {
      result.dependence_after = result.items;
    }
    for (std::size_t a = 0; a < p; ++a) {
      if (!searched[a]) continue;
      for (std::size_t w = 0; w < p; ++w) {
        // w worse than a: items right only at a outnumber those right only at w.
        if (w != a && searched[w] &&
            one_sided_e_value(only[w * p + a], only[a * p + w]) >= pairs / options.alpha) {
          searched[a] = false;
          result.dropped_after[a] = result.items;
          break;
        }
      }
    }
    if (gate_open) gate_open = gate->result().verdict == GateVerdict::kInconclusive;
    if (std::ranges::count(searched, true) == 1 && !gate_open) {
      result.stop = gate ? StopReason::kGateDecided : StopReason::kWorstFound;
      break;
    }
  }
  for (std::size_t a = 0; a < p; ++a) {
    if (searched[a]) result.candidates.push_back(static_cast<std::int64_t>(a));
  }
  if (result.candidates.size() == 1) result.worst = result.candidates[0];
  double total = 0;
  for (std::size_t a = 0; a < p; ++a) {
    total +=
        static_cast<double>(result.counts.correct[a]) / static_cast<double>(result.counts.n[a]);
  }
  if (std::ranges::all_of(result.counts.n, [](std::int64_t n) { return n > 0; })) {
    result.mean = total / static_cast<double>(p);
  }
  result.saving = 1 - static_cast<double>(result.prompts) / static_cast<double>(result.planned);
  if (gate) result.gate = gate->result();
  return result;
}

}  // namespace kvphase::stats
