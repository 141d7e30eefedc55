// The figures of a benchmark, and its designs' accuracy joined with what they cost.
#pragma once

#include <optional>
#include <vector>

#include "record/findings.h"
#include "speed/bench.h"

namespace kvphase::speed {

record::Figure speed_figure(What what, const std::vector<Row>& rows);
record::Figure cache_figure(const Bench& bench);

// A design that was both audited and measured.
struct Trade {
  Accuracy accuracy;
  bool control = false;
  std::optional<double> bytes_per_token;  // of the cache, at the longest context
  std::optional<double> prefill;          // tokens per second, there
  std::optional<double> training;         // tokens per second, at the longest trained on
};
std::vector<Trade> trades_of(const Bench& bench, const std::vector<Row>& rows);

// Worst phase against cache bytes per token, larger marks for slower prefill (or, where no prefill
// was measured, training); and worst phase against training speed where that is known.
std::vector<record::Figure> trade_figures(const std::vector<Trade>& trades);

}  // namespace kvphase::speed
