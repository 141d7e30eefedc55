// A benchmark as findings (record/findings.h), schema "kvphase.bench/1": tables of measured figures
// beside their floors, what was left out, figures over the context length, and with audits the
// trade-off of accuracy, cache and time.
#pragma once

#include "record/findings.h"
#include "speed/bench.h"

namespace kvphase::speed {

// `context` lacks the warnings about the machine.
record::Findings findings_of(const Bench& bench, const BenchOptions& options,
                             record::RunContext context);

// "16K", "1.5K", "300": tokens in words; K is 1024.
std::string tokens_text(std::int64_t tokens);
// "1.23 s", "4.56 ms", "78 us".
std::string time_text(double seconds);
// "1.2 MB", "3.4 GB": powers of 1000.
std::string bytes_text(double bytes);

}  // namespace kvphase::speed
