// How fast an existing result is analysed, on two figures.
// 1. The period search of 1,000 items x 24 offsets, all candidates, 10,000 permutations: seconds of
//    one core (all of find_period: both nulls and nested tests where it makes them).
// 2. A journal of --items x 24 lines, written to --dir and removed again: seconds and GB/s of
//    counting its newlines, of reading it into columns and of analysing the columns, and the peak
//    memory of the process. The file is read once before, so the page cache is warm if it fits.
// 3. With --null-runs N nothing is timed: N tables without a period, each large enough to be
//    sampled, are searched, and the false alarms at 0.05 counted, of right/wrong scores with item
//    effects, of the same under slow drift, of heavy-tailed continuous scores at scattered
//    positions, of prompts without items, and of items with phases of their own; and those of the
//    noise of the gap.
// What the numbers are not: the time of a report (charts, HTML), or of other formats.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "audit/analysis.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "record/import.h"
#include "record/observation.h"
#include "stats/gap.h"
#include "stats/period.h"

namespace {

using namespace kvphase;
namespace fs = std::filesystem;

constexpr std::int64_t kOffsets = 24;

struct Options {
  std::int64_t items = 416667;  // ten million lines
  double dip = 0.3;             // logits that phase 3 of 4 loses
  fs::path dir = fs::temp_directory_path();
  std::int64_t null_runs = 0;
};

struct Used {
  base::Stopwatch wall;
  std::clock_t cpu = std::clock();
  double cpu_seconds() const {
    return static_cast<double>(std::clock() - cpu) / static_cast<double>(CLOCKS_PER_SEC);
  }
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

void search_period() {
  base::Random random(1);
  std::vector<stats::ScoreRow> rows;
  for (std::int64_t item = 0; item < 1000; ++item) {
    for (std::int64_t p = 0; p < kOffsets; ++p) {
      rows.push_back({item, p, random.uniform() < 0.6 ? 1.0 : 0.0});
    }
  }
  const stats::ScoreTable table = stats::make_score_table(std::move(rows));
  const Used used;
  const stats::PeriodResult r = stats::find_period(table);
  fmt::print("1,000 items x 24 offsets, {} candidates, {} permutations: {:.2f} s of one core\n",
             r.candidates.size(), r.permutations, used.cpu_seconds());
}

void write_journal(const fs::path& path, const Options& options) {
  std::ofstream out(path, std::ios::binary);
  base::Random random(7);
  for (std::int64_t item = 0; item < options.items; ++item) {
    const auto start = kOffsets * static_cast<std::int64_t>(random.uniform_index(320));
    const double ability = random.normal();
    for (std::int64_t residue = 0; residue < kOffsets; ++residue) {
      const double u = std::clamp(random.uniform(), 1e-9, 1 - 1e-9);
      const double margin =
          1.4 + ability - (residue % 4 == 3 ? options.dip : 0) + std::log(u / (1 - u));
      const bool correct = margin > 0;
      out << record::format_observation({.item = item,
                                         .residue = residue,
                                         .target_position = start + residue,
                                         .query_position = 8191,
                                         .length = 8192,
                                         .expected = "k0001",
                                         .answer = correct ? "k0001" : "k0002",
                                         .reply_class = correct ? "exact" : "wrong",
                                         .correct = correct,
                                         .logprob = std::log(logistic(margin)),
                                         .margin = margin})
          << '\n';
    }
  }
  if (!out.flush()) throw base::environment_error("bench", "expected to write {}", path.string());
}

std::int64_t count_lines(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> buffer(std::size_t{1} << 20);
  std::int64_t lines = 0;
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
    lines += std::count(buffer.begin(), buffer.begin() + in.gcount(), '\n');
  }
  return lines;
}

double peak_megabytes() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void analyse_journal(const Options& options) {
  const fs::path path = options.dir / "kvphase-analysis-speed.jsonl";
  write_journal(path, options);
  const double gigabytes = static_cast<double>(fs::file_size(path)) / 1e9;
  const auto say = [&](const char* what, const Used& used) {
    fmt::print("{:<28} {:6.2f} s, {:6.2f} s of CPU, {:5.2f} GB/s\n", what, used.wall.seconds(),
               used.cpu_seconds(), gigabytes / used.wall.seconds());
  };
  count_lines(path);
  const Used counting;
  fmt::print("journal: {} lines, {:.2f} GB\n", count_lines(path), gigabytes);
  say("counting newlines", counting);
  const Used all;
  const Used reading;
  const std::vector<record::Dataset> data = record::import_results(path, {});
  say("reading into columns", reading);
  const Used statistics;
  const record::Result result = audit::analyse(data.front(), {});
  say("statistics", statistics);
  say("reading and statistics", all);
  fmt::print("{}\npeak memory {:.0f} MiB\n", result.verdict.sentence, peak_megabytes());
  fs::remove(path);
}

enum class Null { kItems, kDrift, kHeavy, kUnpaired, kOwn };

// 264,000 scores without a period.
stats::ScoreTable null_table(Null kind, std::uint64_t seed) {
  base::Random random(base::derive_seed(seed, "bench.null", {static_cast<std::uint64_t>(kind)}));
  std::vector<stats::ScoreRow> rows;
  for (std::int64_t item = 0; item < 11000; ++item) {
    std::int64_t position = static_cast<std::int64_t>(random.uniform_index(3000));
    const double ability = random.normal();
    double drift = random.normal();
    // kOwn: one phase of 8, another one for every item.
    const auto weak = kind == Null::kOwn ? static_cast<std::int64_t>(random.uniform_index(8)) : -1;
    for (std::int64_t j = 0; j < kOffsets; ++j, ++position) {
      if (kind == Null::kHeavy) position += static_cast<std::int64_t>(random.uniform_index(3));
      drift = 0.98 * drift + 0.2 * random.normal();
      const double logit =
          ability + (kind == Null::kDrift ? drift : 0) - (position % 8 == weak ? 6 : 0);
      const double score = kind == Null::kHeavy ? ability - std::exp(1.5 * random.normal())
                           : random.uniform() < logistic(logit) ? 1
                                                                : 0;
      const std::int64_t id = kind == Null::kUnpaired ? item * kOffsets + j : item;
      rows.push_back({id, position, score});
    }
  }
  return stats::make_score_table(std::move(rows));
}

void count_false_alarms(const Options& options) {
  const std::pair<Null, const char*> kinds[] = {
      {Null::kItems, "right/wrong, items of different difficulty"},
      {Null::kDrift, "right/wrong, slow drift"},
      {Null::kHeavy, "log-normal scores at scattered positions"},
      {Null::kUnpaired, "right/wrong, prompts without items"},
      {Null::kOwn, "right/wrong, every item weak at one phase of 8 of its own"}};
  for (const auto& [kind, name] : kinds) {
    std::int64_t named = 0;
    std::int64_t rejected = 0;
    std::int64_t gaps = 0;
    for (std::int64_t run = 0; run < options.null_runs; ++run) {
      stats::ScoreTable table = null_table(kind, static_cast<std::uint64_t>(run));
      if (kind == Null::kUnpaired) table = stats::pool_items(table);
      const auto seed = static_cast<std::uint64_t>(run + 1);
      const stats::PeriodResult period = stats::find_period(table, {.seed = seed});
      named += period.period ? 1 : 0;
      for (const auto& candidate : period.candidates) {
        if (candidate.p_adjusted > 0.05) continue;
        ++rejected;
        break;
      }
      gaps += *stats::gap_noise_items(table, {.modulus = 24, .seed = seed}).p_value <= 0.05;
    }
    fmt::print(
        "{}: of {} runs a period was named in {}, the first null rejected in {}, the gap's "
        "p was at most 0.05 in {}\n",
        name, options.null_runs, named, rejected, gaps);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Speed of the analysis of existing results");
  app.add_option("--items", options.items, "Items of the journal, 24 lines each")
      ->capture_default_str();
  app.add_option("--dip", options.dip, "Logits that one phase of four loses")
      ->capture_default_str();
  app.add_option("--dir", options.dir, "Folder for the journal, removed afterwards")
      ->capture_default_str();
  app.add_option("--null-runs", options.null_runs, "Count false alarms instead")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.null_runs > 0) {
      count_false_alarms(options);
      return 0;
    }
    search_period();
    analyse_journal(options);
  } catch (const base::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
