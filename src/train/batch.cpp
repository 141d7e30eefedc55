#include "train/batch.h"

#include <algorithm>
#include <cassert>

#include "base/error.h"

namespace kvphase::train {

Batch make_batch(const task::LookupLanguage& language, std::uint64_t seed, std::string_view stream,
                 std::uint64_t step, std::int64_t sequences, std::int64_t offset) {
  base::Random random(base::derive_seed(seed, stream, {step}));
  Batch batch{.tokens = torch::empty({sequences, offset + language.length()}, torch::kInt64),
              .rows = torch::empty({language.queries}, torch::kInt64),
              .targets = torch::empty({sequences, language.queries}, torch::kInt64)};
  auto* tokens = batch.tokens.data_ptr<std::int64_t>();
  auto* rows = batch.rows.data_ptr<std::int64_t>();
  auto* targets = batch.targets.data_ptr<std::int64_t>();
  for (std::int64_t b = 0; b < sequences; ++b) {
    const task::LookupSequence sequence = task::sample_sequence(language, random);
    for (std::int64_t i = 0; i < offset; ++i) {
      *tokens++ = language.filler(static_cast<std::int64_t>(
          random.uniform_index(static_cast<std::uint64_t>(language.fillers))));
    }
    for (const lm::TokenId token : sequence.tokens) *tokens++ = token;
    for (std::size_t q = 0; q < sequence.query_positions.size(); ++q) {
      const std::int64_t position = sequence.query_positions[q];
      assert(b == 0 || rows[q] == offset + position);
      rows[q] = offset + position;
      *targets++ = sequence.tokens[static_cast<std::size_t>(position + 1)];
    }
  }
  return batch;
}

Batch make_text_batch(const TokenSet& text, std::uint64_t seed, std::string_view stream,
                      std::uint64_t step, std::int64_t sequences, std::int64_t length) {
  base::Random random(base::derive_seed(base::derive_seed(seed, "text"), stream, {step}));
  const torch::Tensor windows = torch::empty({sequences, length + 1}, torch::kInt64);
  auto* window = windows.data_ptr<std::int64_t>();
  for (std::int64_t b = 0; b < sequences; ++b) {
    const std::uint64_t place = random.uniform_index(static_cast<std::uint64_t>(text.windows()));
    text.read(static_cast<std::int64_t>(place), {window, static_cast<std::size_t>(length + 1)});
    window += length + 1;
  }
  return {.tokens = windows.narrow(1, 0, length).contiguous(),
          .rows = {},
          .targets = windows.narrow(1, 1, length).contiguous()};
}

TrainingData::TrainingData(const TrainOptions& options) : options_(options) {
  const DataOptions& data = options.data;
  if (data.text.empty()) return;
  text_.emplace(data.text, kTrainSplit, data.sequence + 1);
  validation_text_.emplace(data.text, kValidationSplit, data.sequence + 1);
  for (const TokenSet* set : {&*text_, &*validation_text_}) {
    if (set->vocabulary() > options.model.vocab_size || set->tokenizer() != text_->tokenizer()) {
      throw base::usage_error(
          "train",
          "expected shards of the model's {} tokens or fewer, by one tokenizer, got {} of '{}'",
          options.model.vocab_size, set->vocabulary(), set->tokenizer());
    }
  }
}

std::vector<BatchPart> TrainingData::step(std::int64_t step) const {
  const std::int64_t lookups = lookups_at(options_, step), all = batch_at(options_, step);
  const auto index = static_cast<std::uint64_t>(step);
  const auto weight = [all](std::int64_t sequences) {
    return static_cast<double>(sequences) / static_cast<double>(all);
  };
  std::vector<BatchPart> parts;
  if (lookups < all) {
    parts.push_back({.kind = BatchPart::Kind::kText,
                     .batch = make_text_batch(*text_, options_.seed, kTrainStream, index,
                                              all - lookups, options_.data.sequence),
                     .weight = weight(all - lookups)});
  }
  if (lookups > 0) {
    parts.push_back({.kind = BatchPart::Kind::kLookup,
                     .batch = make_batch(language_at(options_, step), options_.seed, kTrainStream,
                                         index, lookups, offset_at(options_, step)),
                     .weight = weight(lookups)});
  }
  return parts;
}

std::int64_t TrainingData::tokens_of_step(std::int64_t step) const {
  const std::int64_t lookups = lookups_at(options_, step);
  return lookups * (offset_at(options_, step) + language_at(options_, step).length()) +
         (batch_at(options_, step) - lookups) * options_.data.sequence;
}

Batch TrainingData::validation_lookups() const {
  return make_batch(options_.language, options_.seed, kValidationStream, 0,
                    options_.validation_sequences);
}

std::optional<Batch> TrainingData::validation_text() const {
  if (!validation_text_) return std::nullopt;
  return make_text_batch(*validation_text_, options_.seed, kValidationStream, 0,
                         options_.validation_sequences, options_.data.sequence);
}

TrainingData::TraceText TrainingData::trace_text() const {
  constexpr std::int64_t kMost = 32;
  const std::int64_t sequences = std::min(kMost, options_.batch);
  if (validation_text_) {
    return {.tokens = make_text_batch(*validation_text_, options_.seed, kValidationStream, 0,
                                      sequences, options_.data.sequence)
                          .tokens,
            .source = "windows of the text's validation part"};
  }
  return {.tokens =
              make_batch(options_.language, options_.seed, kValidationStream, 0, sequences).tokens,
          .source = "lookup sequences of the validation stream"};
}

base::Json TrainingData::identity() const {
  if (!text_) return nullptr;
  return {{"train", text_->identity()}, {"validation", validation_text_->identity()}};
}

std::string_view TrainingData::tokenizer() const {
  return text_ ? std::string_view(text_->tokenizer()) : std::string_view();
}

}  // namespace kvphase::train
