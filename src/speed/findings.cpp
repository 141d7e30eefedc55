#include "speed/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "speed/bytes.h"
#include "speed/figures.h"

namespace kvphase::speed {
namespace {

using record::FindingsTable;

constexpr double kUnsteady = 3;  // slowest over fastest run that makes a median worth little
constexpr double kDrift = 0.15;  // between the rates before and after that is worth a warning

std::string ratio_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.2f}", *ratio) : "-";
}

std::string count_text(double x) {
  return x >= 100 ? fmt::format("{:.0f}", x)
         : x >= 1 ? fmt::format("{:.1f}", x)
                  : fmt::format("{:.3f}", x);
}

std::string optional_bytes(const std::optional<std::int64_t>& bytes) {
  return bytes ? bytes_text(static_cast<double>(*bytes)) : "-";
}

FindingsTable machine_table(const Bench& bench) {
  const Machine& m = bench.machine;
  FindingsTable table = {.title = "Machine", .header = {"what", "value"}};
  const auto add = [&](const char* what, const std::string& value) {
    table.rows.push_back({what, value.empty() ? "not known" : value});
  };
  add("processor", m.processor);
  add("cores, threads", fmt::format("{}, {}", m.cores, bench.threads));
  add("instruction sets", fmt::format("{}", fmt::join(m.instruction_sets, " ")));
  add("last-level cache", optional_bytes(m.last_level_cache));
  add("memory, available",
      fmt::format("{}, {}", optional_bytes(m.memory), optional_bytes(m.available)));
  add("load before the start", m.load ? fmt::format("{:.2f}", *m.load) : "");
  if (const auto rates = best_rates(bench)) {
    std::string each;
    for (const Rates& r : bench.rates) {
      each += fmt::format("{}{:.1f}", each.empty() ? "" : ", ", r.flops / 1e9);
    }
    add("matrix products, GFLOP/s",
        fmt::format("{:.1f} ({}; measured {})", rates->flops / 1e9, rates->flops_how, each));
    add("of torch::mm alone", fmt::format("{:.1f}", rates->mm_flops / 1e9));
    add("reading memory, GB/s",
        fmt::format("{:.1f} (of {}), triad {:.1f}", rates->read_bytes / 1e9,
                    bytes_text(static_cast<double>(rates->buffer)), rates->triad_bytes / 1e9));
  }
  return table;
}

struct Words {
  const char* title;
  const char* note;
};

Words words_of(What what) {
  switch (what) {
    case What::kTrain:
      return {"Training",
              "One run: an optimiser step with its data, gradients, clipping and update, on "
              "lookups with 64 answers a sequence. Floor: 3 times the useful operations of the "
              "forward pass, logits at the answers alone."};
    case What::kForward:
      return {"Forward pass",
              "One run: logits of every position of one sequence, without gradients."};
    case What::kPrefill:
      return {"Prefill",
              "One run: a prompt into an empty cache, one sequence. Nothing asks for the last "
              "layer's outputs, so of that layer only keys, values and entries are computed: in a "
              "network of two layers, prefill has no attention of the design's own."};
    case What::kDecode:
      return {"Decoding",
              "One run: one more token behind the context, one sequence, logits included. Floor: "
              "weights and cache over the rate of reading memory; where both fit the processor's "
              "cache a step may be faster."};
    case What::kAttention:
      return {"Attention alone",
              "One run: the softmax over entries and exact tokens of one layer and the gradients "
              "of all its inputs, one sequence."};
    case What::kMemory:
      return {"Cache", ""};
  }
  return {};
}

FindingsTable speed_table(What what, const std::vector<Row>& rows) {
  const Words words = words_of(what);
  FindingsTable table = {.title = words.title,
                         .header = {"design", "context", "tokens/s", "slowest to fastest",
                                    "one run", "GFLOP/s", "floor", "% of floor", "x control"},
                         .note = words.note};
  const bool memory = what != What::kDecode;
  if (memory) table.header.insert(table.header.end(), {"memory", "all of it"});
  bool cold = false;
  for (const Row& row : rows) {
    if (row.what != what) continue;
    const auto tokens = static_cast<double>(row.tokens);
    cold = cold || !row.warmed_up;
    table.rows.push_back(
        {row.design, tokens_text(row.context), count_text(row.rate()),
         row.time.runs == 1 ? std::string(row.warmed_up ? "1 run" : "1 run*")
                            : fmt::format("{} to {}", count_text(tokens / row.time.high),
                                          count_text(tokens / row.time.low)),
         time_text(row.time.median), fmt::format("{:.2f}", row.flops / row.time.median / 1e9),
         row.floor ? time_text(*row.floor) : "-",
         row.share ? fmt::format("{:.1f}", 100 * *row.share) : "-", ratio_text(row.control)});
    if (!memory) continue;
    table.rows.back().push_back(optional_bytes(row.extra_memory));
    table.rows.back().push_back(optional_bytes(row.peak_memory));
  }
  if (cold) table.note += " * without a run before it that is not counted: it took too long.";
  return table;
}

