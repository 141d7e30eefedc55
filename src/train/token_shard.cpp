#include "train/token_shard.h"

#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/error.h"

namespace kvphase::train {
namespace {

using base::usage_error;

constexpr std::string_view kMagic = "KVTOKENS";
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 128;
constexpr std::size_t kHashBytes = 32;
constexpr std::size_t kNameBytes = 56;
constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 24;  // that of model configurations

std::string scope_of(const std::filesystem::path& path) { return "tokens " + path.string(); }

std::uint64_t little_endian(std::string_view bytes, std::size_t begin, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[begin + i]);
  }
  return value;
}

void put_little_endian(std::string& out, std::uint64_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

std::string encode(const ShardHeader& header) {
  std::string out(kMagic);
  put_little_endian(out, kVersion, 4);
  put_little_endian(out, static_cast<std::uint64_t>(header.bytes_per_id), 4);
  for (const std::int64_t value : {header.vocabulary, header.tokens, header.documents}) {
    put_little_endian(out, static_cast<std::uint64_t>(value), 8);
  }
  for (std::size_t i = 0; i < kHashBytes; ++i) {
    unsigned byte = 0;
    std::from_chars(&header.sha256[2 * i], &header.sha256[2 * i] + 2, byte, 16);
    out.push_back(static_cast<char>(byte));
  }
  out += header.tokenizer;
  out.resize(kHeaderBytes);
  return out;
}

ShardHeader decode(std::string_view file, const std::string& scope) {
  if (file.size() < kHeaderBytes || !file.starts_with(kMagic)) {
    throw usage_error(
        scope, "expected a token shard ({} and a header of {} bytes), got {}", kMagic, kHeaderBytes,
        file.size() < kHeaderBytes ? fmt::format("{} bytes", file.size()) : "another kind of file");
  }
  if (const auto version = little_endian(file, 8, 4); version != kVersion) {
    throw usage_error(scope, "expected version {} of the format, got {}", kVersion, version);
  }
  ShardHeader header;
  header.bytes_per_id = static_cast<std::int64_t>(little_endian(file, 12, 4));
  if (header.bytes_per_id != 2 && header.bytes_per_id != 4) {
    throw usage_error(scope, "expected 2 or 4 bytes per id, got {}", header.bytes_per_id);
  }
  const auto count = [&](const char* what, std::size_t begin, std::int64_t least,
                         std::int64_t most) {
    const std::uint64_t value = little_endian(file, begin, 8);
    if (value < static_cast<std::uint64_t>(least) || value > static_cast<std::uint64_t>(most)) {
      throw usage_error(scope, "expected {} of {} to {}, got {}", what, least, most, value);
    }
    return static_cast<std::int64_t>(value);
  };
  header.vocabulary = count("a vocabulary", 16, 1,
                            header.bytes_per_id == 2 ? std::int64_t{1} << 16 : kLargestVocabulary);
  header.tokens = count("a number of ids", 24, 0, std::int64_t{1} << 48);
  header.documents = count("a number of documents", 32, 0, header.tokens);
  for (std::size_t i = 0; i < kHashBytes; ++i) {
    header.sha256 += fmt::format("{:02x}", static_cast<unsigned char>(file[40 + i]));
  }
  const std::string_view name = file.substr(72, kNameBytes);
  header.tokenizer = name.substr(0, name.find('\0'));
  const auto expected =
      kHeaderBytes + static_cast<std::uint64_t>(header.tokens * header.bytes_per_id);
  if (file.size() != expected) {
    throw usage_error(scope, "expected {} bytes for {} ids, got {}; the file was {}", expected,
                      header.tokens, file.size(), file.size() < expected ? "cut off" : "added to");
  }
  return header;
}

}  // namespace

TokenShard::TokenShard(const std::filesystem::path& path)
    : path_(path), map_(path), header_(decode(map_.bytes(), scope_of(path))) {}

void TokenShard::read(std::int64_t begin, std::span<std::int64_t> out) const {
  assert(begin >= 0 && begin + std::ssize(out) <= header_.tokens);
  const auto width = static_cast<std::size_t>(header_.bytes_per_id);
  std::size_t place = kHeaderBytes + static_cast<std::size_t>(begin) * width;
  for (std::int64_t& token : out) {
    token = static_cast<std::int64_t>(little_endian(map_.bytes(), place, width));
    if (token >= header_.vocabulary) {
      throw usage_error(scope_of(path_), "expected ids below {} (its vocabulary), got {} at {}",
                        header_.vocabulary, token, (place - kHeaderBytes) / width);
    }
    place += width;
  }
}

void TokenShard::verify() const {
  const std::string hash = base::sha256_hex(map_.bytes().substr(kHeaderBytes));
  if (hash != header_.sha256) {
    throw usage_error(scope_of(path_), "expected ids with SHA-256 {}, got {}; the file was damaged",
                      header_.sha256, hash);
  }
  std::vector<std::int64_t> some(1 << 16);
  for (std::int64_t begin = 0; begin < header_.tokens; begin += std::ssize(some)) {
    const auto count = std::min<std::int64_t>(std::ssize(some), header_.tokens - begin);
    read(begin, std::span(some).first(static_cast<std::size_t>(count)));
  }
}

TokenShardWriter::TokenShardWriter(const std::filesystem::path& path, std::int64_t vocabulary,
                                   std::string_view tokenizer)
    : path_(path) {
  assert(vocabulary >= 1 && vocabulary <= kLargestVocabulary && tokenizer.size() <= kNameBytes);
  header_.vocabulary = vocabulary;
  header_.bytes_per_id = vocabulary <= 1 << 16 ? 2 : 4;
  header_.tokenizer = tokenizer;
  file_ = std::fopen(path.c_str(), "wbx");
  if (file_ == nullptr) {
    throw base::environment_error(scope_of(path_), "expected to create a new file, got: {}",
                                  std::strerror(errno));
  }
  write(std::string(kHeaderBytes, '\0'));
}

TokenShardWriter::~TokenShardWriter() {
  if (file_ != nullptr) std::fclose(file_);
}

void TokenShardWriter::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
    throw base::environment_error(scope_of(path_), "expected to write {} bytes, got: {}",
                                  bytes.size(), std::strerror(errno));
  }
}

void TokenShardWriter::append(std::span<const lm::TokenId> tokens) {
  encoded_.clear();
  for (const lm::TokenId token : tokens) {
    if (token < 0 || token >= header_.vocabulary) {
      throw usage_error(scope_of(path_), "expected ids of 0..{}, got {}", header_.vocabulary - 1,
                        token);
    }
    put_little_endian(encoded_, static_cast<std::uint64_t>(token),
                      static_cast<std::size_t>(header_.bytes_per_id));
  }
  hash_.update(encoded_);
  write(encoded_);
  header_.tokens += std::ssize(tokens);
}

ShardHeader TokenShardWriter::finish() {
  header_.sha256 = hash_.finish_hex();
  const bool at_start = std::fseek(file_, 0, SEEK_SET) == 0;
  if (at_start) write(encode(header_));
  const bool good = at_start && std::fflush(file_) == 0 && ::fsync(::fileno(file_)) == 0;
  const int error = errno;
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  if (!good || !closed) {
    throw base::environment_error(scope_of(path_), "expected to finish the file, got: {}",
                                  std::strerror(error));
  }
  return header_;
}

}  // namespace kvphase::train
