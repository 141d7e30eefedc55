#include "speed/figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "speed/findings.h"

namespace kvphase::speed {
namespace {

using record::Figure;
using record::FigureSeries;

std::string role_of(const std::string& design, bool control) {
  return control ? "control" : design.ends_with("-staggered") ? "boundary" : "model";
}

// The series of a design; a new one where it has none.
FigureSeries& series_of(Figure& figure, const std::string& design, bool control) {
  const auto found = std::ranges::find(figure.series, design, &FigureSeries::name);
  if (found != figure.series.end()) return *found;
  figure.series.push_back({.name = design, .role = role_of(design, control)});
  return figure.series.back();
}

Figure over_context(const std::string& id, const std::string& title, const std::string& y_title) {
  return {.kind = Figure::Kind::kLines,
          .id = id,
          .title = title,
          .x_title = "context, tokens",
          .y_title = y_title,
          .log_x = true,
          .log_y = true,
          .named = true};
}

const char* title_of(What what) {
  switch (what) {
    case What::kTrain:
      return "Training over the context length";
    case What::kForward:
      return "Forward pass over the context length";
    case What::kPrefill:
      return "Prefill over the context length";
    case What::kDecode:
      return "Decoding over the context length";
    case What::kAttention:
      return "Attention alone over the context length";
    case What::kMemory:
      return "Cache over the context length";
  }
  return "";
}

// "small/w8s8-1kv" is the design "w8s8-1kv".
bool is_of(const std::string& name, const std::string& design) {
  return name == design || name.ends_with("/" + design);
}

std::string cost_text(const Trade& t) {
  std::string text = fmt::format("worst phase {:.1f}%", 100 * t.accuracy.worst);
  if (t.bytes_per_token) text += fmt::format(", {:.1f} bytes per token", *t.bytes_per_token);
  if (t.prefill) text += fmt::format(", prefill {:.0f} tokens/s", *t.prefill);
  if (t.training) text += fmt::format(", training {:.0f} tokens/s", *t.training);
  return text;
}

// A series for every design, so that each mark has its name and colour.
Figure trade_figure(const std::vector<Trade>& trades, std::optional<double> Trade::*x,
                    std::optional<double> Trade::*slow) {
  Figure figure{.kind = Figure::Kind::kPoints, .y_title = "worst phase, %", .named = true};
  for (const Trade& t : trades) {
    if (!(t.*x)) continue;
    FigureSeries& series = series_of(figure, t.accuracy.design, t.control);
    series.x = {*(t.*x)};
    series.y = {100 * t.accuracy.worst};
    series.low = {100 * t.accuracy.low};
    series.high = {100 * t.accuracy.high};
    series.label = {cost_text(t)};
    if (slow != nullptr && t.*slow) series.size = {1 / *(t.*slow)};  // seconds per token
  }
  return figure;
}

}  // namespace

Figure speed_figure(What what, const std::vector<Row>& rows) {
  Figure figure = over_context("speed-" + what_names().at(static_cast<std::size_t>(what)),
                               title_of(what), "tokens per second");
  for (const Row& row : rows) {
    if (row.what != what) continue;
    FigureSeries& series = series_of(figure, row.design, row.full);
    const auto tokens = static_cast<double>(row.tokens);
    series.x.push_back(static_cast<double>(row.context));
    series.y.push_back(row.rate());
    series.low.push_back(tokens / row.time.high);
    series.high.push_back(tokens / row.time.low);
    series.label.push_back(
        fmt::format("{} tokens, {} a run{}", tokens_text(row.context), time_text(row.time.median),
                    row.share ? fmt::format(", {:.1f}% of the floor", 100 * *row.share) : ""));
  }
  figure.caption =
      "Median of the runs, a line from the slowest to the fastest; both axes logarithmic.";
  figure.description =
      fmt::format("{}: {} designs; the table lists them.", figure.title, figure.series.size());
  return figure;
}

Figure cache_figure(const Bench& bench) {
  Figure figure = over_context("cache", title_of(What::kMemory), "bytes of one sequence's cache");
  for (const Done& done : bench.done) {
    if (done.cell.operation != Operation::kPrompt || !done.measured.bytes) continue;
    FigureSeries& series = series_of(figure, done.cell.design, is_full(done.cell.config));
    series.x.push_back(static_cast<double>(done.cell.tokens));
    series.y.push_back(static_cast<double>(*done.measured.bytes));
    series.label.push_back(fmt::format("{} tokens", tokens_text(done.cell.tokens)));
  }
  figure.caption = "As measured, all layers, float32; both axes logarithmic.";
  figure.description =
      fmt::format("{}: {} designs; the table lists them.", figure.title, figure.series.size());
  return figure;
}

std::vector<Trade> trades_of(const Bench& bench, const std::vector<Row>& rows) {
  std::vector<Trade> trades;
  for (const Accuracy& accuracy : bench.accuracy) {
    Trade trade{.accuracy = accuracy};
    std::int64_t longest = 0, longest_training = 0;
    bool measured = false;
    for (const Done& done : bench.done) {
      if (!is_of(done.cell.design, accuracy.design) || !done.measured.time) continue;
      measured = true;
      trade.control = is_full(done.cell.config);
      if (done.cell.operation != Operation::kPrompt || !done.measured.bytes ||
          done.cell.tokens < longest) {
        continue;
      }
      longest = done.cell.tokens;
      trade.bytes_per_token = static_cast<double>(*done.measured.bytes) /
                              static_cast<double>(done.cell.tokens * done.cell.batch);
    }
    if (!measured) continue;
    for (const Row& row : rows) {
      if (!is_of(row.design, accuracy.design)) continue;
      if (row.what == What::kPrefill && row.context == longest) trade.prefill = row.rate();
      if (row.what == What::kTrain && row.context >= longest_training) {
        longest_training = row.context;
        trade.training = row.rate();
      }
    }
    trades.push_back(std::move(trade));
  }
  return trades;
}

std::vector<Figure> trade_figures(const std::vector<Trade>& trades) {
  std::vector<Figure> figures;
  const auto all_know = [&](std::optional<double> Trade::*field) {
    return std::ranges::all_of(trades, [&](const Trade& t) { return (t.*field).has_value(); });
  };
  std::optional<double> Trade::*const slow = all_know(&Trade::prefill)    ? &Trade::prefill
                                             : all_know(&Trade::training) ? &Trade::training
                                                                          : nullptr;
  Figure by_cache = trade_figure(trades, &Trade::bytes_per_token, slow);
  by_cache.id = "trade-off";
  by_cache.title = "Worst phase against memory and time";
  by_cache.x_title = "cache, bytes per token";
  by_cache.log_x = true;
  by_cache.caption =
      "A mark per design at the mean of its runs' worst residues, a line from the lowest to the "
      "highest. To the left: fewer bytes per token (logarithmic). The table says at which "
      "context. ";
  if (slow != nullptr) {
    by_cache.caption += slow == &Trade::prefill ? "Larger marks: more time per token of a prompt."
                                                : "Larger marks: more time per token of training.";
  }
  by_cache.description =
      fmt::format("{}: {} designs; the table lists them.", by_cache.title, by_cache.series.size());
  if (!by_cache.series.empty()) figures.push_back(std::move(by_cache));
  Figure by_training = trade_figure(trades, &Trade::training, nullptr);
  by_training.id = "trade-off-training";
  by_training.title = "Worst phase against the cost of training";
  by_training.x_title = "training, tokens per second";
  by_training.caption = "The same designs; to the right: faster to train.";
  by_training.description = fmt::format("{}: {} designs; the table lists them.", by_training.title,
                                        by_training.series.size());
  if (!by_training.series.empty()) figures.push_back(std::move(by_training));
  return figures;
}

}  // namespace kvphase::speed
