// One file of token ids in sequence, read through the memory map: a header of 128 bytes, then the
// ids, all little-endian.
//
//   offset bytes
//        0     8  "KVTOKENS"
//        8     4  version, 1
//       12     4  bytes per id: 2 (uint16) or 4 (uint32)
//       16     8  size of the vocabulary: every id is below it
//       24     8  number of ids
//       32     8  number of documents; each ends with the tokenizer's end of a document
//       40    32  SHA-256 of the ids
//       72    56  name of the tokenizer, padded with zeros; "bytes" is lm/byte_tokens.h
//
// Knows no tensors and no text.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/memory_map.h"
#include "lm/language_model.h"

namespace kvphase::train {

inline constexpr std::string_view kShardExtension = ".tokens";
inline constexpr std::string_view kByteTokenizer = "bytes";

struct ShardHeader {
  std::int64_t bytes_per_id = 2;
  std::int64_t vocabulary = 0;
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::string sha256;  // of the ids, 64 hexadecimal digits
  std::string tokenizer;
};

class TokenShard {
 public:
  // Throws a usage error for a header that is none or contradicts itself, and for a file of another
  // size than the header says. The ids are not read.
  explicit TokenShard(const std::filesystem::path& path);

  const ShardHeader& header() const { return header_; }
  const std::filesystem::path& path() const { return path_; }

  // Ids begin .. begin + out.size() - 1. Throws a usage error for one outside the vocabulary.
  void read(std::int64_t begin, std::span<std::int64_t> out) const;

  // Reads everything: throws a usage error for an id outside the vocabulary or another SHA-256.
  void verify() const;

 private:
  std::filesystem::path path_;
  base::MemoryMap map_;
  ShardHeader header_;
};

// Writes a shard id by id, in a buffer's memory. A shard that is not finished has no valid header.
class TokenShardWriter {
 public:
  // Ids take 2 bytes where the vocabulary allows it. The file must not exist.
  TokenShardWriter(const std::filesystem::path& path, std::int64_t vocabulary,
                   std::string_view tokenizer);
  ~TokenShardWriter();
  TokenShardWriter(const TokenShardWriter&) = delete;
  TokenShardWriter& operator=(const TokenShardWriter&) = delete;

  void append(std::span<const lm::TokenId> tokens);  // usage error outside the vocabulary
  void end_document() { ++header_.documents; }       // its last token was appended
  std::int64_t tokens() const { return header_.tokens; }

  // Writes the header and fsyncs; nothing may follow.
  ShardHeader finish();

 private:
  void write(std::string_view bytes);

  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
  ShardHeader header_;
  base::Sha256 hash_;
  std::string encoded_;
};

}  // namespace kvphase::train