// What attention's memory is beside what it must hold.
void add_tensor_column(FindingsTable& table, const Bench& bench) {
  table.header.push_back("of tensors");
  std::size_t next = 0;
  for (const Done& done : bench.done) {
    if (done.cell.operation != Operation::kAttention || !done.measured.time) continue;
    const Measured& m = done.measured;
    std::string text = "-";
    if (m.bytes && m.resident_peak && m.resident_before && m.peak_of_run) {
      const auto all = static_cast<double>(*m.bytes);
      const auto extra = static_cast<double>(*m.resident_peak - *m.resident_before);
      text = fmt::format("{:.2f}", (all / 2 + extra) / all);  // half of them, the inputs, are there
    }
    table.rows.at(next++).push_back(text);
  }
  table.note +=
      " Of tensors: inputs and the most beyond them, over the bytes of inputs, output and "
      "gradients.";
}

FindingsTable cache_table(const Bench& bench) {
  FindingsTable table = {
      .title = words_of(What::kMemory).title,
      .header = {"design", "context", "measured, bytes", "formula, bytes", "equal", "per token",
                 "control over it", "a step reads: weights", "cache"},
      .note =
          "After a prompt of that many tokens, one sequence, float32. Measured: the tensors of "
          "every layer's cache. Formula: model/config.h. A step reads what speed/bytes.h says "
          "it cannot avoid to read."};
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> bytes;  // by design and context
  for (const Done& done : bench.done) {
    if (!done.measured.bytes || done.cell.operation != Operation::kPrompt) continue;
    bytes.emplace(std::pair(done.cell.design, done.cell.tokens), *done.measured.bytes);
  }
  for (const Done& done : bench.done) {
    if (!done.measured.bytes || done.cell.operation != Operation::kPrompt) continue;
    const std::int64_t measured = *done.measured.bytes, tokens = done.cell.tokens;
    const std::int64_t formula = cache_bytes(done.cell.config, tokens) * done.cell.batch;
    const StepBytes step = decode_bytes(done.cell.config, tokens);
    const auto reference = bytes.find({control_of(bench, done.cell.config), tokens});
    table.rows.push_back(
        {done.cell.design, tokens_text(tokens), fmt::format("{}", measured),
         fmt::format("{}", formula), measured == formula ? "yes" : "NO",
         fmt::format("{:.1f}", static_cast<double>(measured) / static_cast<double>(tokens)),
         reference == bytes.end() ? "-"
                                  : fmt::format("{:.2f}", static_cast<double>(reference->second) /
                                                              static_cast<double>(measured)),
         bytes_text(step.weights), bytes_text(step.cache)});
  }
  return table;
}

FindingsTable left_out_table(const Bench& bench) {
  FindingsTable table = {.title = "Left out",
                         .header = {"what", "design", "context", "one run, about", "why"}};
  for (const LeftOut& left : bench.left_out) {
    table.rows.push_back({name_of(left.cell.operation), left.cell.design,
                          tokens_text(left.cell.tokens),
                          left.estimate ? time_text(*left.estimate) : "-", left.reason});
  }
  return table;
}

