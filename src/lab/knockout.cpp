#include "lab/knockout.h"

#include <fmt/format.h>

#include <unordered_set>

#include "base/error.h"
#include "base/random.h"
#include "lab/opened.h"
#include "lab/shared.h"

namespace kvphase::lab {
namespace {

using torch::Tensor;

constexpr const char* kScope = "knockout";

// Per layer what replaces an output: [1, H, D], or [N, H, D] of N calibration prompts.
using Replacements = std::vector<Tensor>;

std::string text_of(const std::vector<lm::TokenId>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(lm::TokenId)};
}

// Prompts of other items; the seed alone makes them disjoint but for chance, which is checked.
task::LookupTask calibration_task(const KnockoutOptions& options) {
  task::LookupOptions lookup = options.lookup;
  lookup.items = options.calibration;
  lookup.seed = base::derive_seed(options.seed, "knockout.calibration");
  return task::LookupTask(lookup);
}

void check_disjoint(const task::LookupTask& task, const task::LookupTask& calibration,
                    const std::vector<Place>& places) {
  std::unordered_set<std::string> seen;
  for (const Place& place : places) {
    seen.insert(text_of(calibration.prompt(place.item, place.residue).request.prompt));
  }
  for (std::int64_t item = 0; item < task.items(); ++item) {
    for (std::int64_t r = 0; r < task.modulus(); ++r) {
      if (!seen.contains(text_of(task.prompt(item, r).request.prompt))) continue;
      throw base::usage_error(kScope,
                              "expected calibration prompts that are not asked, got one that is; "
                              "choose another --seed");
    }
  }
}

// Outputs of every layer's heads at the query position: [N, H, D] each.
Replacements calibrate(const Opened& opened, const task::LookupTask& task,
                       const std::vector<Place>& places, const RunOptions& run) {
  const model::ModelConfig& config = opened.config();
  const auto count = static_cast<std::int64_t>(places.size());
  Replacements outputs(static_cast<std::size_t>(config.layers));
  for (Tensor& layer : outputs) {
    layer = torch::empty({count, config.query_heads, config.head_width});
  }
  for_each_batch(task, places, run, [&](const Batch& batch) {
    model::DecodeState state = opened.network->start(batch.size());
    opened.network->prefill(batch.all_but_last(), state);
    model::Look look = look_into(*opened.network);
    opened.network->decode(batch.last(), state, &look);
    for (std::size_t layer = 0; layer < outputs.size(); ++layer) {
      outputs[layer]
          .narrow(0, static_cast<std::int64_t>(batch.first), batch.size())
          .copy_(look.layers[layer].outputs.select(1, 0));
    }
  });
  return outputs;
}

Replacements replacements(const Opened& opened, const KnockoutOptions& options,
                          const task::LookupTask& task) {
  const model::ModelConfig& config = opened.config();
  if (options.replacement == Replacement::kZero) {
    return Replacements(static_cast<std::size_t>(config.layers),
                        torch::zeros({1, config.query_heads, config.head_width}));
  }
  if (options.calibration < 2) {
    throw base::usage_error(kScope, "expected at least 2 calibration prompts, got {}",
                            options.calibration);
  }
  const task::LookupTask calibration = calibration_task(options);
  const std::vector<Place> places = one_each(calibration, options.calibration);
  check_disjoint(task, calibration, places);
  Replacements outputs = calibrate(opened, calibration, places, options.run);
  if (options.replacement == Replacement::kMean) {
    for (Tensor& layer : outputs) {
      layer = layer.to(torch::kDouble).mean(0, true).to(layer.scalar_type());
    }
  }
  return outputs;
}

// What takes the place of a layer's outputs [B, H, D] (or [1, H, D]) for the prompts of a batch.
Tensor values_for(const Batch& batch, const Tensor& layer, const KnockoutOptions& options) {
  if (options.replacement != Replacement::kResample) return layer;
  std::vector<std::int64_t> drawn;
  for (const task::Prompt& prompt : batch.prompts) {
    const std::uint64_t mixed = base::derive_seed(
        options.seed, "knockout.resample",
        {static_cast<std::uint64_t>(prompt.item), static_cast<std::uint64_t>(prompt.residue)});
    drawn.push_back(static_cast<std::int64_t>(
        base::Random(mixed).uniform_index(static_cast<std::uint64_t>(layer.size(0)))));
  }
  return layer.index_select(0, torch::tensor(drawn, torch::kInt64));
}

void add_edit(model::Look& look, const Site& site, std::int64_t first_row, const Batch& batch,
              const Replacements& replacement, const KnockoutOptions& options) {
  const auto layer = static_cast<std::size_t>(site.layer);
  look.layers[layer].edits.push_back({.first_row = first_row,
                                      .rows = batch.size(),
                                      .first_head = site.first_head,
                                      .heads = site.heads,
                                      .values = values_for(batch, replacement[layer], options)
                                                    .narrow(1, site.first_head, site.heads)
                                                    .unsqueeze(1)});
}

// Top tokens [sites + 1, B], the clean pass first: one prefill, then all last tokens in one batch.
Tensor ask_together(model::Transformer& network, const Batch& batch, const std::vector<Site>& sites,
                    const Replacements& replacement, const KnockoutOptions& options) {
  const std::int64_t passes = std::ssize(sites) + 1;
  model::DecodeState state = network.start(batch.size());
  network.prefill(batch.all_but_last(), state);
  model::DecodeState many = state.repeated(passes);
  model::Look look = look_into(network);
  for (std::int64_t s = 0; s + 1 < passes; ++s) {
    add_edit(look, sites[static_cast<std::size_t>(s)], (s + 1) * batch.size(), batch, replacement,
             options);
  }
  const Tensor logits = network.decode(batch.last().repeat({passes, 1}), many, &look);
  return logits.select(1, 0).argmax(-1).view({passes, batch.size()});
}

// The same, a prefill for each.
Tensor ask_separately(model::Transformer& network, const Batch& batch,
                      const std::vector<Site>& sites, const Replacements& replacement,
                      const KnockoutOptions& options) {
  std::vector<Tensor> tops;
  for (std::size_t s = 0; s <= sites.size(); ++s) {
    model::DecodeState state = network.start(batch.size());
    network.prefill(batch.all_but_last(), state);
    model::Look look = look_into(network);
    if (s > 0) add_edit(look, sites[s - 1], 0, batch, replacement, options);
    tops.push_back(network.decode(batch.last(), state, &look).select(1, 0).argmax(-1));
  }
  return torch::stack(tops);
}

}  // namespace

