#include "cli/bench_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/nearest.h"
#include "model/presets.h"

namespace kvphase::cli {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
constexpr const char* kScope = "bench";

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (std::size_t at = text.find(separator); at != std::string_view::npos;
       at = text.find(separator)) {
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.emplace_back(text);
  return parts;
}

std::int64_t parse_tokens(std::string_view text) {
  std::string_view digits = text;
  const bool thousands = digits.ends_with('K') || digits.ends_with('k');
  if (thousands) digits.remove_suffix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool number = error == std::errc() && end == digits.data() + digits.size();
  const std::int64_t most = thousands ? kMostTokens / 1024 : kMostTokens;
  if (!number || value < 1 || value > most) {
    throw base::usage_error(kScope,
                            "expected --contexts as tokens, 1 to 16384K, like 300, 4K, '1K,4K' or "
                            "1K..128K, got '{}'",
                            text);
  }
  return thousands ? 1024 * value : value;
}

std::vector<speed::What> parse_what(const std::string& text) {
  std::vector<speed::What> list;
  const auto& names = speed::what_names();
  if (text.empty()) {
    for (std::size_t i = 0; i < names.size(); ++i) list.push_back(static_cast<speed::What>(i));
    return list;
  }
  for (const std::string& name : split(text, ",")) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      throw base::usage_error(kScope, "expected --what of {}, got '{}'; did you mean '{}'?",
                              fmt::join(names, ", "), name, base::nearest_name(name, names));
    }
    list.push_back(static_cast<speed::What>(found - names.begin()));
  }
  return list;
}

speed::NamedDesign design_of(const BenchArguments& arguments, const std::string& name) {
  const bool whole = name.find('/') != std::string::npos;
  model::ModelConfig config = model::preset(whole ? name : arguments.shape + "/" + name);
  if (arguments.layers) {
    const model::AttentionKind first = config.attention.front(), design = config.attention.back();
    config.layers = *arguments.layers;
    config.attention.assign(static_cast<std::size_t>(config.layers), design);
    if (config.layers > 1) config.attention.front() = first;
  }
  if (arguments.width) {
    config.width = *arguments.width;
    config.ff_width = 2 * config.width;
    config.embedding_scale = 0.5 * std::sqrt(static_cast<double>(config.width));
  }
  model::validate(config, name);
  return {.name = name, .config = config};
}

void expect_range(const char* option, double value, double least, double most) {
  if (value >= least && value <= most) return;
  throw base::usage_error(kScope, "expected {} of {:g} to {:g}, got {:g}", option, least, most,
                          value);
}

}  // namespace

void declare_bench(CLI::App& app, BenchArguments& a) {
  // An empty variable of a script is not an option left out.
  const CLI::Validator given(
      [](std::string& text) { return text.empty() ? "expected a value, got nothing" : ""; }, "");
  app.add_option("designs", a.designs,
                 "Designs as `kvphase presets` lists them, with or without their shape (default "
                 "full-1kv, w4s4-1kv, w8s8-1kv; with --accuracy those audited)");
  app.add_option("--shape", a.shape,
                 fmt::format("{} (default small)", fmt::join(model::shape_names(), " | ")));
  app.add_option("--layers", a.layers,
                 "Layers in place of the shape's: all of the design's kind, but of `small` the "
                 "first");
  app.add_option("--width", a.width, "Width C in place of the shape's; MLPs are 2 C wide");
  app.add_option("--contexts", a.contexts,
                 "Tokens: 300, 4K, '1K,4K,16K' or 1K..128K, which doubles (default 1K,4K,16K; K is "
                 "1024)")
      ->check(given);
  app.add_option(
         "--what", a.what,
         fmt::format("{}, comma-separated (default all)", fmt::join(speed::what_names(), ", ")))
      ->check(given);
  app.add_option("--threads", a.threads, "Threads of every cell (default: all cores)");
  app.add_option("--repeats", a.repeats,
                 "Runs of a cell at most, after one that is not counted "
                 "(default 5)");
  app.add_option("--seconds", a.seconds, "No further run of a cell begins after (default 2)");
  app.add_option("--limit", a.limit,
                 "A cell whose single run is estimated to take more seconds is left out, and said "
                 "to be (default 30)");
  app.add_flag("--quick", a.quick, "Seconds in all: 256 and 1K tokens, two designs, short runs");
  app.add_option("--accuracy", a.accuracy,
                 "Audits or studies: their worst phases beside memory and time (repeatable)")
      ->type_name("FOLDER")
      ->allow_extra_args(false);
  app.add_option("-o,--out", a.out, "New folder for result.json, report.html and report.txt")
      ->check(given);
  app.add_flag("--json", a.json, "result.json's text instead of tables");
  app.add_option("--cell", a.cell, "")->group("");
}

