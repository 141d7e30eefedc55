#include "train/text_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "lm/byte_tokens.h"
#include "train/token_set.h"

namespace kvphase::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class TextShards : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-text-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    fs::create_directories(folder_ / "in" / "deep");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string input(const std::string& name, const std::string& text) {
    base::write_file_atomically(folder_ / "in" / name, text);
    return (folder_ / "in" / name).string();
  }

  // All shards of a split, in their order, as text.
  std::string text_of(const std::string& split) const {
    std::string text;
    for (int n = 0; fs::exists(shard(split, n)); ++n) {
      const TokenShard file(shard(split, n));
      EXPECT_NO_THROW(file.verify());
      std::vector<std::int64_t> ids(static_cast<std::size_t>(file.header().tokens));
      file.read(0, ids);
      text += lm::byte_text(std::vector<lm::TokenId>(ids.begin(), ids.end()));
    }
    return text;
  }
  fs::path shard(const std::string& split, int n) const {
    return folder_ / "out" / fmt::format("{}-{:05}.tokens", split, n);
  }

  TextShardSummary make(TextShardOptions options) {
    fs::remove_all(folder_ / "out");
    return make_text_shards(options, folder_ / "out", nullptr);
  }
  std::string refusal(TextShardOptions options) {
    try {
      make(std::move(options));
    } catch (const base::Error& error) {
      EXPECT_FALSE(fs::exists(folder_ / "out"));
      return error.what();
    }
    return "no error";
  }

  fs::path folder_;
};

TEST_F(TextShards, HoldEveryDocumentOnceInOrderAndSplitByItAlone) {
  std::string all;
  for (int i = 0; i < 60; ++i) {
    input(fmt::format("deep/{:02}.txt", i), fmt::format("text {};", i));
  }
  input("deep/empty.txt", "");
  input("deep/binary.bin", "no");
  const TextShardOptions options{
      .inputs = {(folder_ / "in").string()}, .extensions = {"txt"}, .validation = 0.3};
  const TextShardSummary summary = make(options);
  EXPECT_EQ(summary.files, 61);
  EXPECT_EQ(summary.train.documents + summary.validation.documents, 60);
  EXPECT_GT(summary.validation.documents, 5);
  EXPECT_GT(summary.train.documents, 25);
  const std::string train = text_of("train"), validation = text_of("validation");
  std::string expected_train, expected_validation;
  for (int i = 0; i < 60; ++i) {
    const std::string document = fmt::format("text {};<end>", i);
    const bool held_out = validation.find(document) != std::string::npos;
    (held_out ? expected_validation : expected_train) += document;
  }
  EXPECT_EQ(train, expected_train);
  EXPECT_EQ(validation, expected_validation);

  // Another document behind them changes none of them.
  input("deep/99.txt", "last");
  make(options);
  EXPECT_EQ((text_of("train") + "|" + text_of("validation")).find("last<end>") != std::string::npos,
            true);
  EXPECT_TRUE(text_of("train").starts_with(train));
  EXPECT_TRUE(text_of("validation").starts_with(validation));

  const auto about = base::parse_json(base::read_file(folder_ / "out" / "text.json"), "text.json");
  EXPECT_EQ(about.at("files"), 62);
  std::istringstream sources(base::read_file(folder_ / "out" / "sources.jsonl"));
  int lines = 0;
  for (std::string line; std::getline(sources, line); ++lines) {
    EXPECT_EQ(base::parse_json(line, "sources").at("sha256").get<std::string>().size(), 64U);
  }
  EXPECT_EQ(lines, 62);
}

TEST_F(TextShards, CutStandardInputAtLinesOrZeroBytes) {
  std::istringstream lines("one\n\ntwo\nthree\nfour\nno newline");
  make({.inputs = {"-"},
        .standard_input = &lines,
        .documents = DocumentsAre::kLines,
        .validation = 0.5});
  const std::string got = text_of("train") + text_of("validation");
  for (const char* line : {"one", "two", "three", "four", "no newline"}) {
    EXPECT_THAT(got, HasSubstr(std::string(line) + "<end>"));
  }
  EXPECT_EQ(got.size(), std::string("onetwothreefourno newline").size() + 5 * 5);
  std::istringstream zeros(std::string("a\nb\0c\0d\0\0e\0f\0g", 15));
  make({.inputs = {"-"},
        .standard_input = &zeros,
        .documents = DocumentsAre::kNulTerminated,
        .validation = 0.5});
  EXPECT_THAT(text_of("train") + text_of("validation"), HasSubstr("a\nb<end>"));
}

TEST_F(TextShards, JoinDocumentsAcrossBlocksAndBeginAShardWhenOneIsFull) {
  const std::string text((1 << 20) + 7, 'x');
  std::vector<std::string> inputs = {input("a", text), input("b", "b"), input("c", text)};
  for (int i = 0; i < 20; ++i) inputs.push_back(input(fmt::format("d{}", i), "d"));
  const TextShardSummary summary =
      make({.inputs = inputs, .validation = 0.2, .shard_tokens = 1000});
  const std::string got = text_of("train") + text_of("validation");
  EXPECT_THAT(got.substr(0, text.size() + 10), HasSubstr(text + "<end>"));
  EXPECT_EQ(summary.train.tokens + summary.validation.tokens,
            2 * std::ssize(text) + 1 + 20 + summary.files);
  EXPECT_GE(summary.train.sha256.size() + summary.validation.sha256.size(), 3U);
}

TEST_F(TextShards, AreTheSameBytesFromTheSameInputs) {
  std::vector<std::string> inputs;
  for (int i = 0; i < 30; ++i)
    inputs.push_back(input(fmt::format("f{}", i), fmt::format("t{}", i)));
  const TextShardOptions options{.inputs = inputs, .validation = 0.3};
  const auto first = make(options), second = make(options);
  EXPECT_EQ(first.train.sha256, second.train.sha256);
  EXPECT_EQ(first.validation.sha256, second.validation.sha256);
  EXPECT_NE(make({.inputs = inputs, .validation = 0.3, .seed = 2}).train.sha256,
            first.train.sha256);
}

TEST_F(TextShards, RefuseWhatMakesNoTrainingData) {
  const std::string one = input("one", "text");
  EXPECT_THAT(refusal({}), HasSubstr("got none"));
  EXPECT_THAT(refusal({.inputs = {one}}), HasSubstr("and for validation, got 1 and 0"));
  EXPECT_THAT(refusal({.inputs = {one}, .validation = 0}), HasSubstr("above 0 and below 1, got 0"));
  EXPECT_THAT(refusal({.inputs = {one + "x"}}), HasSubstr("readable file"));
  EXPECT_THAT(refusal({.inputs = {(folder_ / "in").string()}, .extensions = {"md"}}),
              HasSubstr("files .md in the folder"));
  fs::create_directory(folder_ / "taken");
  EXPECT_THROW(make_text_shards({.inputs = {one}}, folder_ / "taken", nullptr), base::Error);
}

}  // namespace
}  // namespace kvphase::train
