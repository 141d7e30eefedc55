// The paper's lookup task (arXiv 2609.36322) in the lookup language: a list of key-value records in
// filler, some queries answered as demonstrations, then the target key; the right next token is its
// value.
//
//   haystack (H tokens: filler and N records) | separator | D demonstrations "key value" | target
//   key
//
// Every item is asked at all R residues of the target key's position. What stays fixed within an
// item: its records and their order, the question, the fillers and their order, the prompt's length
// and the query position. Only the places of the records among the fillers differ:
//   prefix padding       the whole list moves together through R-1 tokens of filler
//   in-sequence padding  the target moves the same way, the places of the other records are drawn
//                        anew for every residue, so that their phases do not move in lockstep with
//                        the target's
//   around-target        the target alone moves: the records before it stay, and so do those after
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "task/lookup_language.h"
#include "task/task.h"

namespace kvphase::task {

enum class Padding { kPrefix, kInSequence, kAroundTarget };

std::string name_of(Padding padding);              // as --padding says it: "in-sequence"
std::vector<std::string> padding_names();          // all of them
Padding padding_from_name(std::string_view name);  // throws a usage error with the nearest name

struct LookupOptions {
  LookupLanguage language;          // haystack, records, token ranges; its `queries` is not used
  std::int64_t demonstrations = 8;  // D, answered queries before the target's; < records
  Padding padding = Padding::kPrefix;
  std::int64_t modulus = 24;  // R
  std::int64_t items = 576;   // rounded up to a multiple of R
  std::uint64_t seed = 1;
};

// Tokens in every prompt: haystack + 1 + 2*demonstrations + 1.
std::int64_t prompt_length(const LookupOptions& options);

class LookupTask final : public Task {
 public:
  // Throws a usage error when the sizes contradict each other, e.g. a haystack under 3R-1 tokens.
  explicit LookupTask(const LookupOptions& options);

  std::string name() const override { return "lookup"; }
  std::string padding() const override;
  std::int64_t modulus() const override { return options_.modulus; }
  std::int64_t items() const override { return options_.items; }
  std::int64_t longest_prompt() const override { return prompt_length(options_); }
  base::Json options() const override;
  Prompt prompt(std::int64_t item, std::int64_t residue) const override;
  std::string token_name(lm::TokenId token) const override;
  Anatomy anatomy(const Prompt& prompt) const override;

 private:
  struct Item;
  Item make_item(std::int64_t item) const;

  LookupOptions options_;
  std::vector<std::int64_t> bases_;
};

}  // namespace kvphase::task
