#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "record/import.h"
#include "record/journal.h"

namespace kvphase::record {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ImportJournal : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-import-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  Dataset read(const std::string& text, const ImportOptions& options = {}) {
    base::write_file_atomically(folder_ / "journal.jsonl", text);
    return std::move(import_results(folder_, options).at(0));
  }
  fs::path folder_;
};

Observation random_observation(base::Random& random, std::int64_t item, std::int64_t residue) {
  static const std::vector<std::string> words = {"v3", "", "a \"quote\"", "back\\slash",
                                                 "\xC3\xA9\t"};
  Observation o;
  o.item = item;
  o.residue = residue;
  o.target_position = 24 * static_cast<std::int64_t>(random.uniform_index(4)) + residue;
  o.query_position = 200;
  o.length = 201;
  o.expected = words[random.uniform_index(words.size())];
  o.answer = words[random.uniform_index(words.size())];
  o.reply_class = "exact";
  if (random.uniform() < 0.9) o.correct = random.uniform() < 0.5;
  if (random.uniform() < 0.8) o.logprob = -random.uniform() * 1e3;
  if (random.uniform() < 0.8) o.margin = random.normal() * 1e-3;
  return o;
}

// Every way to write a number, among them the middles between two floats and their neighbours,
// where a double that is wrong in its last bit would be rounded to the wrong float.
TEST_F(ImportJournal, NumbersAreReadAsTheNearestDoubleRoundedToAFloat) {
  base::Random random(11);
  std::vector<std::string> texts = {
      "0",     "-0.0",     "1e-5", "-1.5E+3",          "123456789012345678901", "4e-46",
      "1e-30", "16777217", "0.1",  "1234567812345678", "87654321.12345678"};
  while (texts.size() < 6000) {
    const auto low = static_cast<float>(random.normal() * std::pow(10, 12 * random.uniform() - 6));
    const float high = std::nextafter(low, 1e30F);
    const double middle = (static_cast<double>(low) + static_cast<double>(high)) / 2;
    texts.push_back(fmt::format("{:.17g}", random.normal()));
    texts.push_back(fmt::format("{}", low));
    texts.push_back(fmt::format("{:.17g}", middle));
    texts.push_back(fmt::format("{:.18f}", std::nextafter(middle, 0.0)));
    texts.push_back(fmt::format("{:.17e}", std::nextafter(middle, 1e30)));
    texts.push_back(fmt::format("{:.40g}", middle));
  }
  std::string text;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    text += fmt::format(
        R"({{"item":{},"residue":{},"target_position":{},"query_position":9,"length":9,)"
        R"("expected":"a","answer":"a","class":"exact","correct":true,"logprob":{},"margin":{}}})"
        "\n",
        i / 24, i % 24, i % 24, texts[i], texts[texts.size() - 1 - i]);
  }
  const ScoreRows rows = *read(text).rows;
  ASSERT_EQ(rows.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto wanted = [](const std::string& number) {
      return static_cast<float>(std::strtod(number.c_str(), nullptr));
    };
    ASSERT_EQ(rows.logprob[i], wanted(texts[i])) << texts[i];
    ASSERT_EQ(rows.margin[i], wanted(texts[texts.size() - 1 - i])) << texts[texts.size() - 1 - i];
  }
}

