#include "cli/bench_cells.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <optional>
#include <variant>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "base/stop.h"
#include "cli/lab_api.h"
#include "speed/findings.h"

namespace kvphase::cli {
namespace {

using speed::Cell;
using speed::Measured;
using speed::Operation;

constexpr const char* kScope = "bench";
constexpr double kRatesSeconds = 6;
constexpr double kGrace = 4;          // times its limit after which a cell's process is ended
constexpr double kStartSeconds = 60;  // and beyond, for loading and building
constexpr double kShareOfMemory = 0.9;

// What came out, or why nothing did.
std::variant<Measured, std::string> measure_in_process(const Cell& cell, double most_seconds) {
  const std::string threads = fmt::format("{}", cell.threads);
  base::Json request = to_json(cell);
  request["most_seconds"] = std::ceil(most_seconds);
  const base::Job job{
      .name = speed::name_of(cell.operation),
      .commands = {{base::program_path(), "bench", "--cell", request.dump()}},
      .environment = {{"OMP_NUM_THREADS", threads}, {"OPENBLAS_NUM_THREADS", threads}}};
  std::string result;
  const auto outcomes = base::run_jobs({job}, 1, [&](const base::Job&, std::string_view line) {
    if (line.starts_with('{')) result = line;
  });
  const base::JobOutcome& outcome = outcomes.front();
  if (outcome.done && !result.empty()) {
    return speed::measured_from_json(base::parse_json(result, kScope), kScope);
  }
  if (base::stop_requested()) return std::string("interrupted");
  if (outcome.status == 128 + SIGALRM) {
    return fmt::format("stopped after {:.0f} s", std::ceil(most_seconds));
  }
  if (outcome.status == 128 + SIGKILL) return std::string("killed; out of memory?");
  return fmt::format("failed with exit status {}: {}", outcome.status, outcome.last_line);
}

std::string words_of(const Cell& cell) {
  return cell.operation == Operation::kRates
             ? "the machine's rates"
             : fmt::format("{}, {}, {} tokens", speed::name_of(cell.operation), cell.design,
                           speed::tokens_text(cell.tokens));
}

class Measuring {
 public:
  Measuring(const speed::BenchOptions& options, const Console& console)
      : options_(options), console_(console) {}

  CellsOutcome run() {
    outcome_.bench.machine = speed::look_at_machine();
    outcome_.bench.threads = options_.threads;
    const std::vector<Cell> cells = speed::cells_of(options_);
    measure_rates();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      measure(cells[i], fmt::format("cell {}/{}: ", i + 1, cells.size()));
    }
    if (!base::stop_requested()) measure_rates();
    outcome_.interrupted = base::stop_requested();
    return std::move(outcome_);
  }

 private:
  void measure_rates() {
    const double seconds = std::min(kRatesSeconds, 3 * options_.seconds);
    const Cell cell{
        .operation = Operation::kRates, .threads = options_.threads, .seconds = seconds};
    console_.progress(words_of(cell));
    auto measured = measure_in_process(cell, kGrace * kRatesSeconds + kStartSeconds);
    if (base::stop_requested()) return;
    if (const auto* reason = std::get_if<std::string>(&measured)) {
      throw base::environment_error(kScope, "expected to measure the machine's rates, got: {}",
                                    *reason);
    }
    outcome_.bench.rates.push_back(std::get<Measured>(measured).rates.value());
  }

  void measure(const Cell& cell, const std::string& count) {
    const auto leave_out = [&](const std::string& reason, std::optional<double> estimate) {
      console_.progress(fmt::format("{}{}: left out, {}", count, words_of(cell), reason));
      outcome_.bench.left_out.push_back({.cell = cell, .reason = reason, .estimate = estimate});
    };
    if (base::stop_requested()) {
      outcome_.bench.left_out.push_back({.cell = cell, .reason = "interrupted", .estimate = {}});
      return;
    }
    if (cell.operation == Operation::kTrain && cell.tokens > options_.longest_training) {
      return leave_out(fmt::format("training is measured up to {} tokens",
                                   speed::tokens_text(options_.longest_training)),
                       std::nullopt);
    }
    const std::optional<speed::Rates> rates = best_rates(outcome_.bench);
    const auto seconds = speed::estimated_seconds(
        cell, outcome_.bench.done, rates ? std::optional(rates->flops) : std::nullopt);
    if (seconds && *seconds > options_.limit) {
      return leave_out(fmt::format("longer than --limit {:g} s", options_.limit), seconds);
    }
    const auto memory = speed::estimated_memory(cell, outcome_.bench.done);
    const auto available = speed::look_at_machine().available;
    if (memory && available && *memory > kShareOfMemory * static_cast<double>(*available)) {
      return leave_out(
          fmt::format("would need about {}, of which {} are free", speed::bytes_text(*memory),
                      speed::bytes_text(static_cast<double>(*available))),
          seconds);
    }
    console_.progress(
        fmt::format("{}{}{}", count, words_of(cell),
                    seconds ? fmt::format(" (a run about {})", speed::time_text(*seconds)) : ""));
    const double most = kGrace * (options_.limit + options_.seconds) + kStartSeconds;
    auto measured = measure_in_process(cell, most);
    if (const auto* reason = std::get_if<std::string>(&measured)) {
      outcome_.failed = outcome_.failed || !base::stop_requested();
      return leave_out(*reason, seconds);
    }
    outcome_.bench.done.push_back({.cell = cell, .measured = std::get<Measured>(measured)});
  }

  const speed::BenchOptions& options_;
  const Console& console_;
  CellsOutcome outcome_;
};

}  // namespace

CellsOutcome measure_cells(const speed::BenchOptions& options, const Console& console) {
  return Measuring(options, console).run();
}

ExitCode measure_one_cell(const std::string& text, const Console& console) {
  std::signal(SIGINT, SIG_DFL);        // nothing of it would be kept
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would read it
  base::Json request = base::parse_json(text, kScope, "--cell");
  ::alarm(request.at("most_seconds").get<unsigned>());  // its default action ends the process
  request.erase("most_seconds");
  console.progress(to_json(load_lab().measure(speed::cell_from_json(request, kScope))).dump());
  return kSuccess;
}

}  // namespace kvphase::cli
