#include "lab/cycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "kernels/pool.h"
#include "lab/opened.h"
#include "lab/shared.h"

namespace kvphase::lab {
namespace {

using torch::Tensor;

constexpr const char* kScope = "cycle";

std::int64_t modulo(std::int64_t x, std::int64_t m) { return ((x % m) + m) % m; }

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() &&
         std::string_view(text).substr(text.size() - end.size()) == end;
}

// A network with the same weights, its gates' maps one per offset where a rotation mixes them.
std::shared_ptr<model::Transformer> cycled(const Opened& opened, std::int64_t delta,
                                           Rotation rotation, std::int64_t& rotated) {
  const torch::NoGradGuard no_grad;
  model::ModelConfig config = opened.config();
  const model::ChunkConfig chunk = config.chunk;
  const std::int64_t maps = model::gate_map_count(chunk);
  // One map for all offsets is the same after any rotation: only the biases move.
  if (maps > 1) config.chunk.gate_maps = model::GateMaps::kPerOffset;
  constexpr std::uint64_t kSeed = 1;  // overwritten below
  auto network = std::make_shared<model::Transformer>(config, kSeed);
  const auto from =
      torch::tensor(rotated_offsets(chunk.window, chunk.stride, delta, rotation), torch::kInt64);
  const auto source = opened.network->named_parameters();
  rotated = 0;
  for (auto& item : network->named_parameters()) {
    Tensor value = source[item.key()];
    if (ends_with(item.key(), "_gate.bias")) {
      value = value.index_select(0, from);  // [W, G * E]
      ++rotated;
    } else if (ends_with(item.key(), "_gate.weight") && maps > 1) {
      std::vector<std::int64_t> map;  // of each offset
      const kernels::ChunkGrid grid{.window = chunk.window, .stride = chunk.stride};
      for (std::int64_t i = 0; i < chunk.window; ++i) {
        map.push_back(kernels::map_of_offset(grid, maps, i));
      }
      value = value.unflatten(0, {maps, -1})
                  .index_select(0, torch::tensor(map, torch::kInt64))
                  .index_select(0, from)
                  .flatten(0, 1);
      ++rotated;
    }
    item.value().copy_(value);
  }
  return network;
}

}  // namespace

std::vector<std::int64_t> rotated_offsets(std::int64_t window, std::int64_t stride,
                                          std::int64_t delta, Rotation rotation) {
  if (rotation == Rotation::kWithinStrides && window % stride != 0) {
    throw base::usage_error(kScope,
                            "expected a window that is a multiple of the stride for --rotate "
                            "stride, got {} and {}; use --rotate window",
                            window, stride);
  }
  const std::int64_t period = rotation == Rotation::kWindow ? window : stride;
  std::vector<std::int64_t> from;
  for (std::int64_t i = 0; i < window; ++i) {
    from.push_back(i / period * period + modulo(i % period - delta, period));
  }
  return from;
}

Rotations distinct_rotations(const std::vector<std::int64_t>& deltas, std::int64_t period) {
  constexpr std::int64_t kDefault = 3;
  Rotations rotations;
  std::vector<std::int64_t> asked = deltas;
  if (asked.empty()) {
    const std::int64_t most = std::min(kDefault, period - 1);
    for (std::int64_t d = -most; d <= most; ++d) asked.push_back(d);
  }
  std::erase(asked, 0);
  if (asked.empty()) {
    throw base::usage_error(kScope, "expected a --delta other than 0, got 0 alone; give -1,1");
  }
  for (const std::int64_t delta : asked) {
    if (std::abs(delta) < period) continue;
    const std::int64_t rest = delta % period;
    throw base::usage_error(kScope,
                            "expected --delta from {} to {} (a full turn is {} offsets), got {}{}",
                            1 - period, period - 1, period, delta,
                            rest == 0 ? ", which leaves every gate where it was; 0 is always asked"
                                      : fmt::format(", the same rotation as {}; give that", rest));
  }
  const auto better = [](std::int64_t a, std::int64_t b) {
    return std::abs(a) != std::abs(b) ? std::abs(a) < std::abs(b) : a > b;
  };
  for (const std::int64_t delta : asked) {
    std::int64_t kept = delta;
    for (const std::int64_t other : asked) {
      if (modulo(other - delta, period) == 0 && better(other, kept)) kept = other;
    }
    if (kept == delta) {
      rotations.deltas.push_back(delta);
    } else {
      rotations.same.push_back({.left_out = delta, .kept = kept});
    }
  }
  return rotations;
}

CycleAnswers run_cycle(const std::filesystem::path& checkpoint, const CycleOptions& options,
                       record::RunContext& context, const OnProgress& progress) {
  const task::LookupTask task(options.lookup);
  check_stride(options.stride, task.modulus(), kScope);
  const Opened opened = open(checkpoint);
  identify(opened, context);
  check_fits(opened, task, kScope);
  warn_of_rounded_items(options.lookup.items, task.items(), task.modulus(), context);
  const std::vector<Place> places = all_places(task);
  const model::ModelConfig& config = opened.config();
  CycleAnswers answers{.items = task.items(), .modulus = task.modulus()};
  if (!model::has_chunked_layer(config)) return answers;
  answers.window = config.chunk.window;
  answers.aligned = config.chunk.grid == model::GridKind::kAligned;
  const bool by_window = options.rotation == Rotation::kWindow;
  Rotations rotations =
      distinct_rotations(options.deltas, by_window ? config.chunk.window : config.chunk.stride);
  answers.deltas = {0};
  answers.deltas.insert(answers.deltas.end(), rotations.deltas.begin(), rotations.deltas.end());
  answers.same = std::move(rotations.same);
  context.prompt_set_sha256 = prompt_set_sha256(task, places, options.run.scope);
  const auto all = static_cast<std::int64_t>(places.size() * answers.deltas.size());
  std::int64_t before = 0;
  for (const std::int64_t delta : answers.deltas) {
    const auto network = cycled(opened, delta, options.rotation, answers.rotated);
    if (answers.rotated == 0) {
      answers.deltas = {0};  // nothing can move
      return answers;
    }
    std::vector<std::uint8_t> right(places.size());
    for_each_batch(
        task, places, options.run,
        [&](const Batch& batch) {
          const Tensor rows = torch::full({1}, batch.tokens.size(1) - 1, torch::kInt64);
          const Tensor top = network->forward_at(batch.tokens, rows).select(1, 0).argmax(-1);
          const auto tops = top.accessor<std::int64_t, 1>();
          for (std::int64_t b = 0; b < batch.size(); ++b) {
            right[batch.first + static_cast<std::size_t>(b)] =
                tops[b] == batch.prompts[static_cast<std::size_t>(b)].request.target ? 1 : 0;
          }
        },
        [&](std::int64_t done, std::int64_t) {
          if (progress) progress(before + done, all);
        });
    before += static_cast<std::int64_t>(places.size());
    answers.right.push_back(std::move(right));
  }
  return answers;
}

}  // namespace kvphase::lab
