// A task makes prompts whose target sits at a chosen position. Knows no model and no statistics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "lm/language_model.h"
#include "task/anatomy.h"
#include "task/pad.h"

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

// What decides the price of a task's prompts. Tokens that we cannot count are 0.
struct CostShape {
  std::int64_t prompt_tokens = 0;      // of a prompt, at most
  std::int64_t shared_tokens = 0;      // of these, those that it shares with its haystack's others
  std::int64_t haystacks = 0;          // distinct shared beginnings; 0: nothing is shared
  std::int64_t completion_tokens = 1;  // at most, per prompt
};

class Task {
 public:
  virtual ~Task() = default;

  virtual std::string name() const = 0;      // "lookup"
  virtual std::string padding() const = 0;   // "prefix" | "in-sequence" | "around-target"
  virtual std::int64_t modulus() const = 0;  // R: every item has one prompt per residue 0..R-1
  // The residues at which every item is asked, increasing; all of 0..R-1 unless the task says less.
  virtual std::vector<std::int64_t> residues() const;
  virtual std::int64_t items() const = 0;
  virtual std::int64_t longest_prompt() const = 0;  // tokens, known without making prompts
  virtual base::Json options() const = 0;  // everything that shapes the prompts, for the manifest

  // item in 0..items()-1, residue in 0..R-1. Depends on nothing else: the same call, the same
  // prompt.
  virtual Prompt prompt(std::int64_t item, std::int64_t residue) const = 0;

  // The haystack of that prompt, as in Prompt, without making it. One haystack's prompts stand
  // together in groups of block_items() items.
  virtual std::int64_t haystack(std::int64_t item, std::int64_t residue) const;
  virtual std::int64_t block_items() const { return 1; }

  virtual std::string token_name(lm::TokenId token) const = 0;  // for people

  // Where the filler goes.
  virtual PadAt pad_at() const { return PadAt::kSplit; }
  // Of prompts in words: the constant text in front of every counted token. Its number of tokens,
  // where a tokenizer tells it, belongs in front of every position; else phases are relative.
  virtual std::string preamble() const { return ""; }
  // Of prompts in words: texts that must be one token each after a blank, or counts are wrong.
  virtual std::vector<std::string> one_token_words() const { return {}; }
  // The tokens of a prompt in words, counted from its text and not from how it was made, with texts
  // of unknown count as 0. The plan check refuses a prompt where this is not Prompt::length.
  virtual std::int64_t recount(const Prompt& prompt) const;

  // What all prompts cost; see plan_cost().
  virtual CostShape cost_shape() const;

  // What a mitigation may know of one of its prompts. By default nothing: no mitigation fits.
  virtual Anatomy anatomy(const Prompt& prompt) const;
  // What the prompts went through (mitigate.h), as the record says it; empty: they are plain.
  virtual std::string mitigation() const { return ""; }
  // Prompts whose answers vote for one: prompt n*votes()+v is version v of prompt n.
  virtual std::int64_t votes() const { return 1; }

  // Of an answered reply to a prompt in words.
  virtual Grade grade(const Prompt& prompt, const lm::AnswerReply& reply) const;
};

}  // namespace kvphase::task
