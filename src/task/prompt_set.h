// Which prompts were asked, as one number: two results with the same one asked the same prompts in
// the same order.
#pragma once

#include <string>

#include "base/hash.h"
#include "task/task.h"

namespace kvphase::task {

// SHA-256 over item, residue, tokens and right answer of every prompt, in plan order; of a prompt
// in words over its pieces and the expected answer in place of tokens.
class PromptSetHash {
 public:
  void add(const Prompt& prompt);
  std::string finish_hex() { return hash_.finish_hex(); }

 private:
  base::Sha256 hash_;
};

}  // namespace kvphase::task
