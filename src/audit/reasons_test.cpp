// House rule of records: what is undefined is null, and its reason stands beside it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "audit/analysis.h"
#include "base/random.h"

namespace kvphase::audit {
namespace {

using base::Json;
using record::Dataset;
using record::Observation;

// Parts that a result may not have, and what their absence means (docs/formats.md).
const std::set<std::string> kParts = {"folded",     "other_stride", "confirmation",
                                      "sequential", "contrasts",    "options"};
// Where the reason of a field stands when it is not "reason".
const std::map<std::string, std::string> kReasonOf = {{"cross_fitted", "cross_fitted_reason"},
                                                      {"p_second", "p_second_reason"},
                                                      {"p_misfit", "p_misfit_reason"},
                                                      {"p_fit", "p_misfit_reason"},
                                                      {"noise", "noise_method"},
                                                      {"noise_high", "noise_method"},
                                                      {"only_group", "pairs_method"},
                                                      {"only_worst", "pairs_method"}};

std::string text_at(const Json& json, const std::string& key) {
  return json.contains(key) && json.at(key).is_string() ? json.at(key).get<std::string>() : "";
}

// Paths of nulls without a reason. around: the objects that hold this one, innermost last.
void unexplained(const Json& json, const std::string& path, std::vector<const Json*> around,
                 std::vector<std::string>& out, int& nulls) {
  if (json.is_array()) {
    for (const Json& entry : json) {
      if (entry.is_null() && text_at(*around.back(), "reason").empty() &&
          path.find("shrunk") == std::string::npos) {
        out.push_back(path + "[]");
      }
      unexplained(entry, path + "[]", around, out, nulls);
    }
    return;
  }
  if (!json.is_object()) return;
  around.push_back(&json);
  const Json& root = *around.front();
  for (const auto& [key, value] : json.items()) {
    const std::string here = path + "." + key;
    if (!value.is_null()) {
      unexplained(value, here, around, out, nulls);
      continue;
    }
    ++nulls;
    if (kParts.contains(key)) continue;
    if (key == "correct" && root.at("score") != "accuracy") continue;
    if (path.ends_with(".test") && (key == "items" || key == "informative" || key == "dropped") &&
        around.at(around.size() - 2)->at("data") != "paired") {
      continue;
    }
    const auto name = kReasonOf.find(key);
    const std::string reason =
        key == "standard_error" && json.contains("pairs") ? text_at(json.at("mean"), "reason")
        : key == "worst" && json.contains("pairs")        ? text_at(json, "pairs_reason")
        : path.ends_with(".pairs[]") && (key == "p" || key == "p_holm")
            ? text_at(json.at("difference"), "reason")
        : name == kReasonOf.end()
            ? text_at(json,
                      key == "p_value" && json.contains("noise_method") ? "noise_method" : "reason")
        : name->second == "pairs_method" ? text_at(*around.at(around.size() - 2), "pairs_method")
                                         : text_at(json, name->second);
    if (reason.empty()) out.push_back(here);
  }
}

struct Setting {
  std::int64_t items = 10;
  std::int64_t positions = 24;
  std::function<double(std::int64_t)> chance = [](std::int64_t) { return 0.7; };
  std::function<bool(std::int64_t)> missing = [](std::int64_t) { return false; };
  bool items_known = true;
  bool logprobs = false;
  bool continuous = false;
};

Dataset simulate(const Setting& s) {
  base::Random random(4);
  std::vector<Observation> all;
  for (std::int64_t item = 0; item < s.items; ++item) {
    for (std::int64_t k = 0; k < s.positions; ++k) {
      Observation o{.item = s.items_known ? item : item * s.positions + k, .residue = k % 24};
      o.target_position = k;
      if (!s.missing(k)) o.correct = random.uniform() < s.chance(k);
      if (s.logprobs && !s.missing(k)) o.logprob = -random.uniform();
      if (s.continuous) o.margin = s.chance(k) == 1 ? 0.5 : random.normal();
      all.push_back(o);
    }
  }
  Dataset data = record::dataset_from(all, 24, "test");
  data.rows->items_known = s.items_known;
  if (s.continuous) data.rows->has_right_wrong = false;
  return data;
}

Dataset counts(std::vector<std::int64_t> correct, std::vector<std::int64_t> n) {
  Dataset data;
  data.modulus = std::ssize(n);
  data.counts = record::CountsTable{.modulus = data.modulus, .n = n, .correct = correct};
  return data;
}

TEST(Reasons, EveryNullOfAResultHasOneAndNoUndefinedNumberIsZeroOrNan) {
  const auto right = [](std::int64_t) { return 1.0; };
  const auto wrong = [](std::int64_t) { return 0.0; };
  const auto weak = [](std::int64_t k) { return k % 4 == 3 ? 0.2 : 0.9; };
  const auto third = [](std::int64_t k) { return k % 4 == 3; };
  const auto all = [](std::int64_t) { return true; };
  struct Case {
    const char* name;
    Dataset data;
  };
  const std::vector<Case> cases = {
      {"plain", simulate({})},
      {"period", simulate({.items = 40, .chance = weak, .logprobs = true})},
      {"no item", simulate({.items = 0})},
      {"one prompt", simulate({.items = 1, .positions = 1})},
      {"one item", simulate({.items = 1})},
      {"two items", simulate({.items = 2, .chance = weak})},
      {"three items, a period",
       simulate({.items = 3, .chance = [](std::int64_t k) { return k % 4 == 3 ? 0.0 : 1.0; }})},
      {"all right", simulate({.chance = right})},
      {"all wrong", simulate({.chance = wrong})},
      {"one item all right", simulate({.items = 1, .chance = right})},
      {"a phase missing", simulate({.items = 40, .chance = weak, .missing = third})},
      {"all missing", simulate({.missing = all})},
      {"unpaired", simulate({.items = 20, .chance = weak, .items_known = false})},
      {"margins", simulate({.chance = weak, .continuous = true})},
      {"margins all equal", simulate({.chance = right, .continuous = true})},
      {"unpaired margins", simulate({.items_known = false, .continuous = true})},
      {"three positions", simulate({.items = 20, .positions = 3})},
      {"counts", counts({20, 18, 20, 5, 19, 20, 18, 4}, {20, 20, 20, 20, 20, 20, 20, 20})},
      {"flat counts", counts({15, 16, 14, 15, 16, 15, 14, 15}, {20, 20, 20, 20, 20, 20, 20, 20})},
      {"empty counts", counts({0, 0, 0, 0}, {0, 0, 0, 0})},
      {"one count", counts({0, 1, 0, 0}, {0, 1, 0, 0})},
      {"counts all right", counts({9, 9, 9, 9}, {9, 9, 9, 9})}};
  int nulls = 0;
  for (const Case& c : cases) {
    for (const std::optional<std::int64_t> stride : {std::optional<std::int64_t>{}, {4}, {3}}) {
      const Json json = record::to_json(
          analyse(c.data, {.stride = stride, .replicates = 100, .permutations = 199}));
      std::vector<std::string> missing;
      unexplained(json, "", {}, missing, nulls);
      std::erase_if(missing, [](const std::string& p) { return p.starts_with(".context"); });
      EXPECT_THAT(missing, testing::IsEmpty()) << c.name << ", stride " << stride.value_or(0);
      EXPECT_EQ(record::to_json(record::result_from_json(json, "test")), json) << c.name;
    }
  }
  fmt::print("{} data sets, {} nulls\n", 3 * cases.size(), nulls);
  EXPECT_GT(nulls, 1000) << "the walk sees them";
}

}  // namespace
}  // namespace kvphase::audit
