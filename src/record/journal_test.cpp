#include "record/journal.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace kvphase::record {
namespace {

namespace fs = std::filesystem;

class Journal : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-journal-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ / "journal.jsonl";
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
  fs::path path_;
};

Observation with_item(std::int64_t item) {
  Observation observation;
  observation.item = item;
  return observation;
}

TEST_F(Journal, ReadsBackWhatWasAppendedAcrossSessions) {
  JournalWriter(path_).append(with_item(1));
  JournalWriter(path_).append(with_item(2));
  const auto read = read_journal(path_);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].item, 1);
  EXPECT_EQ(read[1].item, 2);
}

TEST_F(Journal, IgnoresATornLastLineOnly) {
  const std::string line = format_observation(with_item(1));
  base::write_file_atomically(path_, line + "\n" + line.substr(0, line.size() / 2));
  EXPECT_EQ(read_journal(path_).size(), 1U);
  base::write_file_atomically(path_, line.substr(0, line.size() / 2) + "\n" + line + "\n");
  EXPECT_THROW(read_journal(path_), base::Error);
}

}  // namespace
}  // namespace kvphase::record
