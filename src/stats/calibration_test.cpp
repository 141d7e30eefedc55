#include "stats/calibration.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/error.h"

namespace kvphase::stats {
namespace {

// The full study is a command; here every setting runs a few times, so that a broken method shows.
const CalibrationResult& small_study() {
  static const CalibrationResult result = run_calibration({.null_runs = 6,
                                                           .coverage_runs = 30,
                                                           .power_runs = 4,
                                                           .permutations = 399,
                                                           .replicates = 99});
  return result;
}

TEST(Calibration, FalseAlarmsStayRareInEverySetting) {
  std::int64_t alarms = 0;
  std::int64_t runs = 0;
  for (const auto& row : small_study().rows) {
    if (row.kind != CalibrationKind::kFalseAlarm) continue;
    const auto hits =
        static_cast<std::int64_t>(*row.rate.value * static_cast<double>(row.rate.n) + 0.5);
    EXPECT_LE(hits, 3) << row.setting << " of " << row.rate.n;  // P(> 3 of 6 at 0.06) < 2e-4
    alarms += hits;
    runs += row.rate.n;
  }
  std::printf("%lld false alarms in %lld runs\n", static_cast<long long>(alarms),
              static_cast<long long>(runs));
  EXPECT_LE(static_cast<double>(alarms), 0.06 * static_cast<double>(runs) + 10);
}

TEST(Calibration, StrongPeriodsAreFoundAndIntervalsMostlyCover) {
  for (const auto& row : small_study().rows) {
    if (row.kind == CalibrationKind::kPower && row.at_least) {
      EXPECT_GE(*row.rate.value, 0.5) << row.setting;
    }
    if (row.kind == CalibrationKind::kCoverage && !row.question.ends_with("the gap")) {
      EXPECT_GE(*row.rate.value, 0.7) << row.setting;
    }
    if (row.setting.ends_with("(the gap is 0)") && row.question.ends_with("the gap")) {
      EXPECT_GE(*row.rate.value, 0.7) << "the gap's interval must hold where phases tie";
    }
  }
}

TEST(Calibration, IsReproducibleAndWritesItsTables) {
  const CalibrationOptions tiny{
      .null_runs = 1, .coverage_runs = 1, .power_runs = 1, .permutations = 19, .replicates = 20};
  auto a = to_json(run_calibration(tiny));
  auto b = to_json(run_calibration(tiny));
  a.erase("seconds");
  b.erase("seconds");
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.at("rows").size(), small_study().rows.size());
  EXPECT_NE(to_markdown(small_study()).find("| 20 items | a period was named | 6 |"),
            std::string::npos);
  EXPECT_THROW(run_calibration({.null_runs = 0}), base::Error);
}

}  // namespace
}  // namespace kvphase::stats
