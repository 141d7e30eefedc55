// A task makes prompts whose target sits at a chosen position. Knows no model and no statistics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "lm/language_model.h"

namespace kvphase::task {

// One prompt of an item at one residue, in ids (`request`) or in words. Positions are zero-based
// token positions from the first token that we send; what a server puts in front is added later.
struct Prompt {
  std::int64_t item = 0;
  std::int64_t residue = 0;          // of the position that the task moves, mod R
  std::int64_t target_position = 0;  // of the target's first token
  std::int64_t query_position = 0;   // the token after it is the answer; of a prompt in words whose
                                     // token count is unknown: counted as if each such part were 0
  std::int64_t length = 0;           // tokens, likewise
  std::int64_t haystack = -1;        // prompts of the same one share their beginning; -1: alone

  lm::ScoreRequest request;
  std::vector<lm::TokenId> other_answers;  // right answers to other questions of the same prompt

  std::optional<lm::AnswerRequest> words;  // in place of the three above
  std::string expected;                    // the right answer
  std::vector<std::string> other_texts;    // right answers to other questions of the same prompt
};

// What an answer in words is worth.
struct Grade {
  std::string reply_class;      // "exact" | "near_miss" | "other_record" | "wrong" | ...
  std::optional<bool> correct;  // empty: no usable answer
};

class Task {
 public:
  virtual ~Task() = default;

  virtual std::string name() const = 0;      // "lookup"
  virtual std::string padding() const = 0;   // "prefix" | "in-sequence"
  virtual std::int64_t modulus() const = 0;  // R: every item has one prompt per residue 0..R-1
  virtual std::int64_t items() const = 0;
  virtual std::int64_t longest_prompt() const = 0;  // tokens, known without making prompts
  virtual base::Json options() const = 0;  // everything that shapes the prompts, for the manifest

  // item in 0..items()-1, residue in 0..R-1. Depends on nothing else: the same call, the same
  // prompt.
  virtual Prompt prompt(std::int64_t item, std::int64_t residue) const = 0;

  virtual std::string token_name(lm::TokenId token) const = 0;  // for people

  // Of an answered reply to a prompt in words.
  virtual Grade grade(const Prompt& prompt, const lm::AnswerReply& reply) const;
};

}  // namespace kvphase::task
