#include "train/gate_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"

namespace kvphase::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class GateTraceFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-trace-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& text) const {
    base::write_file_atomically(folder_ / kGateTrace, text);
  }
  std::string refusal() const {
    try {
      read_gate_trace(folder_);
    } catch (const base::Error& error) {
      return error.what();
    }
    return "accepted";
  }
  static std::string line(std::int64_t step, std::int64_t head) {
    return to_line(
               GateTraceRow{.step = step,
                            .head = head,
                            .of_values = head == 1,
                            .measures = {.fixed = 1.5, .per_window = 1.25, .profile = {2, 0}}}) +
           "\n";
  }
  static std::string first_line() {
    return to_line(GateTraceText{.source = "made up", .sequences = 4, .tokens = 9, .interval = 5}) +
           "\n";
  }

  fs::path folder_;
};

TEST_F(GateTraceFile, IsReadAsItWasWrittenWithoutATornLine) {
  EXPECT_FALSE(read_gate_trace(folder_).has_value());
  write(first_line() + line(0, 0) + line(0, 1) + line(5, 0) + line(5, 1) + "{\"step\":10,");
  const auto trace = read_gate_trace(folder_);
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(trace->text.source, "made up");
  EXPECT_EQ(trace->text.interval, 5);
  EXPECT_THAT(trace->warning, HasSubstr("gates.jsonl: an incomplete last line (6) is left out"));
  ASSERT_EQ(trace->rows.size(), 4U);
  EXPECT_EQ(trace->rows[3].step, 5);
  EXPECT_TRUE(trace->rows[3].of_values);
  EXPECT_EQ(trace->rows[3].measures.fixed, 1.5);
  EXPECT_EQ(trace->rows[3].measures.per_window, 1.25);
  EXPECT_THAT(trace->rows[3].measures.profile, ::testing::ElementsAre(2, 0));
}

TEST_F(GateTraceFile, OfAKilledTrainingLosesItsLastStepWithAWarningWhereverItEnds) {
  const std::string whole = first_line() + line(0, 0) + line(0, 1) + line(5, 0) + line(5, 1);
  const std::string last = line(10, 0) + line(10, 1);
  for (std::size_t bytes = 0; bytes <= last.size(); ++bytes) {
    write(whole + last.substr(0, bytes));
    const auto trace = read_gate_trace(folder_);
    const bool all = bytes == last.size();
    ASSERT_EQ(trace->rows.size(), all ? 6U : 4U) << bytes;
    EXPECT_EQ(trace->warning.empty(), all || bytes == 0) << bytes << ": " << trace->warning;
    EXPECT_EQ(trace->rows.back().step, all ? 10 : 5) << bytes;
  }
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{20}}) {
    write(first_line().substr(0, bytes));
    const auto trace = read_gate_trace(folder_);
    EXPECT_TRUE(trace->rows.empty());
    EXPECT_THAT(trace->warning, HasSubstr("gates.jsonl has no whole line"));
  }
}

TEST_F(GateTraceFile, StepsThatLackAGateComeTwiceOrFallAreRefused) {
  const std::vector<std::pair<std::string, int>> cases = {
      {line(0, 0) + line(0, 1) + line(5, 0) + line(10, 0) + line(10, 1), 5},
      {line(0, 0) + line(0, 1) + line(5, 0) + line(5, 0), 5},
      {line(5, 0) + line(0, 0), 3},
      {line(0, 0) + line(0, 1) + line(5, 0) + line(10, 1), 5}};
  for (const auto& [rows, at] : cases) {
    write(first_line() + rows);
    EXPECT_THAT(refusal(),
                HasSubstr(fmt::format("gates.jsonl:{}] expected the same gates at every step", at)))
        << rows;
  }
  write(line(0, 0));
  EXPECT_THAT(refusal(), HasSubstr("gates.jsonl:1"));
  write(first_line() + "nonsense\n");
  EXPECT_THAT(refusal(), HasSubstr("gates.jsonl:2"));
}

}  // namespace
}  // namespace kvphase::train