FindingsTable accuracy_table(const Bench& bench, const std::vector<Trade>& trades) {
  FindingsTable table = {.title = "Accuracy, memory and time",
                         .header = {"design", "runs", "worst phase", "lowest to highest",
                                    "cache, bytes/token", "prefill tokens/s", "training tokens/s"},
                         .note =
                             "Worst phase: the mean of the runs' worst residues, from the "
                             "audits given by --accuracy. Cache and prefill at the longest "
                             "context measured, training at the longest trained on, as the "
                             "tables above say."};
  for (const Trade& t : trades) {
    table.rows.push_back(
        {t.accuracy.design, fmt::format("{}", t.accuracy.runs),
         fmt::format("{:.1f}%", 100 * t.accuracy.worst),
         fmt::format("{:.1f} to {:.1f}", 100 * t.accuracy.low, 100 * t.accuracy.high),
         t.bytes_per_token ? fmt::format("{:.1f}", *t.bytes_per_token) : "-",
         t.prefill ? count_text(*t.prefill) : "-", t.training ? count_text(*t.training) : "-"});
  }
  std::string missing;
  for (const Accuracy& accuracy : bench.accuracy) {
    const auto same = [&](const Trade& t) { return t.accuracy.design == accuracy.design; };
    if (std::ranges::none_of(trades, same)) {
      missing += (missing.empty() ? "" : ", ") + accuracy.design;
    }
  }
  if (!missing.empty()) table.note += " Audited but not measured here: " + missing + ".";
  return table;
}

const char* verb_of(What what) {
  switch (what) {
    case What::kTrain:
      return "trains";
    case What::kPrefill:
      return "prefills";
    case What::kDecode:
      return "decodes";
    default:
      return "runs";
  }
}

std::string sentence_of(const Bench& bench, const BenchOptions& options,
                        const std::vector<Row>& rows) {
  std::string text;
  for (const What what :
       {What::kPrefill, What::kForward, What::kTrain, What::kDecode, What::kAttention}) {
    if (!asks(options, what)) continue;
    const Row* best = nullptr;  // the longest compared, and there the fastest
    for (const Row& row : rows) {
      if (row.what != what || !row.control) continue;
      if (best == nullptr || row.context > best->context ||
          (row.context == best->context && *row.control > *best->control)) {
        best = &row;
      }
    }
    if (best == nullptr) continue;
    text += fmt::format("{}{} {} at {:.2f} times the tokens/s of {} at {} tokens",
                        text.empty() ? "" : "; ", best->design, verb_of(what), *best->control,
                        best->control_design, tokens_text(best->context));
    if (what == What::kForward) text += " (forward pass)";
    if (what == What::kAttention) text += " (attention alone)";
  }
  if (text.empty()) text = fmt::format("{} figures measured", rows.size());
  if (!bench.left_out.empty()) {
    text += fmt::format("; {} of {} cells left out", bench.left_out.size(),
                        bench.left_out.size() + bench.done.size());
  }
  return text + ".";
}

std::vector<std::string> warnings_of(const Bench& bench, const std::vector<Row>& rows) {
  std::vector<std::string> warnings = load_warnings(bench.machine, bench.threads);
  if (bench.rates.size() > 1) {
    const Rates &a = bench.rates.front(), &b = bench.rates.back();
    const auto drift = [&](const char* what, double before, double after) {
      if (std::abs(after - before) <= kDrift * std::max(before, after)) return;
      warnings.push_back(fmt::format(
          "the machine's rate of {} was {:.1f} before the measurement and {:.1f} after it (G/s): "
          "other programs ran, or its clock changed; floors take the better one",
          what, before / 1e9, after / 1e9));
    };
    drift("matrix products", a.flops, b.flops);
    drift("reading memory", a.read_bytes, b.read_bytes);
  }
  for (const Done& done : bench.done) {
    if (done.cell.operation != Operation::kPrompt || !done.measured.bytes) continue;
    const std::int64_t formula = cache_bytes(done.cell.config, done.cell.tokens) * done.cell.batch;
    if (formula == *done.measured.bytes) continue;
    warnings.push_back(
        fmt::format("the cache of {} holds {} bytes at {} tokens, the formula says "
                    "{}: one of them is wrong",
                    done.cell.design, *done.measured.bytes, done.cell.tokens, formula));
  }
  std::string unsteady;
  for (const Row& row : rows) {
    // Of decoding, the steps that end a window take longer by nature.
    if (row.what == What::kDecode || row.time.high <= kUnsteady * row.time.low) continue;
    unsteady += fmt::format("{}{} of {} at {}", unsteady.empty() ? "" : ", ",
                            what_names().at(static_cast<std::size_t>(row.what)), row.design,
                            tokens_text(row.context));
  }
  if (!unsteady.empty()) {
    warnings.push_back(fmt::format(
        "unreliable, the slowest run took more than {:g} times as long as the fastest: {}",
        kUnsteady, unsteady));
  }
  const bool whole_life = std::ranges::any_of(
      bench.done, [](const Done& d) { return d.measured.time && !d.measured.peak_of_run; });
  if (whole_life) {
    warnings.push_back(
        "this system does not let a process begin its peak of memory anew: peaks are those of the "
        "whole process, and memory beyond what was there before is not shown");
  }
  return warnings;
}

}  // namespace

