#include "train/token_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"

namespace kvphase::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class TokenShards : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-shard-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    file_ = folder_ / "a.tokens";
  }
  void TearDown() override { fs::remove_all(folder_); }

  ShardHeader write(std::int64_t vocabulary, const std::vector<lm::TokenId>& tokens) {
    fs::remove(file_);
    TokenShardWriter writer(file_, vocabulary, "mine");
    writer.append(tokens);
    writer.end_document();
    return writer.finish();
  }

  // What opening, reading and verifying the file with these bytes says.
  std::string refusal(const std::string& bytes) {
    base::write_file_atomically(file_, bytes);
    try {
      const TokenShard shard(file_);
      std::vector<std::int64_t> all(static_cast<std::size_t>(shard.header().tokens));
      shard.read(0, all);
      shard.verify();
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(file_.string()));
      return error.what();
    }
    return "no error";
  }

  fs::path folder_, file_;
};

TEST_F(TokenShards, ComeBackEqualAtEitherWidth) {
  for (const std::int64_t vocabulary : {257, 65536, 65537, 151936}) {
    std::vector<lm::TokenId> tokens;
    for (int i = 0; i < 1000; ++i) {
      tokens.push_back(static_cast<lm::TokenId>(i * 7919 % vocabulary));
    }
    tokens.back() = static_cast<lm::TokenId>(vocabulary - 1);
    const ShardHeader written = write(vocabulary, tokens);
    const TokenShard shard(file_);
    EXPECT_EQ(shard.header().bytes_per_id, vocabulary <= 65536 ? 2 : 4) << vocabulary;
    EXPECT_EQ(shard.header().vocabulary, vocabulary);
    EXPECT_EQ(shard.header().tokens, 1000);
    EXPECT_EQ(shard.header().documents, 1);
    EXPECT_EQ(shard.header().tokenizer, "mine");
    EXPECT_EQ(shard.header().sha256, written.sha256);
    std::vector<std::int64_t> some(300);
    shard.read(700, some);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), tokens.begin() + 700)) << vocabulary;
    EXPECT_NO_THROW(shard.verify());
  }
}

TEST_F(TokenShards, HaveTheBytesOfTheFormat) {
  write(65537, {1, 65536});
  const std::string bytes = base::read_file(file_);
  ASSERT_EQ(bytes.size(), 128U + 8U);
  EXPECT_EQ(bytes.substr(0, 16), std::string("KVTOKENS\1\0\0\0\4\0\0\0", 16));
  EXPECT_EQ(bytes.substr(16, 24),
            std::string("\1\0\1\0\0\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 24));
  EXPECT_EQ(bytes.substr(72, 5), std::string("mine\0", 5));
  EXPECT_EQ(bytes.substr(128), std::string("\1\0\0\0\0\0\1\0", 8));
  // SHA-256 of these eight bytes.
  EXPECT_EQ(TokenShard(file_).header().sha256, base::sha256_hex(bytes.substr(128)));
}

TEST_F(TokenShards, DamagedFilesAreNamedWithWhatIsWrong) {
  write(300, {1, 2, 299});
  const std::string good = base::read_file(file_);
  EXPECT_EQ(refusal(good), "no error");
  const auto with = [&](std::size_t place, char byte) {
    std::string bytes = good;
    bytes[place] = byte;
    return refusal(bytes);
  };
  EXPECT_THAT(refusal(""), HasSubstr("got 0 bytes"));
  EXPECT_THAT(refusal(good.substr(0, 100)), HasSubstr("got 100 bytes"));
  EXPECT_THAT(with(0, 'X'), HasSubstr("another kind of file"));
  EXPECT_THAT(with(8, 2), HasSubstr("version 1 of the format, got 2"));
  EXPECT_THAT(with(12, 3), HasSubstr("2 or 4 bytes per id, got 3"));
  EXPECT_THAT(with(18, 1), HasSubstr("a vocabulary of 1 to 65536, got 65836"));
  EXPECT_THAT(with(31, -1), HasSubstr("a number of ids of 0"));
  EXPECT_THAT(with(32, 9), HasSubstr("a number of documents of 0 to 3, got 9"));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)),
              HasSubstr("134 bytes for 3 ids, got 133; the file was cut off"));
  EXPECT_THAT(refusal(good + "x"), HasSubstr("added to"));
  EXPECT_THAT(with(133, 2), HasSubstr("ids below 300 (its vocabulary), got 555 at 2"));
  EXPECT_THAT(with(128, 2), HasSubstr("SHA-256"));
}

TEST_F(TokenShards, AreWrittenOnceAndWithinTheVocabulary) {
  write(300, {1});
  EXPECT_THROW(TokenShardWriter(file_, 300, "mine"), base::Error);
  TokenShardWriter writer(folder_ / "b.tokens", 300, "mine");
  EXPECT_THROW(writer.append(std::vector<lm::TokenId>{300}), base::Error);
  EXPECT_THROW(writer.append(std::vector<lm::TokenId>{-1}), base::Error);
}

TEST_F(TokenShards, AnUnfinishedOneIsNone) {
  {
    TokenShardWriter writer(file_, 300, "mine");
    writer.append(std::vector<lm::TokenId>(5000, 1));
  }
  EXPECT_THROW(TokenShard{file_}, base::Error);
}

}  // namespace
}  // namespace kvphase::train
