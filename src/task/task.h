// A task makes prompts whose target sits at a chosen position. Knows no model and no statistics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "lm/language_model.h"

namespace kvphase::task {

// One prompt of an item at one residue. Positions are zero-based token positions in request.prompt.
struct Prompt {
  std::int64_t item = 0;
  std::int64_t residue = 0;          // target_position mod R
  std::int64_t target_position = 0;  // of the target key's first token
  std::int64_t query_position = 0;   // the token after it is the answer
  lm::ScoreRequest request;
  std::vector<lm::TokenId> other_answers;  // right answers to other questions of the same prompt
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

  virtual std::string token_name(lm::TokenId token) const = 0;
};

}  // namespace kvphase::task
