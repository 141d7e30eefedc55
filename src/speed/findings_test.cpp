#include "speed/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/presets.h"
#include "speed/bytes.h"

namespace kvphase::speed {
namespace {

using record::Figure;
using record::FindingsTable;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

BenchOptions options() {
  BenchOptions options{.contexts = {1024}, .what = {What::kPrefill, What::kMemory}};
  for (const char* name : {"full-1kv", "w4s4-1kv"}) {
    options.designs.push_back({name, model::preset(std::string("small/") + name)});
  }
  return options;
}

Bench example() {
  Bench bench{.machine = {.processor = "P", .cores = 2}, .threads = 1};
  bench.rates = {{.flops = 1e9, .flops_how = "mm", .read_bytes = 1e9}};
  double seconds = 2;
  for (const NamedDesign& design : options().designs) {
    bench.done.push_back({.cell = {.operation = Operation::kPrompt,
                                   .design = design.name,
                                   .config = design.config,
                                   .tokens = 1024},
                          .measured = {.time = spread_of({seconds, seconds * 1.5}),
                                       .resident_before = 200'000'000,
                                       .resident_peak = 203'000'000,
                                       .bytes = cache_bytes(design.config, 1024)}});
    seconds /= 4;
  }
  return bench;
}

const FindingsTable& table(const record::Findings& f, const std::string& title) {
  return *std::ranges::find(f.tables, title, &FindingsTable::title);
}

// Figures over the context need two of them, even if one was left out.
BenchOptions at_two_contexts() {
  BenchOptions two = options();
  two.contexts = {1024, 2048};
  return two;
}

TEST(BenchFindings, SayWhatWasMeasuredBesideItsFloor) {
  const record::Findings f = findings_of(example(), at_two_contexts(), {});
  EXPECT_EQ(f.kind, "bench");
  EXPECT_EQ(f.sentence, "w4s4-1kv prefills at 4.00 times the tokens/s of full-1kv at 1K tokens.");
  EXPECT_THAT(f.context.warnings, IsEmpty());
  const FindingsTable& prefill = table(f, "Prefill");
  EXPECT_THAT(prefill.rows.at(1),
              ElementsAre("w4s4-1kv", "1K", "1638", "1365 to 2048", "625.00 ms", "0.18",
                          "113.63 ms", "18.2", "4.00", "3.0 MB", "203.0 MB"));
  const FindingsTable& cache = table(f, "Cache");
  EXPECT_THAT(cache.rows.at(1), ElementsAre("w4s4-1kv", "1K", "69632", "69632", "yes", "68.0",
                                            "3.79", "416.3 kB", "69.6 kB"));
  EXPECT_THAT(findings_of(example(), options(), {}).figures, IsEmpty()) << "of one context";
  ASSERT_EQ(f.figures.size(), 2U);
  EXPECT_TRUE(f.figures[0].log_x && f.figures[0].log_y && f.figures[0].named);
  EXPECT_EQ(f.figures[0].series.at(0).role, "control");
  EXPECT_EQ(f.figures[0].series.at(1).role, "model");
  const base::Json json = record::to_json(f);
  EXPECT_EQ(record::to_json(record::findings_from_json(json, "bench", "test")).dump(), json.dump());
}

TEST(BenchFindings, NameEveryCellThatWasLeftOutAndWhy) {
  Bench bench = example();
  bench.left_out.push_back({.cell = bench.done[0].cell, .reason = "too long", .estimate = 250});
  const record::Findings f = findings_of(bench, options(), {});
  EXPECT_THAT(f.sentence, HasSubstr("1 of 3 cells left out."));
  EXPECT_THAT(table(f, "Left out").rows,
              ElementsAre(ElementsAre("prompt", "full-1kv", "1K", "250 s", "too long")));
}

TEST(BenchFindings, WarnOfACacheThatIsNotAsTheFormulaSaysAndOfUnsteadyRates) {
  Bench bench = example();
  *bench.done[1].measured.bytes += 4;
  bench.rates.push_back({.flops = 5e8, .read_bytes = 1e9});
  bench.done[0].measured.time = spread_of({1, 4});
  const record::Findings f = findings_of(bench, options(), {});
  ASSERT_EQ(f.context.warnings.size(), 3U);
  EXPECT_THAT(f.context.warnings[0], HasSubstr("matrix products was 1.0 before"));
  EXPECT_THAT(f.context.warnings[1],
              HasSubstr("w4s4-1kv holds 69636 bytes at 1024 tokens, the formula says 69632"));
  EXPECT_THAT(f.context.warnings[2], HasSubstr("prefill of full-1kv at 1K"));
  EXPECT_EQ(table(f, "Cache").rows.at(1).at(4), "NO");
}

TEST(BenchFindings, JoinAuditsWithTheirDesignsCosts) {
  Bench bench = example();
  bench.done[1].cell.design = "small/w4s4-1kv";
  bench.accuracy = {{.design = "full-1kv", .runs = 1, .worst = 1, .low = 1, .high = 1},
                    {.design = "w4s4-1kv", .runs = 2, .worst = 0.25, .low = 0.2, .high = 0.3},
                    {.design = "w8s8-1kv", .runs = 1, .worst = 0.5, .low = 0.5, .high = 0.5}};
  const record::Findings f = findings_of(bench, options(), {});
  const FindingsTable& trade = table(f, "Accuracy, memory and time");
  EXPECT_THAT(trade.rows.at(1),
              ElementsAre("w4s4-1kv", "2", "25.0%", "20.0 to 30.0", "68.0", "1638", "-"));
  EXPECT_EQ(trade.rows.size(), 2U);
  EXPECT_THAT(trade.note, HasSubstr("Audited but not measured here: w8s8-1kv."));
  const Figure& figure = f.figures.back();
  EXPECT_EQ(figure.id, "trade-off");
  ASSERT_EQ(figure.series.size(), 2U);
  EXPECT_EQ(figure.series[1].x, std::vector<double>{68});
  EXPECT_EQ(figure.series[1].y.at(0), 25);
  EXPECT_GT(figure.series[0].size.at(0), figure.series[1].size.at(0));  // slower, so larger
}

TEST(BenchFindings, SpeakInReadableUnits) {
  EXPECT_EQ(tokens_text(300), "300");
  EXPECT_EQ(tokens_text(16384), "16K");
  EXPECT_EQ(tokens_text(1536), "1536");
  EXPECT_EQ(time_text(0.00007), "70.0 us");
  EXPECT_EQ(time_text(0.5), "500.00 ms");
  EXPECT_EQ(time_text(123.4), "123 s");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1.5e9), "1.50 GB");
}

}  // namespace
}  // namespace kvphase::speed