std::string tokens_text(std::int64_t tokens) {
  constexpr std::int64_t kK = 1024;
  return tokens % kK == 0 ? fmt::format("{}K", tokens / kK) : fmt::format("{}", tokens);
}

std::string time_text(double seconds) {
  return seconds >= 100    ? fmt::format("{:.0f} s", seconds)
         : seconds >= 1    ? fmt::format("{:.2f} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3)
                           : fmt::format("{:.1f} us", seconds * 1e6);
}

std::string bytes_text(double bytes) {
  return bytes >= 1e9   ? fmt::format("{:.2f} GB", bytes / 1e9)
         : bytes >= 1e6 ? fmt::format("{:.1f} MB", bytes / 1e6)
         : bytes >= 1e3 ? fmt::format("{:.1f} kB", bytes / 1e3)
                        : fmt::format("{:.0f} B", bytes);
}

record::Findings findings_of(const Bench& bench, const BenchOptions& options,
                             record::RunContext context) {
  const std::vector<Row> rows = rows_of(bench);
  record::Findings f{.kind = "bench", .context = std::move(context)};
  std::vector<std::string> designs;
  for (const NamedDesign& design : options.designs) designs.push_back(design.name);
  f.title = fmt::format("{}: time and memory", fmt::join(designs, ", "));
  f.sentence = sentence_of(bench, options, rows);
  for (std::string& warning : warnings_of(bench, rows))
    f.context.warnings.push_back(std::move(warning));
  base::Json what = base::Json::array();
  for (const What w : options.what) what.push_back(what_names().at(static_cast<std::size_t>(w)));
  f.options = {{"designs", designs},
               {"contexts", options.contexts},
               {"what", what},
               {"threads", options.threads},
               {"repeats", options.repeats},
               {"decode_steps", options.decode_steps},
               {"seconds", options.seconds},
               {"limit", options.limit},
               {"step_tokens", options.step_tokens},
               {"longest_training", options.longest_training}};
  f.data = to_json(bench);
  f.tables.push_back(machine_table(bench));
  const bool over_contexts = options.contexts.size() > 1;
  for (const What w :
       {What::kTrain, What::kForward, What::kPrefill, What::kDecode, What::kAttention}) {
    FindingsTable table = speed_table(w, rows);
    if (table.rows.empty() || !asks(options, w)) continue;
    if (w == What::kAttention) add_tensor_column(table, bench);
    f.tables.push_back(std::move(table));
    if (over_contexts) f.figures.push_back(speed_figure(w, rows));
  }
  FindingsTable cache = cache_table(bench);
  if (asks(options, What::kMemory) && !cache.rows.empty()) {
    f.tables.push_back(std::move(cache));
    if (over_contexts) f.figures.push_back(cache_figure(bench));
  }
  if (!bench.accuracy.empty()) {
    const std::vector<Trade> trades = trades_of(bench, rows);
    f.tables.push_back(accuracy_table(bench, trades));
    for (record::Figure& figure : trade_figures(trades)) f.figures.push_back(std::move(figure));
  }
  if (!bench.left_out.empty()) f.tables.push_back(left_out_table(bench));
  f.notes = {
      "Every figure is the median of its runs, after one that is not counted; beside it the "
      "slowest and the fastest. Each cell was measured in a process of its own.",
      "Floor: useful floating point operations (speed/flops.h: causal pairs only; norms, softmax "
      "and the optimiser not counted) over the machine's measured rate of float32 matrix products, "
      "or bytes that must be read over its measured rate of reading memory, whichever takes "
      "longer. % of floor: the floor's time over the measured one.",
      "Memory: the most physical memory that the process held during its first run beyond what it "
      "held before (program, libraries, weights, optimiser, prompt); all of it: with these. An "
      "allocator's reserve counts once it was touched.",
      "x control, control over it: against the first design of full attention with as many KV "
      "heads, or if there is none the first of full attention, at the same context.",
      "Weights and tokens are random, float32. No tokenizer, sampling or HTTP; one sequence at a "
      "time but in training."};
  return f;
}

}  // namespace kvphase::speed
