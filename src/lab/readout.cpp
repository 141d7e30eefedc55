#include "lab/readout.h"

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>

#include "base/error.h"
#include "base/random.h"
#include "lab/attention_weights.h"
#include "lab/opened.h"
#include "lab/shared.h"

namespace kvphase::lab {
namespace {

using torch::Tensor;

constexpr const char* kScope = "readout";

std::size_t index_of(Handed handed) { return static_cast<std::size_t>(handed); }

std::vector<Reader> readers_of(const Opened& opened) {
  const model::ModelConfig& config = opened.config();
  const std::int64_t group = config.query_heads / config.kv_heads;
  std::vector<Reader> readers;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    if (!reaches_far(opened, layer)) continue;
    for (std::int64_t g = 0; config.kv_heads > 1 && g < config.kv_heads; ++g) {
      readers.push_back({.layer = layer,
                         .first_head = g * group,
                         .heads = group,
                         .name = fmt::format("layer {} head {}", layer, g)});
    }
    readers.push_back(
        {.layer = layer, .heads = config.query_heads, .name = fmt::format("layer {}", layer)});
  }
  return readers;
}

// Another record of the prompt at least `apart` tokens away, so that no window has both; drawn by
// item and residue: where its value stands.
std::int64_t other_value(const task::Prompt& prompt, const task::LookupLanguage& language,
                         std::int64_t apart, std::uint64_t seed) {
  std::vector<std::int64_t> places;
  const std::vector<lm::TokenId>& tokens = prompt.request.prompt;
  for (std::int64_t p = 0; p < language.haystack; ++p) {
    const lm::TokenId token = tokens[static_cast<std::size_t>(p)];
    if (language.holds(token) && language.meaning(token).kind == task::TokenKind::kValue &&
        std::abs(p - prompt.target_position - 1) >= apart && token != prompt.request.target) {
      places.push_back(p);
    }
  }
  if (places.empty()) {
    throw base::usage_error(
        kScope,
        "expected another record with another value at least {} tokens away, got none; "
        "use more --records",
        apart);
  }
  base::Random random(base::derive_seed(
      seed, "readout.other",
      {static_cast<std::uint64_t>(prompt.item), static_cast<std::uint64_t>(prompt.residue)}));
  return places[random.uniform_index(places.size())];
}

// One batch, read once without a hand.
struct Asked {
  model::DecodeState before;                      // all but the last token
  model::Look look;                               // of the clean pass
  std::vector<Tensor> inputs;                     // [B, T, C] per layer
  Tensor top;                                     // [B]
  std::vector<std::int64_t> answer_at, other_at;  // positions
};

Asked ask(const Opened& opened, const Batch& batch, const ReadoutOptions& options) {
  Asked asked{.before = opened.network->start(batch.size()), .look = look_into(*opened.network)};
  opened.network->prefill(batch.all_but_last(), asked.before, &asked.inputs);
  model::DecodeState state = asked.before;
  asked.top = opened.network->decode(batch.last(), state, &asked.look).select(1, 0).argmax(-1);
  for (std::size_t layer = 0; layer < asked.inputs.size(); ++layer) {
    asked.inputs[layer] = torch::cat({asked.inputs[layer], asked.look.layers[layer].inputs}, 1);
  }
  const std::int64_t apart =
      model::has_chunked_layer(opened.config()) ? opened.config().chunk.window : 1;
  for (const task::Prompt& prompt : batch.prompts) {
    asked.answer_at.push_back(prompt.target_position + 1);
    asked.other_at.push_back(other_value(prompt, options.lookup.language, apart, options.seed));
  }
  return asked;
}

// Values [B, G, D] handed to a reader in one row of the batch.
void hand(model::Look& look, const Reader& reader, const Tensor& values, std::int64_t prompt,
          std::int64_t row, std::int64_t query_heads) {
  const std::int64_t group = query_heads / values.size(1);
  const Tensor own = values[prompt].repeat_interleave(group, 0);  // [H, D]
  look.layers[static_cast<std::size_t>(reader.layer)].edits.push_back(
      {.first_row = row,
       .rows = 1,
       .first_head = reader.first_head,
       .heads = reader.heads,
       .values = own.narrow(0, reader.first_head, reader.heads).unsqueeze(0).unsqueeze(0)});
}

std::vector<Held> held_by_layer(const Opened& opened, const Asked& asked,
                                const std::vector<std::int64_t>& position) {
  std::vector<Held> all(asked.inputs.size());
  for (std::size_t layer = 0; layer < all.size(); ++layer) {
    const auto index = static_cast<std::int64_t>(layer);
    if (!reaches_far(opened, index)) continue;
    all[layer] =
        held(opened, index, asked.inputs[layer], asked.look.layers[layer].attention, position);
  }
  return all;
}

// Which reader makes the model answer another record's value most often when handed that record's
// exact token, by phase: the heads that decide the answer there, whatever the model's own answer.
void calibrate(const Opened& opened, const ReadoutOptions& options, ReadoutAnswers& answers) {
  task::LookupOptions lookup = options.lookup;
  lookup.items = options.calibration;
  lookup.seed = base::derive_seed(options.seed, "readout.calibration");
  const task::LookupTask task(lookup);
  const auto S = static_cast<std::size_t>(options.stride);
  const std::size_t count = answers.readers.size();
  std::vector<double> asked_of(S);
  answers.calibrated.assign(count, std::vector<double>(S));
  std::mutex mutex;
  for_each_batch(task, one_each(task, options.calibration), options.run, [&](const Batch& batch) {
    const Asked asked = ask(opened, batch, options);
    const std::vector<Held> other = held_by_layer(opened, asked, asked.other_at);
    const std::int64_t B = batch.size();
    model::DecodeState many = asked.before.repeated(static_cast<std::int64_t>(count));
    model::Look look = look_into(*opened.network);
    for (std::size_t r = 0; r < count; ++r) {
      const Reader& reader = answers.readers[r];
      for (std::int64_t b = 0; b < B; ++b) {
        hand(look, reader, other[static_cast<std::size_t>(reader.layer)].alone, b,
             static_cast<std::int64_t>(r) * B + b, opened.config().query_heads);
      }
    }
    const Tensor top =
        opened.network
            ->decode(batch.last().repeat({static_cast<std::int64_t>(count), 1}), many, &look)
            .select(1, 0)
            .argmax(-1);
    const auto tops = top.accessor<std::int64_t, 1>();
    const std::scoped_lock lock(mutex);
    for (std::int64_t b = 0; b < B; ++b) {
      const task::Prompt& prompt = batch.prompts[static_cast<std::size_t>(b)];
      const auto phase = static_cast<std::size_t>(prompt.target_position) % S;
      const lm::TokenId wanted =
          prompt.request
              .prompt[static_cast<std::size_t>(asked.other_at[static_cast<std::size_t>(b)])];
      asked_of[phase] += 1;
      for (std::size_t r = 0; r < count; ++r) {
        answers.calibrated[r][phase] +=
            tops[static_cast<std::int64_t>(r) * B + b] == wanted ? 1 : 0;
      }
    }
  });
  answers.reader_of_phase.assign(S, 0);
  for (std::size_t phase = 0; phase < S; ++phase) {
    if (asked_of[phase] == 0) {
      throw base::usage_error(kScope, "expected calibration prompts at every phase, got none at {}",
                              phase);
    }
    for (std::size_t r = 0; r < count; ++r) {
      answers.calibrated[r][phase] /= asked_of[phase];
      const std::size_t best = answers.reader_of_phase[phase];
      if (answers.calibrated[r][phase] > answers.calibrated[best][phase]) {
        answers.reader_of_phase[phase] = r;
      }
    }
  }
}

// Every reader by itself, handed its own entry: 1 where one of them makes the prompt's answer
// right.
std::vector<std::uint8_t> any_right(const Opened& opened, const Batch& batch, const Asked& asked,
                                    const std::vector<Reader>& readers,
                                    const std::vector<Held>& held_by) {
  const auto count = static_cast<std::int64_t>(readers.size());
  const std::int64_t B = batch.size();
  model::DecodeState many = asked.before.repeated(count);
  model::Look look = look_into(*opened.network);
  for (std::int64_t r = 0; r < count; ++r) {
    const Reader& reader = readers[static_cast<std::size_t>(r)];
    const Tensor& values = held_by[static_cast<std::size_t>(reader.layer)].as_written;
    for (std::int64_t b = 0; b < B; ++b) {
      hand(look, reader, values, b, r * B + b, opened.config().query_heads);
    }
  }
  const Tensor top =
      opened.network->decode(batch.last().repeat({count, 1}), many, &look).select(1, 0).argmax(-1);
  const auto tops = top.accessor<std::int64_t, 1>();
  std::vector<std::uint8_t> right(static_cast<std::size_t>(B));
  for (std::int64_t i = 0; i < count * B; ++i) {
    const auto b = static_cast<std::size_t>(i % B);
    if (tops[i] == batch.prompts[b].request.target) right[b] = 1;
  }
  return right;
}

// Fills one batch's shares of one layer; KV head g's entries hold a position or do not.
void read_shares(const Opened& opened, const Asked& asked, const Batch& batch, Shares& shares) {
  const auto layer = static_cast<std::size_t>(shares.layer);
  const kernels::Attention& attention = asked.look.layers[layer].attention;
  const Weights weights = attention_weights(attention);
  const bool chunked = opened.config().attention[layer] == model::AttentionKind::kChunked;
  const Tensor far = (chunked ? weights.entries : weights.exact).to(torch::kDouble).contiguous();
  const Tensor near = weights.exact.to(torch::kDouble).sum(-1).contiguous();
  const Tensor sink = weights.sink.to(torch::kDouble).contiguous();
  const auto at = far.accessor<double, 3>();
  const auto exact = near.accessor<double, 2>(), sunk = sink.accessor<double, 2>();
  const std::int64_t heads = far.size(1), group = heads / opened.config().kv_heads;
  for (std::int64_t b = 0; b < batch.size(); ++b) {
    const std::int64_t answer = asked.answer_at[static_cast<std::size_t>(b)];
    double holds = 0, others = 0, recent = 0, lost = 0;
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto g = static_cast<std::size_t>(h / group);
      for (std::int64_t m = 0; m < far.size(2); ++m) {
        const bool has =
            chunked ? attention.grid.begin(g, m) <= answer && answer <= attention.grid.end(g, m)
                    : attention.first + m == answer;
        (has ? holds : others) += at[b][h][m];
      }
      if (chunked) recent += exact[b][h];
      lost += sunk[b][h];
    }
    const std::size_t i = batch.first + static_cast<std::size_t>(b);
    const auto count = static_cast<double>(heads);
    shares.answer_entries[i] = holds / count;
    shares.other_entries[i] = others / count;
    shares.exact[i] = recent / count;
    shares.sink[i] = lost / count;
  }
}

}  // namespace

