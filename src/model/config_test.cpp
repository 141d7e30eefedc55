#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "model/presets.h"

namespace kvphase::model {
namespace {

base::Json small_json() { return to_json(preset("small/chunked")); }

std::string refusal(const base::Json& json) {
  try {
    config_from_json(json, "config");
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

std::string refusal_with(const std::string& key, const base::Json& value) {
  base::Json json = small_json();
  json[key] = value;
  return refusal(json);
}

std::string chunk_refusal_with(const std::string& key, const base::Json& value) {
  base::Json json = small_json();
  json["chunk"][key] = value;
  return refusal(json);
}

TEST(Config, EveryPresetSurvivesTheRoundTripThroughJson) {
  for (const std::string& name : preset_names()) {
    const ModelConfig config = preset(name);
    const base::Json json = to_json(config);
    const ModelConfig back = config_from_json(json, name);
    EXPECT_EQ(to_json(back), json) << name;
    if (has_chunked_layer(config)) {
      EXPECT_EQ(back.chunk, config.chunk) << name;
    }
    EXPECT_EQ(parameter_count(back), parameter_count(config)) << name;
  }
}

TEST(Config, UnknownKeysAreRefusedWithTheNearestValidOne) {
  EXPECT_THAT(refusal_with("kv_head", 1), testing::HasSubstr("'kv_head'; did you mean 'kv_heads'"));
  EXPECT_THAT(chunk_refusal_with("strid", 4), testing::HasSubstr("did you mean 'stride'"));
  EXPECT_THAT(chunk_refusal_with("gate", "scaler"), testing::HasSubstr("did you mean 'scalar'"));
  EXPECT_THAT(refusal_with("attention", base::Json::array({"local", "chunk"})),
              testing::HasSubstr("did you mean 'chunked'"));
}

TEST(Config, ContradictoryKeysAreRefusedByName) {
  EXPECT_THAT(chunk_refusal_with("stride", 5),
              testing::AllOf(testing::HasSubstr("'chunk.stride'"),
                             testing::HasSubstr("'chunk.window'"), testing::HasSubstr("5 > 4")));
  EXPECT_THAT(chunk_refusal_with("window", 0), testing::HasSubstr("'chunk.window'"));
  EXPECT_THAT(chunk_refusal_with("stride", 0), testing::HasSubstr("'chunk.stride'"));
  EXPECT_THAT(chunk_refusal_with("grid", "staggered"), testing::HasSubstr("'kv_heads'"));
  EXPECT_THAT(refusal_with("kv_heads", 3), testing::HasSubstr("'query_heads'"));
  EXPECT_THAT(refusal_with("rope_dims", 3), testing::HasSubstr("'rope_dims'"));
  EXPECT_THAT(refusal_with("rope_dims", 34), testing::HasSubstr("'rope_dims'"));
  EXPECT_THAT(refusal_with("rope_dims", 0), testing::HasSubstr("'rope_base'"));
  EXPECT_THAT(refusal_with("attention", base::Json::array({"full"})),
              testing::HasSubstr("'attention'"));
  EXPECT_THAT(refusal_with("attention", "full"), testing::HasSubstr("'chunk'"));
  base::Json uniform = small_json();
  uniform["chunk"]["gate"] = "uniform";
  EXPECT_THAT(refusal(uniform), testing::HasSubstr("'gate_maps'"));
  uniform["chunk"].erase("gate_maps");
  EXPECT_THAT(refusal(uniform), testing::HasSubstr("'chunk.gate_bias'"));
  uniform["chunk"].erase("gate_bias");
  EXPECT_EQ(refusal(uniform), "accepted");
  base::Json full = small_json();
  full["attention"] = "full";
  full.erase("chunk");
  EXPECT_THAT(refusal(full), testing::HasSubstr("'local_window'"));
  full.erase("local_window");
  EXPECT_EQ(refusal(full), "accepted");
}

TEST(Config, WrongTypesAndNumbersOutOfRangeAreRefused) {
  EXPECT_THAT(refusal_with("layers", 0), testing::HasSubstr("'layers'"));
  EXPECT_THAT(refusal_with("layers", -1), testing::HasSubstr("'layers'"));
  EXPECT_THAT(refusal_with("layers", std::int64_t{1} << 40), testing::HasSubstr("'layers'"));
  EXPECT_THAT(refusal_with("width", 1.5), testing::HasSubstr("'width'"));
  EXPECT_THAT(refusal_with("norm_epsilon", 0.0), testing::HasSubstr("'norm_epsilon'"));
  EXPECT_THAT(refusal_with("rope_base", "ten"), testing::HasSubstr("'rope_base'"));
  EXPECT_THAT(refusal_with("qk_norm", 1), testing::HasSubstr("'qk_norm'"));
  EXPECT_THAT(refusal_with("rope_base", std::numeric_limits<double>::quiet_NaN()),
              testing::HasSubstr("'rope_base'"));
  EXPECT_THROW(base::parse_json(R"({"norm_epsilon": NaN})", "config"), base::Error);
  ModelConfig config = preset("small/chunked");
  config.norm_epsilon = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(validate(config, "config"), base::Error);
}

TEST(Config, OneAttentionKindStandsForAllLayers) {
  base::Json json = small_json();
  json["attention"] = "chunked";
  EXPECT_THAT(config_from_json(json, "config").attention,
              testing::ElementsAre(AttentionKind::kChunked, AttentionKind::kChunked));
}

TEST(Config, StaggeredGridsAreShiftedByAShareOfTheStride) {
  ModelConfig config = preset("small/staggered");
  config.kv_heads = 4;
  config.chunk.window = config.chunk.stride = 6;
  std::vector<std::int64_t> shifts;
  for (std::int64_t head = 0; head < 4; ++head) shifts.push_back(grid_shift(config, 1, head));
  EXPECT_THAT(shifts, testing::ElementsAre(0, 1, 3, 4));
}

TEST(Config, GridsStaggeredByLayerAreShiftedByAShareOfTheStride) {
  ModelConfig config = preset("small/chunked");
  config.layers = 4;
  config.attention = {AttentionKind::kLocal, AttentionKind::kChunked, AttentionKind::kFull,
                      AttentionKind::kChunked};
  config.chunk.window = config.chunk.stride = 6;
  config.chunk.grid = GridKind::kStaggeredLayers;
  validate(config, "config");
  EXPECT_EQ(grid_shift(config, 1, 0), 0);
  EXPECT_EQ(grid_shift(config, 3, 0), 3);
  EXPECT_EQ(chunk_grid(config, 3).first_end.front(), 2) << "the first window is cut after token 2";
  EXPECT_EQ(chunk_grid(config, 3, 1).first_end.front(), 3) << "and one token later after token 3";
  EXPECT_EQ(config_from_json(to_json(config), "config"), config);
  config.attention[1] = AttentionKind::kLocal;
  EXPECT_THROW(validate(config, "config"), base::Error) << "one chunked layer";
}

TEST(ChunkGrid, EveryTokenIsInAWindowCompletedWithinOneStride) {
  for (std::int64_t window = 1; window <= 9; ++window) {
    for (std::int64_t stride = 1; stride <= window; ++stride) {
      for (std::int64_t shift = 0; shift < stride; ++shift) {
        const kernels::ChunkGrid grid = kernels::make_chunk_grid(window, stride, {shift});
        for (std::int64_t tokens = 0; tokens <= 3 * window; ++tokens) {
          const std::int64_t entries = grid.completed(0, tokens);
          std::vector<int> covered(static_cast<std::size_t>(tokens));
          for (std::int64_t entry = 0; entry < entries; ++entry) {
            ASSERT_LT(grid.end(0, entry), tokens);
            ASSERT_LE(grid.begin(0, entry), grid.end(0, entry));
            if (grid.end(0, entry) >= window - 1) {
              ASSERT_EQ(grid.begin(0, entry) % stride, shift % stride);
            }
            for (std::int64_t t = grid.begin(0, entry); t <= grid.end(0, entry); ++t) {
              ++covered[static_cast<std::size_t>(t)];
            }
          }
          ASSERT_GE(grid.end(0, entries), tokens) << "entry " << entries << " is complete too";
          for (std::int64_t t = 0; t + stride <= tokens; ++t) {
            ASSERT_GE(covered[static_cast<std::size_t>(t)], 1)
                << "W " << window << " S " << stride << " shift " << shift << " T " << tokens
                << ": token " << t << " is in no completed window";
          }
          // Non-overlapping windows hold every token once; the tail holds exactly the rest.
          for (std::int64_t t = 0; t < tokens; ++t) {
            const bool in_tail = t >= grid.tail_begin(0, tokens);
            ASSERT_EQ(in_tail, covered[static_cast<std::size_t>(t)] == 0);
            if (window == stride && !in_tail) {
              ASSERT_EQ(covered[static_cast<std::size_t>(t)], 1);
            }
          }
        }
      }
    }
  }
}

TEST(ChunkGrid, OverlappingWindowsBeginWithoutAPredecessor) {
  const kernels::ChunkGrid grid = kernels::make_chunk_grid(8, 4, {0, 2});
  EXPECT_EQ(grid.end(0, 0), 3);
  EXPECT_EQ(grid.begin(0, 0), 0);
  EXPECT_EQ(grid.begin(0, 1), 0);
  EXPECT_EQ(grid.end(0, 1), 7);
  EXPECT_EQ(grid.begin(0, 2), 4);
  EXPECT_EQ(grid.end(1, 0), 1);
  EXPECT_EQ(grid.begin(1, 2), 2);
}

TEST(CacheSize, IsWhatTheDesignsPromise) {
  // Qwen3-0.6B, 8 KV heads, 2 bytes: 112 KiB per token; W8/S8 with one: 1,792 B per token.
  const ModelConfig full = preset("qwen3-0.6b/full-8kv");
  EXPECT_EQ(2 * cache_size(full, 1000).total(), 114688 * 1000);
  const ModelConfig chunked = preset("qwen3-0.6b/w8s8-1kv");
  const CacheSize size = cache_size(chunked, 1024);
  EXPECT_EQ(2 * size.entries, 1792 * 1024);
  EXPECT_EQ(2 * size.exact, 14336 * 16);
  EXPECT_EQ(size.pending, 0);
  EXPECT_EQ(cache_size(chunked, 1025).pending, 28 * 1024);
  // The staggered twin keeps as many entry numbers as the aligned model on any whole stride.
  for (const std::int64_t tokens : {64, 96, 1024}) {
    EXPECT_EQ(cache_size(preset("small/staggered"), tokens).entries,
              cache_size(preset("small/chunked"), tokens).entries);
  }
}

}  // namespace
}  // namespace kvphase::model
