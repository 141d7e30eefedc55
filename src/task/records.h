// The needle test of the paper (arXiv 2609.36322) for any context length, in words: a long list of
// key-value records in filler, some questions answered as demonstrations, then the item's key; the
// answer is its value.
//
//   preamble | front filler, list (B tokens: records and filler), back filler | demonstrations |
//   " key is"
//
// A record is " key is value" with a key of one or two words: three or four tokens. Every word is
// one token, so every position in the list is known on every route.
//
// Many items share one haystack: they ask for different records of the same list. Its R shifted
// versions serve all of them, so a server's prompt cache reads one version once for all items of
// the haystack. Targets of one haystack stand in cells of the list of equal width, one per cell,
// and take all base residues equally often: a version has items at every residue, so what one
// haystack or one version does to its answers is no phase effect.
//
// Positions: item n has class c = its base mod R (a snake over each R items that follow one
// another) and a base c + R*(q + h), q of its cell, h in {0, 1} with P(h=1|c) = (R-1-c)/R, as in
// position_design.h: equal means over residues for any multiple of R items, equal variances up to
// R*R/4 tokens^2, a tiny share of the square of a cell's distance from the middle.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "task/task.h"

namespace kvphase::task {

struct RecordsOptions {
  std::vector<std::string> words;   // one token each after a blank; without kConnector
  std::int64_t haystack = 4096;     // tokens of the list and its filler
  std::int64_t records = 256;       // per haystack
  std::int64_t key_words = 2;       // 1 or 2
  std::int64_t per_haystack = 32;   // items of one haystack; rounded up to a multiple of R
  std::int64_t demonstrations = 4;  // of records that no item asks for
  std::int64_t modulus = 8;         // R
  bool every_residue = false;       // of an R over 64
  std::int64_t items = 96;          // rounded up to whole haystacks
  PadAt pad_at = PadAt::kSplit;
  std::uint64_t seed = 1;
  std::int64_t max_tokens = 32;
  // Tokens of the texts that are not counted, as the server counts them: then every reply's count
  // of prompt tokens is checked.
  std::optional<std::int64_t> constant_tokens;
};

inline constexpr const char* kConnector = "is";

// Words for that many distinct keys of a haystack, values and fillers.
std::size_t words_for_records(std::int64_t records, std::int64_t key_words);

class RecordsTask final : public Task {
 public:
  // Throws a usage error when words, records or cells do not fit.
  explicit RecordsTask(const RecordsOptions& options);

  std::string name() const override { return "records"; }
  std::string padding() const override { return std::string(name_of(options_.pad_at)); }
  PadAt pad_at() const override { return options_.pad_at; }
  std::int64_t modulus() const override { return options_.modulus; }
  std::vector<std::int64_t> residues() const override { return residues_; }
  std::int64_t items() const override { return options_.items; }
  std::int64_t longest_prompt() const override;
  base::Json options() const override;
  Prompt prompt(std::int64_t item, std::int64_t residue) const override;
  std::int64_t haystack(std::int64_t item, std::int64_t residue) const override;
  std::int64_t block_items() const override { return options_.per_haystack; }
  std::string token_name(lm::TokenId token) const override;
  std::string preamble() const override;
  std::vector<std::string> one_token_words() const override;
  std::int64_t recount(const Prompt& prompt) const override;
  CostShape cost_shape() const override;
  Anatomy anatomy(const Prompt& prompt) const override;

 private:
  struct Haystack;
  std::shared_ptr<const Haystack> haystack_of(std::int64_t item) const;
  std::shared_ptr<const Haystack> make_haystack(std::int64_t index) const;
  std::int64_t record_tokens() const { return options_.key_words + 2; }
  std::int64_t key_count() const;  // distinct keys that the words make
  std::string key_text(std::int64_t key) const;
  std::string record_text(std::int64_t key, std::int64_t value) const;
  std::int64_t class_of(std::int64_t item) const;
  std::int64_t base_of(std::int64_t item) const;  // of the target in the list
  PadPlace place_of(std::int64_t item) const;
  std::string filler(std::uint64_t part, std::int64_t haystack, std::int64_t count) const;
  std::int64_t question_tokens() const;
  std::int64_t list_tokens() const;  // B

  RecordsOptions options_;
  std::vector<std::string> fillers_;
  std::vector<std::string> values_;
  std::vector<std::string> keys_;
  std::vector<std::int64_t> residues_;
  std::int64_t class_step_ = 1;
  mutable std::mutex mutex_;  // of last_
  mutable std::shared_ptr<const Haystack> last_;
};

}  // namespace kvphase::task