ReadoutAnswers run_readout(const std::filesystem::path& checkpoint, const ReadoutOptions& options,
                           record::RunContext& context, const OnProgress& progress) {
  const Opened opened = open(checkpoint);
  identify(opened, context);
  const task::LookupTask task(options.lookup);
  check_fits(opened, task, kScope);
  warn_of_rounded_items(options.lookup.items, task.items(), task.modulus(), context);
  check_stride(options.stride, task.modulus(), kScope);
  ReadoutAnswers answers{.items = task.items(), .modulus = task.modulus()};
  answers.readers = readers_of(opened);
  if (answers.readers.empty()) {
    throw base::usage_error(
        kScope, "expected a layer that sees beyond a local window, got none in {}", opened.name);
  }
  calibrate(opened, options, answers);

  const std::vector<Place> places = all_places(task);
  context.prompt_set_sha256 = prompt_set_sha256(task, places, options.run.scope);
  for (auto& right : answers.right) right.resize(places.size());
  for (std::int64_t layer = 0; layer < opened.config().layers; ++layer) {
    if (!reaches_far(opened, layer)) continue;
    const std::vector<double> none(places.size());
    answers.shares.push_back({.layer = layer,
                              .answer_entries = none,
                              .other_entries = none,
                              .exact = none,
                              .sink = none});
  }
  for_each_batch(
      task, places, options.run,
      [&](const Batch& batch) {
        const Asked asked = ask(opened, batch, options);
        for (Shares& shares : answers.shares) read_shares(opened, asked, batch, shares);
        const std::vector<Held> answer = held_by_layer(opened, asked, asked.answer_at);
        const std::vector<Held> other = held_by_layer(opened, asked, asked.other_at);
        const std::int64_t B = batch.size();
        constexpr std::int64_t kHands = 4;  // to the phase's reader
        model::DecodeState many = asked.before.repeated(kHands);
        model::Look look = look_into(*opened.network);
        for (std::int64_t b = 0; b < B; ++b) {
          const auto phase =
              batch.prompts[static_cast<std::size_t>(b)].target_position % options.stride;
          const Reader& reader =
              answers.readers[answers.reader_of_phase[static_cast<std::size_t>(phase)]];
          const Held& right = answer[static_cast<std::size_t>(reader.layer)];
          const Held& wrong = other[static_cast<std::size_t>(reader.layer)];
          const std::array<const Tensor*, kHands> values = {&right.as_written, &right.alone,
                                                            &wrong.as_written, &wrong.alone};
          for (std::int64_t k = 0; k < kHands; ++k) {
            hand(look, reader, *values[static_cast<std::size_t>(k)], b, k * B + b,
                 opened.config().query_heads);
          }
        }
        const Tensor top = torch::cat(
            {asked.top, opened.network->decode(batch.last().repeat({kHands, 1}), many, &look)
                            .select(1, 0)
                            .argmax(-1)});
        const auto tops = top.accessor<std::int64_t, 1>();
        const auto with_entry = any_right(opened, batch, asked, answers.readers, answer);
        const auto with_other = any_right(opened, batch, asked, answers.readers, other);
        for (std::int64_t b = 0; b < B; ++b) {
          const auto i = static_cast<std::size_t>(b);
          const task::Prompt& prompt = batch.prompts[i];
          for (std::size_t k = 0; k <= kHands; ++k) {
            const lm::TokenId wanted =
                k == index_of(Handed::kOtherToken)
                    ? prompt.request.prompt[static_cast<std::size_t>(asked.other_at[i])]
                    : prompt.request.target;
            answers.right[k][batch.first + i] =
                tops[static_cast<std::int64_t>(k) * B + b] == wanted ? 1 : 0;
          }
          answers.right[index_of(Handed::kAnyEntry)][batch.first + i] = with_entry[i];
          answers.right[index_of(Handed::kAnyOtherEntry)][batch.first + i] = with_other[i];
        }
      },
      progress);
  return answers;
}

}  // namespace kvphase::lab
