#include "train/token_set.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"

namespace kvphase::train {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> shard_files(const fs::path& folder, std::string_view split) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(split) && name.ends_with(kShardExtension)) files.push_back(entry.path());
  }
  if (files.empty()) {
    throw base::usage_error(
        "train", "expected {}*{} in {}, got {}; `kvphase tokens` makes them from text", split,
        kShardExtension, folder.string(), error ? error.message() : "no such file");
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TokenSet::TokenSet(std::span<const std::string> folders, std::string_view split,
                   std::int64_t window) {
  assert(!folders.empty() && window >= 1);
  for (const std::string& folder : folders) {
    for (const fs::path& file : shard_files(folder, split)) shards_.emplace_back(file);
  }
  for (const TokenShard& shard : shards_) {
    if (shard.header().vocabulary != vocabulary() || shard.header().tokenizer != tokenizer()) {
      throw base::usage_error(
          "train",
          "expected shards of one tokenizer, got '{}' ({} tokens) in {} and '{}' ({}) in {}",
          tokenizer(), vocabulary(), shards_.front().path().string(), shard.header().tokenizer,
          shard.header().vocabulary, shard.path().string());
    }
    const std::int64_t windows = std::max<std::int64_t>(0, shard.header().tokens - window + 1);
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + windows);
  }
  if (windows() == 0) {
    throw base::usage_error(
        "train",
        "expected a {} shard of at least {} tokens (a sequence and the token after it), "
        "got {} in the longest; lower data.sequence",
        split, window,
        std::max_element(
            shards_.begin(), shards_.end(),
            [](const auto& a, const auto& b) { return a.header().tokens < b.header().tokens; })
            ->header()
            .tokens);
  }
}

std::int64_t TokenSet::tokens() const {
  std::int64_t sum = 0;
  for (const TokenShard& shard : shards_) sum += shard.header().tokens;
  return sum;
}

void TokenSet::read(std::int64_t index, std::span<std::int64_t> out) const {
  assert(index >= 0 && index < windows());
  const auto shard =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  shards_[shard].read(shard == 0 ? index : index - ends_[shard - 1], out);
}

base::Json TokenSet::identity() const {
  base::Json list = base::Json::array();
  for (const TokenShard& shard : shards_) {
    list.push_back({{"file", shard.path().filename().string()},
                    {"tokens", shard.header().tokens},
                    {"sha256", shard.header().sha256}});
  }
  return list;
}

}  // namespace kvphase::train
