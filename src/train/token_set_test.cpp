#include "train/token_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "base/error.h"

namespace kvphase::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class TokenSets : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-set-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Ids first, first + 1, ...
  void write(const std::string& name, lm::TokenId first, std::int64_t count,
             std::string_view tokenizer = "mine") {
    std::vector<lm::TokenId> tokens(static_cast<std::size_t>(count));
    std::iota(tokens.begin(), tokens.end(), first);
    TokenShardWriter writer(folder_ / name, 1000, tokenizer);
    writer.append(tokens);
    writer.finish();
  }

  std::string refusal(const std::vector<std::string>& folders, std::int64_t window = 4) {
    try {
      TokenSet(folders, kTrainSplit, window);
    } catch (const base::Error& error) {
      return error.what();
    }
    return "no error";
  }

  fs::path folder_;
};

TEST_F(TokenSets, ReadEveryWindowOfEveryShardOnceAndNoneAcrossTwo) {
  write("train-00000.tokens", 0, 6);
  write("train-00001.tokens", 100, 3);  // shorter than a window
  write("train-00002.tokens", 200, 4);
  write("validation-00000.tokens", 300, 9);
  const std::vector<std::string> folders = {folder_.string()};
  const TokenSet set(folders, kTrainSplit, 4);
  EXPECT_EQ(set.tokens(), 13);
  EXPECT_EQ(set.vocabulary(), 1000);
  ASSERT_EQ(set.windows(), 3 + 0 + 1);
  std::vector<std::int64_t> begins;
  for (std::int64_t index = 0; index < set.windows(); ++index) {
    std::vector<std::int64_t> window(4);
    set.read(index, window);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(window[i], window[0] + static_cast<std::int64_t>(i)) << index;
    }
    begins.push_back(window[0]);
  }
  EXPECT_THAT(begins, ::testing::ElementsAre(0, 1, 2, 200));
  EXPECT_EQ(set.identity().size(), 3U);
  EXPECT_EQ(set.identity()[2].at("file"), "train-00002.tokens");
}

TEST_F(TokenSets, RefuseWhatCannotBeReadAsOne) {
  EXPECT_THAT(refusal({folder_.string()}), HasSubstr("train*.tokens in " + folder_.string()));
  EXPECT_THAT(refusal({(folder_ / "absent").string()}), HasSubstr("kvphase tokens"));
  write("train-00000.tokens", 0, 6);
  EXPECT_EQ(refusal({folder_.string()}), "no error");
  EXPECT_THAT(refusal({folder_.string()}, 7),
              HasSubstr("at least 7 tokens (a sequence and the token after it), got 6"));
  write("train-00001.tokens", 0, 6, "other");
  EXPECT_THAT(refusal({folder_.string()}), HasSubstr("of one tokenizer, got 'mine'"));
}

}  // namespace
}  // namespace kvphase::train
