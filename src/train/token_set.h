// The token shards that a training reads as one: windows of consecutive tokens at places that can
// be drawn at random. Knows no tensors.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "train/token_shard.h"

namespace kvphase::train {

// Beginnings of the shards' names in a folder: "train-00000.tokens", "validation-00000.tokens".
inline constexpr std::string_view kTrainSplit = "train";
inline constexpr std::string_view kValidationSplit = "validation";

class TokenSet {
 public:
  // All shards of one split in the folders, in the folders' order and within one by name. Throws a
  // usage error for a folder without one, for shards of different tokenizers or vocabularies and
  // where none has `window` tokens.
  TokenSet(std::span<const std::string> folders, std::string_view split, std::int64_t window);

  std::int64_t vocabulary() const { return shards_.front().header().vocabulary; }
  const std::string& tokenizer() const { return shards_.front().header().tokenizer; }
  std::int64_t tokens() const;

  // Places where `window` consecutive tokens of one shard begin; shorter shards have none.
  std::int64_t windows() const { return ends_.back(); }
  // The tokens of window `index` of 0..windows()-1; out has at most `window` places.
  void read(std::int64_t index, std::span<std::int64_t> out) const;

  // File, tokens and SHA-256 of every shard: what a resumed training compares.
  base::Json identity() const;

 private:
  std::vector<TokenShard> shards_;
  std::vector<std::int64_t> ends_;  // windows of the shards up to and with this one
};

}  // namespace kvphase::train
