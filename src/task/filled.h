// A prompt text with slots, filled item by item: filler before and behind a needle, the needle, the
// question. The one task behind `needle`, `completion` and user templates.
//
//   text before the first filler (constant) | filler | text with the needle | filler | text with
//   the question
//
// Filler is words of one token each, so its positions are known on every route; the tokens of the
// other texts are known where the model's tokenizer can be asked (count_tokens) and count 0
// elsewhere. What moves (pad.h):
//   split, two-factor  the needle is inserted later into one stream of filler, which stays
//   start              filler is put in front of everything
//   before-needle      filler is put between what stands before the needle and the needle
//   after-needle       the filler behind the needle gets longer
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "task/catalog.h"
#include "task/grade.h"
#include "task/slots.h"
#include "task/task.h"

namespace kvphase::task {

struct FilledItem {
  std::string needle;
  std::string question;
  std::string answer;
  std::vector<std::string> others;  // answers to other questions of the same prompt
};

// Filler of one kind: words drawn at random, one repeated where there is only one.
struct FillerFamily {
  std::string name;
  std::vector<std::string> words;  // one token each after a blank
};

struct FilledOptions {
  std::string name = "template";
  std::vector<Segment> segments;
  std::vector<FilledItem> entries;     // item i fills in entry i mod their number
  std::vector<FillerFamily> families;  // used in turn, one after another by blocks of R items
  std::int64_t haystack = 2048;        // filler tokens
  double depth = 0.5;                  // 0..1: where in the filler the needle stands
  std::int64_t modulus = 8;            // R
  bool every_residue = false;
  std::int64_t items = 16;  // rounded up to a multiple of R (of 8 where R is over 64)
  PadAt pad_at = PadAt::kSplit;
  std::uint64_t seed = 1;
  std::int64_t max_tokens = 32;
  std::vector<std::string> stop;
  std::vector<std::string> candidates;  // continuations to compare, the right one first
  Grading grading = Grading::kContains;
  CountTokens count_tokens;
  std::optional<std::int64_t> constant_tokens;  // as TaskSettings; only without count_tokens
};

class FilledTask final : public Task {
 public:
  // Throws a usage error for sizes that do not fit or slots that the padding needs; a phase-control
  // error where the prompt's end should move but its place is unknown, because items' texts differ
  // and no tokenizer counts them.
  explicit FilledTask(const FilledOptions& options);

  std::string name() const override { return options_.name; }
  std::string padding() const override { return std::string(name_of(options_.pad_at)); }
  PadAt pad_at() const override { return options_.pad_at; }
  std::int64_t modulus() const override { return options_.modulus; }
  std::vector<std::int64_t> residues() const override { return residues_; }
  std::int64_t items() const override { return options_.items; }
  std::int64_t longest_prompt() const override;
  base::Json options() const override;
  Prompt prompt(std::int64_t item, std::int64_t residue) const override;
  std::int64_t haystack(std::int64_t item, std::int64_t residue) const override;
  std::string token_name(lm::TokenId) const override { return ""; }
  std::string preamble() const override { return preamble_; }
  std::vector<std::string> one_token_words() const override;
  std::int64_t recount(const Prompt& prompt) const override;
  CostShape cost_shape() const override;
  Grade grade(const Prompt& prompt, const lm::AnswerReply& reply) const override;
  Anatomy anatomy(const Prompt& prompt) const override;

 private:
  // The texts of an entry and their tokens.
  struct Filled {
    std::string middle;     // between the fillers, the needle in it
    std::string tail;       // behind them
    std::int64_t lead = 0;  // tokens of the middle in front of the needle
    std::int64_t middle_tokens = 0;
    std::int64_t tail_tokens = 0;
  };
  Filled fill(const FilledItem& entry) const;
  const Filled& filled_of(std::int64_t item) const;
  const FillerFamily& family_of(std::int64_t item) const;
  std::int64_t base_of(std::int64_t item) const;  // filler tokens before the needle, no padding
  std::int64_t stream_tokens() const;             // filler tokens, no padding
  PadPlace place_of(std::int64_t item) const;

  FilledOptions options_;
  std::string preamble_;
  std::vector<Filled> filled_;  // of the entries
  std::vector<std::int64_t> residues_;
  std::int64_t class_step_ = 1;
  bool has_after_ = false;
};

}  // namespace kvphase::task
