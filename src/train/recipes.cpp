#include "train/recipes.h"

#include <array>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"
#include "model/presets.h"

namespace kvphase::train {
namespace {

using model::AttentionKind;

struct Layout {
  const char* name;
  const char* meaning;
  std::array<AttentionKind, 2> attention;
  bool staggered;
};

constexpr std::array<Layout, 6> kLayouts = {{
    {"wc", "local window, then chunked", {AttentionKind::kLocal, AttentionKind::kChunked}, false},
    {"wf",
     "local window, then full attention: the control of wc",
     {AttentionKind::kLocal, AttentionKind::kFull},
     false},
    {"cc", "both layers chunked", {AttentionKind::kChunked, AttentionKind::kChunked}, false},
    {"ff",
     "both layers full attention: the control of cc",
     {AttentionKind::kFull, AttentionKind::kFull},
     false},
    {"wc-staggered",
     "wc on staggered grids, equal cache bytes",
     {AttentionKind::kLocal, AttentionKind::kChunked},
     true},
    {"cc-staggered",
     "cc on staggered grids, equal cache bytes",
     {AttentionKind::kChunked, AttentionKind::kChunked},
     true},
}};

TrainOptions small() {
  TrainOptions options;
  options.model.width = 48;
  options.model.head_width = 24;
  options.model.rope_dims = 24;
  options.model.ff_width = 96;
  options.language = {.keys = 32, .values = 32, .haystack = 48, .records = 8, .queries = 8};
  options.batch = 32;
  options.steps = 500;
  return options;
}

TrainOptions main_size() {
  // The defaults of TrainOptions, ModelConfig and LookupLanguage are this size.
  return TrainOptions{};
}

TrainOptions family() {
  TrainOptions options;
  options.model = model::preset("small/w8s8-1kv");
  options.language = {.keys = 64, .values = 64, .haystack = 216, .records = 64, .queries = 64};
  options.first_records = 8;
  options.first_haystack = 48;
  options.first_batch = 64;
  options.batch = 18;
  options.curriculum_hold = 250;
  options.curriculum_steps = 200;
  options.steps = 700;
  fit_model_to_language(options);
  return options;
}

TrainOptions with_layout(TrainOptions options, const Layout& layout) {
  options.model.embedding_scale = 0.5 * std::sqrt(static_cast<double>(options.model.width));
  options.model.attention.assign(layout.attention.begin(), layout.attention.end());
  if (layout.staggered) {
    options.model.chunk.grid = model::GridKind::kStaggered;
    options.model.kv_heads *= 2;
    options.model.query_heads *= 2;
    options.model.head_width /= 2;
    options.model.rope_dims /= 2;
  }
  fit_model_to_language(options);
  return options;
}

std::vector<Recipe> make_recipes() {
  struct Size {
    const char* name;
    TrainOptions options;
  };
  std::vector<Recipe> all;
  for (const Size& size : {Size{"small", small()}, Size{"main", main_size()}}) {
    for (const Layout& layout : kLayouts) {
      Recipe recipe{.name = fmt::format("{}-{}", size.name, layout.name),
                    .meaning = fmt::format("{}: {}", size.name, layout.meaning),
                    .options = with_layout(size.options, layout)};
      recipe.options.recipe = recipe.name;
      all.push_back(std::move(recipe));
    }
  }
  all.push_back({.name = "family",
                 .meaning = "64 records, for `kvphase family`: the paper's designs",
                 .options = family()});
  all.back().options.recipe = all.back().name;
  return all;
}

}  // namespace

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all = make_recipes();
  return all;
}

TrainOptions recipe(std::string_view name) {
  std::vector<std::string> names;
  for (const Recipe& candidate : recipes()) {
    if (candidate.name == name) return candidate.options;
    names.push_back(candidate.name);
  }
  throw base::usage_error("train", "expected a recipe of {}, got '{}'; did you mean '{}'?",
                          fmt::join(names, " | "), name, base::nearest_name(name, names));
}

}  // namespace kvphase::train
