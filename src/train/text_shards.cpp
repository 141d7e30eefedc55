#include "train/text_shards.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>

#include "base/build_info.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/random.h"
#include "lm/byte_tokens.h"
#include "train/token_set.h"

namespace kvphase::train {
namespace {

namespace fs = std::filesystem;
using base::Json;
using base::usage_error;

constexpr const char* kScope = "tokens";
constexpr std::size_t kBlock = 1 << 20;

const char* name_of(DocumentsAre documents) {
  switch (documents) {
    case DocumentsAre::kFiles:
      return "file";
    case DocumentsAre::kLines:
      return "line";
    case DocumentsAre::kNulTerminated:
      break;
  }
  return "nul";
}

void validate(const TextShardOptions& options) {
  if (options.inputs.empty()) {
    throw usage_error(kScope, "expected files, folders or - (standard input), got none");
  }
  if (!(options.validation > 0 && options.validation < 1)) {
    throw usage_error(kScope, "expected a share for validation above 0 and below 1, got {}",
                      options.validation);
  }
  if (options.shard_tokens < 1) {
    throw usage_error(kScope, "expected shards of at least 1 token, got {}", options.shard_tokens);
  }
}

bool wanted(const fs::path& file, const std::vector<std::string>& extensions) {
  const std::string own = file.extension().string();
  return extensions.empty() ||
         std::any_of(extensions.begin(), extensions.end(), [&](const std::string& extension) {
           return own == (extension.starts_with('.') ? extension : "." + extension);
         });
}

std::vector<fs::path> files_of(const std::string& input, const TextShardOptions& options) {
  std::error_code error;
  if (!fs::is_directory(input, error)) return {input};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(input)) {
    // A link would bring the same text twice.
    if (!entry.is_symlink() && entry.is_regular_file() &&
        wanted(entry.path(), options.extensions)) {
      files.push_back(entry.path());
    }
  }
  if (files.empty()) {
    throw usage_error(kScope, "expected files{} in the folder {}, got none",
                      options.extensions.empty()
                          ? ""
                          : fmt::format(" .{}", fmt::join(options.extensions, " or .")),
                      input);
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The shards of one part, of which the last one is open.
class Part {
 public:
  Part(const fs::path& folder, std::string_view split, std::int64_t shard_tokens)
      : folder_(folder), split_(split), shard_tokens_(shard_tokens) {}

  void append(std::span<const lm::TokenId> tokens) {
    if (!writer_) {
      writer_.emplace(
          folder_ / fmt::format("{}-{:05}{}", split_, summary.sha256.size(), kShardExtension),
          lm::kByteVocabulary, kByteTokenizer);
    }
    writer_->append(tokens);
    summary.tokens += std::ssize(tokens);
  }

  void end_document() {
    append(std::array{lm::kDocumentEnd});
    writer_->end_document();
    ++summary.documents;
    if (writer_->tokens() >= shard_tokens_) finish();
  }

  void finish() {
    if (!writer_) return;
    summary.sha256.push_back(writer_->finish().sha256);
    writer_.reset();
  }

  TextShardSummary::Part summary;

 private:
  fs::path folder_;
  std::string split_;
  std::int64_t shard_tokens_;
  std::optional<TokenShardWriter> writer_;
};

// Cuts the stream of bytes into documents and gives each to its part.
class Splitter {
 public:
  Splitter(const TextShardOptions& options, Part& train, Part& validation)
      : options_(options), train_(train), validation_(validation) {}

  void add(std::string_view block) {
    if (options_.documents == DocumentsAre::kFiles) return grow(block);
    const char end = options_.documents == DocumentsAre::kLines ? '\n' : '\0';
    for (;;) {
      const std::size_t stop = block.find(end);
      grow(block.substr(0, stop));
      if (stop == std::string_view::npos) return;
      end_document();
      block.remove_prefix(stop + 1);
    }
  }

  void end_document() {
    if (part_ == nullptr) return;  // empty
    part_->end_document();
    part_ = nullptr;
    ++documents_;
  }

 private:
  void grow(std::string_view text) {
    if (text.empty()) return;
    if (part_ == nullptr) {
      base::Random random(base::derive_seed(options_.seed, "split", {documents_}));
      part_ = random.uniform() < options_.validation ? &validation_ : &train_;
    }
    part_->append(lm::byte_tokens(text));
  }

  const TextShardOptions& options_;
  Part& train_;
  Part& validation_;
  Part* part_ = nullptr;  // of the document that has begun
  std::uint64_t documents_ = 0;
};

Json to_json(const TextShardSummary::Part& part) {
  return {{"documents", part.documents}, {"tokens", part.tokens}, {"sha256", part.sha256}};
}

}  // namespace

TextShardSummary make_text_shards(const TextShardOptions& options, const fs::path& folder,
                                  const std::function<void(const TextShardSummary&)>& progress) {
  validate(options);
  std::error_code ignored;
  if (fs::exists(folder, ignored)) {
    throw usage_error(kScope, "expected a new folder, got {}, which exists; choose another name",
                      folder.string());
  }
  fs::remove_all(folder.string() + ".part");  // what a kill left
  base::NewFolder new_folder(folder, kScope);
  const fs::path part_folder = new_folder.part();

  Part train(part_folder, kTrainSplit, options.shard_tokens);
  Part validation(part_folder, kValidationSplit, options.shard_tokens);
  Splitter splitter(options, train, validation);
  TextShardSummary summary;
  const auto tell = [&] {
    summary.train = train.summary;
    summary.validation = validation.summary;
    if (progress) progress(summary);
  };

  base::LineAppender sources(part_folder / "sources.jsonl");
  std::string block(kBlock, '\0');
  const auto read = [&](const std::string& name, std::istream& stream) {
    base::Sha256 hash;
    std::int64_t bytes = 0;
    while (stream) {
      stream.read(block.data(), static_cast<std::streamsize>(block.size()));
      const std::string_view got(block.data(), static_cast<std::size_t>(stream.gcount()));
      hash.update(got);
      splitter.add(got);
      bytes += std::ssize(got);
      summary.bytes += std::ssize(got);
      tell();
    }
    if (stream.bad()) {
      throw usage_error(kScope, "expected to read {} to its end, got an error after {} bytes", name,
                        bytes);
    }
    splitter.end_document();
    ++summary.files;
    // A name may hold any byte.
    const Json line = {{"path", name}, {"bytes", bytes}, {"sha256", hash.finish_hex()}};
    sources.append(line.dump(-1, ' ', false, Json::error_handler_t::replace));
  };
  for (const std::string& input : options.inputs) {
    if (input == "-") {
      read(input, *options.standard_input);
      continue;
    }
    for (const fs::path& file : files_of(input, options)) {
      std::ifstream stream(file, std::ios::binary);
      if (!stream || !fs::is_regular_file(file, ignored)) {
        throw usage_error(kScope, "expected a readable file, got {}", file.string());
      }
      read(file.string(), stream);
    }
  }
  train.finish();
  validation.finish();
  tell();
  if (summary.train.documents == 0 || summary.validation.documents == 0) {
    throw usage_error(
        kScope,
        "expected documents for training and for validation, got {} and {}; give more files, let "
        "--documents line, or a larger --validation",
        summary.train.documents, summary.validation.documents);
  }
  sources.sync();

  const Json about = {{"commit", base::build_commit()},
                      {"inputs", options.inputs},
                      {"extensions", options.extensions},
                      {"documents", name_of(options.documents)},
                      {"validation_share", options.validation},
                      {"seed", options.seed},
                      {"shard_tokens", options.shard_tokens},
                      {"tokenizer", kByteTokenizer},
                      {"vocabulary", lm::kByteVocabulary},
                      {"files", summary.files},
                      {"bytes", summary.bytes},
                      {"train", to_json(summary.train)},
                      {"validation", to_json(summary.validation)}};
  base::write_file_atomically(part_folder / "text.json",
                              about.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  new_folder.publish();
  return summary;
}

}  // namespace kvphase::train
