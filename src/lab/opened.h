// A trained checkpoint opened for looking inside, and prompts of the lookup task in batches through
// it. Threads run whole batches side by side; results depend on neither their number nor the batch
// size beyond the last bits.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lab/lookup_run.h"
#include "model/transformer.h"
#include "record/context.h"
#include "task/lookup.h"

namespace kvphase::lab {

struct Opened {
  std::string name;  // the folder's
  std::string sha256;
  std::shared_ptr<model::Transformer> network;
  const model::ModelConfig& config() const { return network->config(); }
};

// Throws a usage error for a folder that is no complete checkpoint.
Opened open(const std::filesystem::path& folder);

// Says in a record which model it is.
void identify(const Opened& opened, record::RunContext& context);

// Throws a usage error where the task's prompts do not fit the model.
void check_fits(const Opened& opened, const task::LookupTask& task, const std::string& scope);

// An item at a residue.
struct Place {
  std::int64_t item = 0;
  std::int64_t residue = 0;
};
// Every item at every residue, item by item.
std::vector<Place> all_places(const task::LookupTask& task);
// `count` items, each at one residue, all residues alike often.
std::vector<Place> one_each(const task::LookupTask& task, std::int64_t count);

// Of the prompts at these places, in their order; of all_places() the number that an audit of the
// same prompts has. Throws kInterrupted, too.
std::string prompt_set_sha256(const task::LookupTask& task, const std::vector<Place>& places,
                              const std::string& scope);

struct Batch {
  std::size_t first = 0;              // its first prompt among all places
  std::vector<task::Prompt> prompts;  // B
  torch::Tensor tokens;               // [B, T] int64

  std::int64_t size() const { return tokens.size(0); }
  torch::Tensor all_but_last() const { return tokens.narrow(1, 0, tokens.size(1) - 1); }
  torch::Tensor last() const { return tokens.narrow(1, tokens.size(1) - 1, 1); }
};

// Calls work for every batch, on several threads at once where threads > 1. Without gradients.
// Throws kInterrupted between two batches when the user asked to stop.
void for_each_batch(const task::LookupTask& task, const std::vector<Place>& places,
                    const RunOptions& options, const std::function<void(const Batch&)>& work,
                    const OnProgress& progress = {});

// The same for `count` rows of `length` tokens that read() fills in; a batch has no prompts then.
// read() is called from several threads at once, too.
void for_each_batch(std::int64_t count, std::int64_t length, const RunOptions& options,
                    const std::function<void(std::int64_t row, std::span<std::int64_t>)>& read,
                    const std::function<void(const Batch&)>& work, const OnProgress& progress = {});

// A look into all layers, with no edits yet.
model::Look look_into(const model::Transformer& network);

}  // namespace kvphase::lab