TEST_F(ImportJournal, AgreesWithTheStrictReaderOnRandomObservations) {
  base::Random random(5);
  std::vector<Observation> all;
  std::string text;
  // Larger than one block of the reader, so that lines straddle blocks.
  for (std::int64_t item = 0; text.size() < (std::size_t{9} << 20); ++item) {
    for (std::int64_t residue = 0; residue < 24; ++residue) {
      all.push_back(random_observation(random, item, residue));
      text += format_observation(all.back()) + "\n";
    }
  }
  const Dataset fast = read(text);
  const Dataset plain = dataset_from(all, 24, "test");
  ASSERT_EQ(fast.rows->size(), plain.rows->size());
  EXPECT_EQ(fast.modulus, 24);
  EXPECT_EQ(fast.rows->items, plain.rows->items);
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (std::size_t i = 0; i < plain.rows->size(); ++i) {
    ASSERT_EQ(fast.rows->item[i], plain.rows->item[i]) << "row " << i;
    ASSERT_EQ(fast.rows->position[i], plain.rows->position[i]) << "row " << i;
    ASSERT_EQ(fast.rows->reply[i], plain.rows->reply[i]) << "row " << i;
    ASSERT_TRUE(same(fast.rows->logprob[i], plain.rows->logprob[i]))
        << "row " << i << ": " << fast.rows->logprob[i] << " and " << plain.rows->logprob[i];
    ASSERT_TRUE(same(fast.rows->margin[i], plain.rows->margin[i]))
        << "row " << i << ": " << fast.rows->margin[i] << " and " << plain.rows->margin[i];
  }
  EXPECT_TRUE(fast.positions.query_position_fixed);
  EXPECT_TRUE(fast.positions.length_fixed);
}

std::string line(std::int64_t item, std::int64_t residue, std::optional<bool> correct,
                 std::int64_t repeat = 0) {
  Observation o;
  o.item = item;
  o.residue = residue;
  o.target_position = residue;
  o.correct = correct;
  o.repeat = repeat;
  return format_observation(o) + "\n";
}

TEST_F(ImportJournal, IgnoresATornLastLineAndKeepsRepeatsOut) {
  const Dataset data = read(line(0, 0, true) + line(0, 1, false) + line(0, 1, true, 1) +
                            line(0, 2, true).substr(0, 40));
  EXPECT_EQ(data.rows->size(), 2U);
  EXPECT_EQ(data.repeats.compared, 1);
  EXPECT_EQ(data.repeats.changed, 1);
  EXPECT_EQ(data.modulus, 2) << "the smallest modulus that explains the residues";
}

TEST_F(ImportJournal, UsesAWholeLastLineWithoutANewlineAndSaysThatItLeavesATornOne) {
  const std::string whole = line(0, 0, true) + line(0, 1, false);
  EXPECT_THAT(read(whole).notes, ::testing::IsEmpty());
  for (std::size_t cut = 1; cut <= line(0, 1, false).size(); ++cut) {
    const Dataset data = read(whole.substr(0, whole.size() - cut));
    const bool torn = cut > 1 && cut < line(0, 1, false).size();
    EXPECT_EQ(data.rows->size(), cut == 1 ? 2U : 1U) << cut;
    EXPECT_EQ(data.notes.size(), torn ? 1U : 0U) << cut;
    if (torn) {
      EXPECT_THAT(data.notes.front(), HasSubstr("last line breaks off after"));
    }
  }
}

TEST_F(ImportJournal, LetsARetryReplaceAMissingReply) {
  const Dataset data = read(line(0, 1, true) + line(0, 0, std::nullopt) + line(0, 0, true));
  EXPECT_THAT(data.rows->reply, ::testing::ElementsAre(Reply::kRight, Reply::kRight));
}

TEST_F(ImportJournal, NamesTheLineOfABadOrSecondReply) {
  const auto refusal = [&](const std::string& text) -> std::string {
    try {
      read(text);
    } catch (const base::Error& error) {
      return error.what();
    }
    return "nothing refused";
  };
  EXPECT_THAT(refusal(line(0, 0, true) + "{\"item\":1}\n"), HasSubstr("journal.jsonl:2"));
  EXPECT_THAT(refusal(line(0, 0, true) + "rubbish\n" + line(0, 1, true)),
              HasSubstr("journal.jsonl:2"));
  std::string unended = line(0, 0, true) + line(5, 1, true) + line(0, 0, false);
  unended.pop_back();
  EXPECT_THAT(refusal(unended),
              AllOf(HasSubstr("journal.jsonl:3"), HasSubstr("item 0, position 0")));
  EXPECT_THAT(refusal(line(0, 0, true) + line(5, 1, true) + line(0, 0, false)),
              AllOf(HasSubstr("journal.jsonl:3"), HasSubstr("item 0, position 0")));
  EXPECT_THAT(refusal(""), HasSubstr("got none"));
}

}  // namespace
}  // namespace kvphase::record