std::vector<Site> knockout_sites(std::int64_t layers, std::int64_t kv_heads,
                                 std::int64_t query_heads, HeadUnit unit) {
  const bool of_kv = unit == HeadUnit::kKvHeads;
  const std::int64_t units = of_kv ? kv_heads : query_heads;
  std::vector<Site> sites;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (std::int64_t u = 0; units > 1 && u < units; ++u) {
      sites.push_back(
          {.layer = layer,
           .first_head = u * (query_heads / units),
           .heads = query_heads / units,
           .name = fmt::format("layer {} {} {}", layer, of_kv ? "head" : "query head", u)});
    }
    sites.push_back({.layer = layer,
                     .heads = query_heads,
                     .whole_layer = true,
                     .name = fmt::format("layer {}", layer)});
  }
  return sites;
}

KnockoutAnswers run_knockouts(const std::filesystem::path& checkpoint,
                              const KnockoutOptions& options, record::RunContext& context,
                              const OnProgress& progress) {
  const task::LookupTask task(options.lookup);
  check_stride(options.stride, task.modulus(), kScope);
  const Opened opened = open(checkpoint);
  const model::ModelConfig& config = opened.config();
  identify(opened, context);
  check_fits(opened, task, kScope);
  warn_of_rounded_items(options.lookup.items, task.items(), task.modulus(), context);

  KnockoutAnswers answers{.items = task.items(), .modulus = task.modulus()};
  answers.sites = knockout_sites(config.layers, config.kv_heads, config.query_heads, options.unit);
  const std::vector<Place> places = all_places(task);
  context.prompt_set_sha256 = prompt_set_sha256(task, places, options.run.scope);
  answers.position.resize(places.size());
  answers.clean.resize(places.size());
  answers.knocked.assign(answers.sites.size(), std::vector<std::uint8_t>(places.size()));

  const Replacements replacement = replacements(opened, options, task);
  for_each_batch(
      task, places, options.run,
      [&](const Batch& batch) {
        const Tensor top =
            options.separately
                ? ask_separately(*opened.network, batch, answers.sites, replacement, options)
                : ask_together(*opened.network, batch, answers.sites, replacement, options);
        const auto tops = top.accessor<std::int64_t, 2>();
        for (std::int64_t b = 0; b < batch.size(); ++b) {
          const task::Prompt& prompt = batch.prompts[static_cast<std::size_t>(b)];
          const std::size_t at = batch.first + static_cast<std::size_t>(b);
          answers.position[at] = prompt.target_position;
          answers.clean[at] = tops[0][b] == prompt.request.target ? 1 : 0;
          for (std::size_t s = 0; s < answers.sites.size(); ++s) {
            answers.knocked[s][at] =
                tops[static_cast<std::int64_t>(s) + 1][b] == prompt.request.target ? 1 : 0;
          }
        }
      },
      progress);
  return answers;
}

}  // namespace kvphase::lab