std::vector<std::int64_t> parse_contexts(std::string_view text) {
  std::set<std::int64_t> tokens;
  for (const std::string& part : split(text, ",")) {
    const std::vector<std::string> ends = split(part, "..");
    if (ends.size() == 1) {
      tokens.insert(parse_tokens(part));
      continue;
    }
    const std::int64_t first = parse_tokens(ends.front()), last = parse_tokens(ends.back());
    if (ends.size() != 2 || last < first) {
      throw base::usage_error(kScope,
                              "expected a range of --contexts from shorter to longer, got "
                              "'{}'",
                              part);
    }
    for (std::int64_t t = first; t <= last; t *= 2) tokens.insert(t);
    tokens.insert(last);
  }
  return {tokens.begin(), tokens.end()};
}

speed::BenchOptions bench_options(const BenchArguments& a,
                                  const std::vector<std::string>& audited) {
  if (std::ranges::find(model::shape_names(), a.shape) == model::shape_names().end()) {
    throw base::usage_error(kScope, "expected a --shape of {}, got '{}'",
                            fmt::join(model::shape_names(), " | "), a.shape);
  }
  constexpr double kMost = 1e6;
  if (a.layers) expect_range("--layers", static_cast<double>(*a.layers), 1, 1024);
  if (a.width) expect_range("--width", static_cast<double>(*a.width), 1, 65536);
  if (a.repeats) expect_range("--repeats", static_cast<double>(*a.repeats), 1, kMost);
  if (a.seconds) expect_range("--seconds", *a.seconds, 0, kMost);
  if (a.limit) expect_range("--limit", *a.limit, 0, kMost);
  expect_range("--threads", static_cast<double>(a.threads), 0, 1024);

  speed::BenchOptions options;
  std::vector<std::string> designs = a.designs;
  const bool of_audits = designs.empty() && !audited.empty();
  if (of_audits) designs = audited;
  if (designs.empty()) {
    designs = {"full-1kv", "w4s4-1kv"};
    if (!a.quick) designs.emplace_back("w8s8-1kv");
  }
  std::set<std::string> seen;
  for (const std::string& name : designs) {
    if (seen.insert(name).second) options.designs.push_back(design_of(a, name));
  }
  const char* contexts = a.quick ? "256,1K" : of_audits ? "4K" : "1K,4K,16K";
  options.contexts = parse_contexts(a.contexts.empty() ? contexts : a.contexts);
  options.what = parse_what(a.what.empty() && of_audits ? "train,prefill,memory" : a.what);
  options.threads = a.threads > 0 ? a.threads : speed::look_at_machine().cores;
  if (a.quick) {
    options.repeats = 3;
    options.seconds = 0.2;
    options.decode_steps = 9;
    options.step_tokens = 2048;
  }
  options.repeats = a.repeats.value_or(options.repeats);
  options.seconds = a.seconds.value_or(options.seconds);
  options.limit = a.limit.value_or(options.limit);
  return options;
}

}  // namespace kvphase::cli
