#include "base/memory_map.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"

namespace kvphase::base {
namespace {

namespace fs = std::filesystem;

class MemoryMapOf : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-map-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(MemoryMapOf, AFileHoldsItsBytesAlsoAfterAMove) {
  const std::string content = std::string(10'000, 'x') + std::string("\0end", 4);
  write_file_atomically(folder_ / "file", content);
  MemoryMap map(folder_ / "file");
  EXPECT_TRUE(map.bytes() == content);
  const MemoryMap moved = std::move(map);
  EXPECT_TRUE(moved.bytes() == content);
}

TEST_F(MemoryMapOf, AnEmptyFileIsEmpty) {
  write_file_atomically(folder_ / "empty", "");
  EXPECT_TRUE(MemoryMap(folder_ / "empty").bytes().empty());
}

TEST_F(MemoryMapOf, WhatIsNoFileIsRefused) {
  EXPECT_THROW(MemoryMap(folder_ / "absent"), Error);
  EXPECT_THROW(MemoryMap{folder_}, Error);
  EXPECT_THROW(MemoryMap("/dev/zero"), Error);
}

}  // namespace
}  // namespace kvphase::base
