#include "report/write.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "tests/support/example_result.h"

namespace kvphase::report {
namespace {

namespace fs = std::filesystem;

class Write : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-write-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(Write, LeavesExactlyThePromisedFilesAndTheRecordReadsBack) {
  const record::Result result = test::example_result();
  write_report(folder_ / "model", result, test::example_control());
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / "model")) {
    names.insert(entry.path().filename().string());
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"report.html", "report.txt", "residues.csv", "result.json"}));
  const std::string text = base::read_file(folder_ / "model" / "result.json");
  const base::Json json = base::parse_json(text, "result.json");
  EXPECT_EQ(record::to_json(record::result_from_json(json, "result.json")),
            record::to_json(result));
  EXPECT_TRUE(text.ends_with("}\n"));
}

TEST_F(Write, WritesTheSameBytesTwice) {
  write_report(folder_ / "a", test::example_result());
  write_report(folder_ / "b", test::example_result());
  for (const auto& entry : fs::directory_iterator(folder_ / "a")) {
    EXPECT_EQ(base::read_file(entry.path()),
              base::read_file(folder_ / "b" / entry.path().filename()))
        << entry.path();
  }
}

TEST_F(Write, RefusesAFolderThatCannotBe) {
  base::write_file_atomically(folder_ / "file", "x");
  EXPECT_THROW(write_report(folder_ / "file" / "below", test::example_result()), base::Error);
}

TEST_F(Write, BytesThatAreNotUtf8AreReplacedInJson) {
  record::Result result = test::example_result();
  result.title = "bad \xFF byte";
  EXPECT_NE(result_json(result).find("bad \xEF\xBF\xBD byte"), std::string::npos);
}

}  // namespace
}  // namespace kvphase::report
