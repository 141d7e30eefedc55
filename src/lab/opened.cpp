#include "lab/opened.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/stop.h"
#include "model/checkpoint.h"
#include "model/threads.h"
#include "task/prompt_set.h"

namespace kvphase::lab {

Opened open(const std::filesystem::path& folder) {
  model::Checkpoint checkpoint = model::read_checkpoint(folder);
  model::compute_on_calling_thread();
  constexpr std::uint64_t kSeed = 1;  // overwritten by the weights
  Opened opened{.sha256 = checkpoint.sha256,
                .network = std::make_shared<model::Transformer>(checkpoint.config, kSeed)};
  model::load_weights(*opened.network, checkpoint.weights, folder.string());
  const std::filesystem::path clean = std::filesystem::weakly_canonical(folder);
  opened.name = clean.filename().string();
  // A study's checkpoints are all called "model"; their cell is their name.
  if (opened.name == "model" && clean.has_parent_path()) {
    opened.name = clean.parent_path().filename().string();
  }
  return opened;
}

void identify(const Opened& opened, record::RunContext& context) {
  context.model_name = opened.name;
  context.model_kind = "checkpoint";
  context.model_sha256 = opened.sha256;
  context.model_config = model::to_json(opened.config());
}

void check_fits(const Opened& opened, const task::LookupTask& task, const std::string& scope) {
  const std::int64_t longest = task.longest_prompt(), context = opened.config().context_length;
  if (longest > context) {
    throw base::usage_error(scope,
                            "expected prompts of at most {} tokens (the model's context), got {}; "
                            "use fewer records, demonstrations or a shorter haystack",
                            context, longest);
  }
}

std::vector<Place> all_places(const task::LookupTask& task) {
  std::vector<Place> places;
  for (std::int64_t item = 0; item < task.items(); ++item) {
    for (std::int64_t r = 0; r < task.modulus(); ++r) places.push_back({item, r});
  }
  return places;
}

std::vector<Place> one_each(const task::LookupTask& task, std::int64_t count) {
  std::vector<Place> places;
  for (std::int64_t item = 0; item < std::min(count, task.items()); ++item) {
    // Not item mod R alone: an item's base position has that residue.
    places.push_back({item, (item + item / task.modulus()) % task.modulus()});
  }
  return places;
}

std::string prompt_set_sha256(const task::LookupTask& task, const std::vector<Place>& places,
                              const std::string& scope) {
  task::PromptSetHash hash;
  for (const Place& place : places) {
    base::stop_if_requested(scope);
    hash.add(task.prompt(place.item, place.residue));
  }
  return hash.finish_hex();
}

namespace {

// fill() gives a batch that has its first row its tokens [end - first, length].
void for_each_slice(std::int64_t all, std::int64_t length, const RunOptions& options,
                    const std::function<void(Batch&, std::int64_t end)>& fill,
                    const std::function<void(const Batch&)>& work, const OnProgress& progress) {
  const std::int64_t size = std::max<std::int64_t>(1, options.batch_tokens / length);
  const std::int64_t batches = (all + size - 1) / size;
  const std::int64_t shards = std::clamp<std::int64_t>(batches, 1, options.threads);
  std::mutex mutex;
  std::int64_t done = 0;
  model::run_shards(shards, [&](std::int64_t shard) {
    const torch::NoGradGuard no_grad;
    const std::int64_t end = model::shard_begin(batches, shards, shard + 1);
    for (std::int64_t b = model::shard_begin(batches, shards, shard); b < end; ++b) {
      base::stop_if_requested(options.scope);
      const std::int64_t last = std::min(all, (b + 1) * size);
      Batch batch{.first = static_cast<std::size_t>(b * size)};
      fill(batch, last);
      work(batch);
      if (!progress) continue;
      const std::scoped_lock lock(mutex);
      done += last - b * size;
      progress(done, all);
    }
  });
}

}  // namespace

void for_each_batch(const task::LookupTask& task, const std::vector<Place>& places,
                    const RunOptions& options, const std::function<void(const Batch&)>& work,
                    const OnProgress& progress) {
  const auto fill = [&](Batch& batch, std::int64_t end) {
    const auto last = static_cast<std::size_t>(end);
    for (std::size_t i = batch.first; i < last; ++i) {
      batch.prompts.push_back(task.prompt(places[i].item, places[i].residue));
    }
    batch.tokens =
        torch::empty({std::ssize(batch.prompts), batch.prompts.front().length}, torch::kInt64);
    auto* next = batch.tokens.data_ptr<std::int64_t>();
    for (const task::Prompt& prompt : batch.prompts) {
      next = std::copy(prompt.request.prompt.begin(), prompt.request.prompt.end(), next);
    }
  };
  for_each_slice(std::ssize(places), task.longest_prompt(), options, fill, work, progress);
}

void for_each_batch(std::int64_t count, std::int64_t length, const RunOptions& options,
                    const std::function<void(std::int64_t, std::span<std::int64_t>)>& read,
                    const std::function<void(const Batch&)>& work, const OnProgress& progress) {
  const auto fill = [&](Batch& batch, std::int64_t end) {
    const auto first = static_cast<std::int64_t>(batch.first);
    batch.tokens = torch::empty({end - first, length}, torch::kInt64);
    auto* next = batch.tokens.data_ptr<std::int64_t>();
    for (std::int64_t row = first; row < end; ++row, next += length) {
      read(row, {next, static_cast<std::size_t>(length)});
    }
  };
  for_each_slice(count, length, options, fill, work, progress);
}

model::Look look_into(const model::Transformer& network) {
  return {.layers =
              std::vector<model::LayerLook>(static_cast<std::size_t>(network.config().layers))};
}

}  // namespace kvphase::lab
