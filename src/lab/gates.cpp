#include "lab/gates.h"

#include "compress/gated_pool.h"
#include "lab/opened.h"

namespace kvphase::lab {
namespace {

using torch::Tensor;

constexpr const char* kScope = "gates";

const compress::GatedPool* pool_of(const model::Transformer& network, std::int64_t layer) {
  return dynamic_cast<const compress::GatedPool*>(network.attention(layer).compressor());
}

// The first window of a head that is not cut at the sequence's start.
std::int64_t first_whole(const kernels::ChunkGrid& grid, std::size_t head) {
  std::int64_t entry = 0;
  while (grid.end(head, entry) - grid.window + 1 < 0) ++entry;
  return entry;
}

std::vector<GateSums> gates_of(const Opened& opened, const GateOptions& options) {
  std::vector<GateSums> gates;
  const model::ModelConfig& config = opened.config();
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    if (pool_of(*opened.network, layer) == nullptr) continue;
    const kernels::ChunkGrid& grid = opened.network->attention(layer).grid();
    for (std::int64_t head = 0; head < config.kv_heads; ++head) {
      for (const bool of_values : {false, true}) {
        if (of_values && config.chunk.tied_kv) continue;
        const bool vector_gate = config.chunk.gate == model::GateKind::kVector;
        GateSums gate{.layer = layer,
                      .head = head,
                      .of_values = of_values,
                      .window = grid.window,
                      .channels = vector_gate ? config.head_width : 1};
        const std::int64_t begin =
            grid.first_end[static_cast<std::size_t>(head)] - grid.window + 1;  // may be negative
        for (std::int64_t i = 0; i < grid.window; ++i) {
          gate.phase_of_offset.push_back(((begin + i) % grid.stride + grid.stride) % grid.stride);
        }
        gate.rows.resize(
            static_cast<std::size_t>(options.prompts * (gate.channels * gate.window + 2)));
        gates.push_back(std::move(gate));
      }
    }
  }
  return gates;
}

// Adds a batch's windows: weights [B or 1, M, G, W, E] of one branch of a layer.
void add(GateSums& gate, const Batch& batch, const Tensor& weights, std::int64_t first,
         std::int64_t count) {
  const Tensor own = weights.select(2, gate.head)
                         .narrow(1, first, count)
                         .to(torch::kDouble)
                         .expand({batch.size(), count, gate.window, -1});  // [B, M', W, E]
  const Tensor entropy = -torch::special::xlogy(own, own).sum(2);          // [B, M', E]
  const Tensor effective = entropy.exp().mean(2).sum(1);                   // [B]
  const Tensor mass = own.sum(1).transpose(1, 2).flatten(1);               // [B, E * W]
  const Tensor windows = torch::full({batch.size()}, static_cast<double>(count), torch::kDouble);
  const Tensor rows =
      torch::cat({mass, effective.unsqueeze(1), windows.unsqueeze(1)}, 1).contiguous();
  const auto columns = static_cast<std::size_t>(rows.size(1));
  std::copy_n(rows.data_ptr<double>(), rows.numel(),
              gate.rows.begin() + static_cast<std::ptrdiff_t>(batch.first * columns));
}

}  // namespace

GateReading read_gates(const std::filesystem::path& checkpoint, const GateOptions& options,
                       record::RunContext& context, const OnProgress& progress) {
  const Opened opened = open(checkpoint);
  identify(opened, context);
  const task::LookupTask task(options.lookup);
  check_fits(opened, task, kScope);
  const std::vector<Place> places = one_each(task, options.prompts);
  GateReading reading{.prompts = std::ssize(places), .tokens = task.longest_prompt()};
  reading.gates = gates_of(opened, options);
  if (reading.gates.empty()) return reading;
  for_each_batch(
      task, places, options.run,
      [&](const Batch& batch) {
        model::DecodeState state = opened.network->start(batch.size());
        std::vector<Tensor> inputs;
        opened.network->prefill(batch.tokens, state, &inputs);
        for (GateSums& gate : reading.gates) {
          const kernels::ChunkGrid& grid = opened.network->attention(gate.layer).grid();
          const auto head = static_cast<std::size_t>(gate.head);
          const std::int64_t first = first_whole(grid, head);
          const std::int64_t count = grid.completed(head, reading.tokens) - first;
          if (count < 1) continue;
          add(gate, batch,
              pool_of(*opened.network, gate.layer)
                  ->weights(inputs[static_cast<std::size_t>(gate.layer)], grid, gate.of_values),
              first, count);
        }
      },
      progress);
  return reading;
}

}  // namespace kvphase::lab
