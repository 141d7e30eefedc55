// What `kvphase bench` is asked: words of the command line as a plan. Knows no tensors.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "speed/bench.h"

namespace kvphase::cli {

struct BenchArguments {
  std::vector<std::string> designs;  // of --shape, or SHAPE/DESIGN; empty: a default
  std::string shape = "small";
  std::optional<std::int64_t> layers;  // in place of the shape's; the first stays local at `small`
  std::optional<std::int64_t> width;   // C in place of the shape's; the MLP is twice as wide
  std::string contexts;                // "1K,4K" or "1K..128K"; empty: a default
  std::string what;                    // comma-separated; empty: everything
  std::int64_t threads = 0;            // 0: all cores
  std::optional<std::int64_t> repeats;
  std::optional<double> seconds;
  std::optional<double> limit;
  bool quick = false;
  std::vector<std::string> accuracy;  // folders of audits and studies
  std::string out;                    // new folder; empty: none
  bool json = false;
  std::string cell;  // of the program's own: measure this one and say the result on stderr
};

void declare_bench(CLI::App& app, BenchArguments& arguments);

// "300", "4K", "1K,4K,16K", "1K..128K" (doubling): K is 1024; sorted, each once. Throws a usage
// error for anything else.
std::vector<std::int64_t> parse_contexts(std::string_view text);

// `audited`: designs that --accuracy has, the default where no design is named.
speed::BenchOptions bench_options(const BenchArguments& arguments,
                                  const std::vector<std::string>& audited);

}  // namespace kvphase::cli
