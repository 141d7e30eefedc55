// Text to token shards, byte by byte (lm/byte_tokens.h): a folder that a training reads, with a
// part for training and a part for validation, split by document. Memory does not grow with the
// text. Knows no tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <istream>
#include <string>
#include <vector>

namespace kvphase::train {

enum class DocumentsAre { kFiles, kLines, kNulTerminated };

struct TextShardOptions {
  // Files and folders, of which all files below are taken, by name; "-" is `standard_input`.
  std::vector<std::string> inputs;
  std::istream* standard_input = nullptr;
  std::vector<std::string> extensions;  // of files in folders, e.g. "txt"; empty: all files
  DocumentsAre documents = DocumentsAre::kFiles;
  double validation = 0.02;  // share of the documents that no training sees
  std::uint64_t seed = 1;    // of the split
  std::int64_t shard_tokens = std::int64_t{1}
                              << 28;  // a shard ends with the document that fills it
};

struct TextShardSummary {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  struct Part {
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
    std::vector<std::string> sha256;  // of its shards
  };
  Part train, validation;
};

// Makes a new folder of
//   train-00000.tokens, validation-00000.tokens, ...  (train/token_shard.h)
//   sources.jsonl  path, bytes and SHA-256 of every input
//   text.json      the options and the summary
// which appears when it is complete. Document d (0, 1, ... in the inputs' order, empty ones not
// counted) is for validation by (seed, d) alone. Every document ends with the token that says so.
// Throws a usage error for wrong options, an unreadable input, and text without a document for each
// part.
TextShardSummary make_text_shards(const TextShardOptions& options,
                                  const std::filesystem::path& folder,
                                  const std::function<void(const TextShardSummary&)>& progress);

}  // namespace kvphase::train
