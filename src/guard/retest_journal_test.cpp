#include "guard/retest_journal.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <fstream>

#include "base/error.h"

namespace kvphase::guard {
namespace {

using ::testing::HasSubstr;

class Journal : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "kvphase-retest-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    folder_ = root_ / "run";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string refused(const base::Json& manifest, bool resume) const {
    try {
      const RetestJournal journal(folder_, manifest, resume, 4);
    } catch (const base::Error& error) {
      return error.what();
    }
    return "not refused";
  }
  std::filesystem::path root_, folder_;
};

TEST_F(Journal, RepliesAreFoundAgainAndATornLineIsNone) {
  {
    RetestJournal journal(folder_, {{"a", 1}}, false, 4);
    EXPECT_TRUE(journal.known().empty());
    journal.keep({.offset = 2, .repeat = 1, .answer = "x \"y\"\n", .cut = true});
    journal.keep({.offset = 3, .missing = "timeout"});
    journal.keep({.offset = 0, .missing = "empty"});
  }
  std::ofstream(folder_ / "journal.jsonl", std::ios::app) << R"({"offset": 1, "rep)";
  RetestJournal journal(folder_, {{"a", 1}}, true, 4);
  ASSERT_EQ(journal.known().size(), 3U);
  EXPECT_EQ(journal.known()[0].answer, "x \"y\"\n");
  EXPECT_TRUE(journal.known()[0].cut);
  EXPECT_EQ(journal.known()[1].missing, "timeout");
  journal.forget_missing([](const std::string& missing) { return missing == "timeout"; });
  EXPECT_EQ(journal.known().size(), 2U);
  journal.keep({.offset = 3, .answer = "now"});
}

TEST_F(Journal, ALaterReplyOfATrialReplacesTheMissingOne) {
  {
    RetestJournal journal(folder_, {{"a", 1}}, false, 4);
    journal.keep({.offset = 3, .missing = "timeout"});
    journal.keep({.offset = 3, .answer = "now"});
  }
  const RetestJournal journal(folder_, {{"a", 1}}, true, 4);
  ASSERT_EQ(journal.known().size(), 1U);
  EXPECT_EQ(journal.known()[0].answer, "now");
}

TEST_F(Journal, AnotherConfigurationAndAnExistingFolderAreRefused) {
  { const RetestJournal journal(folder_, {{"a", 1}, {"b", 2}}, false, 4); }
  EXPECT_THAT(refused({{"a", 1}, {"b", 3}}, true), HasSubstr("b differs"));
  EXPECT_THAT(refused({{"a", 1}, {"b", 2}}, false), HasSubstr("new"));
  std::ofstream(folder_ / "journal.jsonl")
      << R"({"offset":4,"repeat":0,"answer":"","missing":"","cut":false})"
      << "\n";
  EXPECT_THAT(refused({{"a", 1}, {"b", 2}}, true), HasSubstr("journal.jsonl:1"));
}

}  // namespace
}  // namespace kvphase::guard
