// The checkpoints in models/ answer as the table of models/README.md says.
#include <gmock/gmock.h>

#include <cmath>
#include <regex>
#include <sstream>
#include <vector>

#include "record/result.h"
#include "tests/support/program.h"

namespace kvphase {
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string name;
  std::vector<double> accuracy;  // per phase of the stride, percent
};

// "| `name` | design | 50,688 | command | 79.8 97.9 83.2 12.0 % |"
std::vector<Row> rows() {
  const std::string text = base::read_file(fs::path(KVPHASE_MODELS) / "README.md");
  static const std::regex row(R"(\| `([^`]+)` \|[^|]*\| [0-9,]+ \|[^|]*\| ([0-9. ]+) % \|)");
  std::vector<Row> list;
  for (std::sregex_iterator at(text.begin(), text.end(), row), end; at != end; ++at) {
    Row& r = list.emplace_back(Row{.name = (*at)[1], .accuracy = {}});
    std::istringstream shares((*at)[2]);
    for (double x = 0; shares >> x;) r.accuracy.push_back(x);
  }
  return list;
}

class ReferenceModels : public test::Program {};

TEST_F(ReferenceModels, EachFolderHasARowAndEachRowAFolder) {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(fs::path(KVPHASE_MODELS))) {
    if (entry.is_directory()) folders.push_back(entry.path().filename());
  }
  std::vector<std::string> named;
  for (const Row& row : rows()) named.push_back(row.name);
  EXPECT_THAT(named, ::testing::UnorderedElementsAreArray(folders));
}

TEST_F(ReferenceModels, AnswerAsTheirRowsSay) {
  for (const Row& row : rows()) {
    const auto stride = static_cast<std::int64_t>(row.accuracy.size());
    const std::int64_t modulus = stride == 4 ? 16 : 24;  // the README's audits
    const fs::path model = fs::path(KVPHASE_MODELS) / row.name;
    const auto outcome =
        run(fmt::format("audit {} --modulus {} --items {} --seed 7 --threads 1 -q --out {}",
                        model.string(), modulus, 50, row.name));
    ASSERT_TRUE(outcome.code == 0 || outcome.code == 3) << row.name << ": " << outcome.err;
    const auto result =
        record::result_from_json(base::Json::parse(read(row.name + "/result.json")), row.name);
    ASSERT_EQ(modulus % stride, 0) << row.name;
    std::string seen;
    for (std::int64_t phase = 0; phase < stride; ++phase) {
      double right = 0;
      double n = 0;
      for (std::int64_t r = phase; r < modulus; r += stride) {
        right += static_cast<double>(*result.residues[static_cast<std::size_t>(r)].correct);
        n += static_cast<double>(result.residues[static_cast<std::size_t>(r)].n);
      }
      const double share = row.accuracy[static_cast<std::size_t>(phase)] / 100;
      // Four standard errors, and the row's own rounding and noise.
      const double allowed = 4 * std::sqrt(share * (1 - share) / n) + 0.02;
      EXPECT_NEAR(right / n, share, allowed) << row.name << " phase " << phase;
      seen += fmt::format(" {:.1f}", 100 * right / n);
    }
    fmt::print("{}:{}\n", row.name, seen);
  }
}

TEST_F(ReferenceModels, RetrievalRaisesTheWorstPhaseOfAChunkedOneAndRandomPaddingDoesNot) {
  const std::string audit = fmt::format(
      "audit {}/chunked-w4s4 --haystack 36 -R 12 --demonstrations 4 --items 48 --threads 1 -q ",
      KVPHASE_MODELS);
  for (const char* name : {"plain", "retrieve", "random-padding"}) {
    const bool plain = std::string_view(name) == "plain";
    const auto outcome =
        run(audit + (plain ? "" : fmt::format("--mitigate {} ", name)) + "--out " + name);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  ASSERT_EQ(run("compare plain retrieve random-padding --out both -q").code, 0);
  const base::Json both = base::Json::parse(read("both/comparison.json"));
  ASSERT_EQ(both.at("pairs").size(), 2U);
  for (const base::Json& pair : both.at("pairs")) {
    const double worst = pair.at("worst").at("value").get<double>();
    const double tokens = pair.at("tokens").get<double>();
    const bool retrieve = pair.at("run") == "retrieve";
    fmt::print("{}: worst phase {:+.3f} against plain, {:+.1f} tokens\n",
               pair.at("run").get<std::string>(), worst, tokens);
    EXPECT_EQ(pair.at("rule"), "plain prompts");
    if (retrieve) {
      EXPECT_GT(worst, 0.2);  // +0.40 with 288 items
      EXPECT_EQ(tokens, 8);
    } else {
      EXPECT_LT(worst, 0.1);  // 0.00 with 288 items
      EXPECT_NEAR(tokens, 5.5, 1);
    }
  }
}

}  // namespace
}  // namespace kvphase
