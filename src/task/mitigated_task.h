// A task whose prompts went through a mitigation (mitigate.h). Internal to task/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "task/mitigate.h"
#include "task/task.h"

namespace kvphase::task {

class MitigatedTask final : public Task {
 public:
  // Makes one prompt of every item. Throws as mitigate().
  MitigatedTask(std::unique_ptr<Task> plain, const MitigationOptions& options);

  std::string name() const override { return plain_->name(); }
  std::string padding() const override { return plain_->padding(); }
  PadAt pad_at() const override { return plain_->pad_at(); }
  std::int64_t modulus() const override { return plain_->modulus(); }
  std::vector<std::int64_t> residues() const override { return plain_->residues(); }
  std::int64_t items() const override { return plain_->items() * votes(); }
  std::int64_t longest_prompt() const override { return plain_->longest_prompt() + most_extra_; }
  base::Json options() const override;
  Prompt prompt(std::int64_t item, std::int64_t residue) const override;
  std::int64_t haystack(std::int64_t item, std::int64_t residue) const override;
  std::int64_t block_items() const override { return plain_->block_items() * votes(); }
  std::string token_name(lm::TokenId token) const override { return plain_->token_name(token); }
  std::string preamble() const override;
  std::vector<std::string> one_token_words() const override { return plain_->one_token_words(); }
  std::int64_t recount(const Prompt& prompt) const override;
  CostShape cost_shape() const override;
  std::string mitigation() const override;
  std::int64_t votes() const override;
  Grade grade(const Prompt& prompt, const lm::AnswerReply& reply) const override;

  double mean_extra_tokens() const;
  const Task& plain() const { return *plain_; }

 private:
  // What an item's prompts have more than the plain ones, in tokens.
  struct Extra {
    std::int64_t front = 0;  // in front of the target
    std::int64_t all = 0;
  };
  void refuse_impossible() const;
  std::vector<std::int64_t> random_fronts() const;
  Extra extra_of(std::int64_t item) const;
  std::int64_t plain_residue(std::int64_t item, std::int64_t residue) const;
  Prompt transform(Prompt plain, std::int64_t front) const;  // of a plain item's

  std::unique_ptr<Task> plain_;
  MitigationOptions options_;
  std::string intro_;          // behind the preamble
  std::vector<Extra> extras_;  // of the plain items
  std::int64_t most_extra_ = 0;
};

}  // namespace kvphase::task
