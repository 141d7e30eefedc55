#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "base/error.h"

namespace kvphase::base {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-files-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(Files, AtomicWriteReplacesAndLeavesNoTemporary) {
  write_file_atomically(folder_ / "a", "one");
  write_file_atomically(folder_ / "a", "two");
  EXPECT_EQ(read_file(folder_ / "a"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(Files, AppenderCutsATornLastLine) {
  write_file_atomically(folder_ / "log", "first\nsecond\ntor");
  {
    LineAppender log(folder_ / "log");
    log.append("third");
  }
  EXPECT_EQ(read_file(folder_ / "log"), "first\nsecond\nthird\n");
}

TEST_F(Files, AppenderCutsATornOnlyLineLongerThanABlock) {
  write_file_atomically(folder_ / "log", std::string(200000, 'x'));
  { LineAppender log(folder_ / "log"); }
  EXPECT_EQ(read_file(folder_ / "log"), "");
}

TEST_F(Files, AppenderGoesBackToAnEarlierSize) {
  {
    LineAppender log(folder_ / "log");
    log.append("first");
    log.sync();
    const std::int64_t early = log.size();
    EXPECT_EQ(early, 6);
    log.append("second");
    log.sync();
    log.truncate(early);
    log.append("third");
  }
  EXPECT_EQ(read_file(folder_ / "log"), "first\nthird\n");
  LineAppender log(folder_ / "log");
  EXPECT_EQ(log.size(), 12);
  log.truncate(100);
  EXPECT_EQ(read_file(folder_ / "log"), "first\nthird\n");
}

// As a full disk: writes past the limit take a part or fail.
TEST_F(Files, AppendingToAFullDiskKeepsWholeLinesOnlyAndWorksAgainWhenThereIsRoom) {
  LineAppender log(folder_ / "log");
  log.append("first");
  log.sync();
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 10;  // the second line fits in part
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  log.append("the second line");
  EXPECT_THROW(log.sync(), Error);
  EXPECT_EQ(read_file(folder_ / "log"), "first\n");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  log.append("third");
  log.sync();
  EXPECT_EQ(read_file(folder_ / "log"), "first\nthird\n");
}

TEST_F(Files, SecondAppenderIsRefused) {
  LineAppender log(folder_ / "log");
  EXPECT_THROW(LineAppender(folder_ / "log"), Error);
}

TEST_F(Files, ExistingRunFolderIsRefused) {
  create_new_folder(folder_ / "a" / "b", "run");
  EXPECT_THROW(create_new_folder(folder_ / "a" / "b", "run"), Error);
}

TEST_F(Files, PublishedFolderHasItsFilesAndReplacesNoOther) {
  create_new_folder(folder_ / "a.part", "run");
  write_file_atomically(folder_ / "a.part" / "x", "one");
  publish_folder(folder_ / "a.part", folder_ / "a");
  EXPECT_EQ(read_file(folder_ / "a" / "x"), "one");
  EXPECT_FALSE(fs::exists(folder_ / "a.part"));
  create_new_folder(folder_ / "a.part", "run");
  EXPECT_THROW(publish_folder(folder_ / "a.part", folder_ / "a"), Error);
  EXPECT_EQ(read_file(folder_ / "a" / "x"), "one");
}

TEST_F(Files, ANewFolderAppearsWholeOrNotAtAll) {
  {
    NewFolder lost(folder_ / "out", "run");
    write_file_atomically(lost.part() / "x", "one");
  }
  EXPECT_TRUE(fs::is_empty(folder_));
  {
    NewFolder kept(folder_ / "deep" / "out" / "", "run");
    write_file_atomically(kept.part() / "x", "one");
    EXPECT_FALSE(fs::exists(folder_ / "deep" / "out"));
    kept.publish();
  }
  EXPECT_EQ(read_file(folder_ / "deep" / "out" / "x"), "one");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "deep"), fs::directory_iterator()), 1);
  EXPECT_THROW(NewFolder(folder_ / "deep" / "out", "run"), Error);
  // What a kill leaves: nobody is there to remove it.
  create_new_folder(folder_ / "again.part", "run");
  try {
    NewFolder again(folder_ / "again", "run");
    ADD_FAILURE() << "taken over from whoever may still write it";
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("again.part to be free, got: it exists; it is what a killed command left"),
              std::string::npos)
        << what;
  }
  EXPECT_TRUE(fs::exists(folder_ / "again.part"));
  EXPECT_EQ(read_file(folder_ / "deep" / "out" / "x"), "one") << "not ours to remove";
}

TEST_F(Files, AWriteThatFailsLeavesTheOldFileAndNoPart) {
  write_file_atomically(folder_ / "a", "old");
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(write_file_atomically(folder_ / "a", std::string(100, 'x')), Error);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(Files, ReadingAFolderOrNothingIsAUsageError) {
  EXPECT_THROW(read_file(folder_), Error);
  EXPECT_THROW(read_file(folder_ / "absent"), Error);
}

}  // namespace
}  // namespace kvphase::base
