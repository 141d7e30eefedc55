// Training data: a step's sequences as tensors, made from the seed and the step alone, so that a
// resumed run needs no state of the data. B sequences, T tokens, Q predicted tokens per sequence.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "task/lookup_language.h"
#include "train/options.h"
#include "train/token_set.h"

namespace kvphase::train {

struct Batch {
  torch::Tensor tokens;   // [B,T] int64
  torch::Tensor rows;     // [Q] int64: positions whose next token is predicted, the same in every
                          // sequence; undefined: all T
  torch::Tensor targets;  // [B,Q] int64: the tokens after them
};

// Streams of different names share nothing; audits use names of their own.
inline constexpr std::string_view kTrainStream = "train";
inline constexpr std::string_view kValidationStream = "validate";

// `sequences` sequences of step `step` of a stream, with `offset` tokens of random filler in front;
// the answers are predicted. T = offset + language.length().
Batch make_batch(const task::LookupLanguage& language, std::uint64_t seed, std::string_view stream,
                 std::uint64_t step, std::int64_t sequences, std::int64_t offset = 0);

// Windows of `length` tokens at random places (each equally likely, drawn with replacement, across
// the ends of documents); every next token is predicted. The set's windows hold length + 1 tokens.
Batch make_text_batch(const TokenSet& text, std::uint64_t seed, std::string_view stream,
                      std::uint64_t step, std::int64_t sequences, std::int64_t length);

// Some of a step's sequences, of one kind.
struct BatchPart {
  enum class Kind { kLookup, kText };
  Kind kind = Kind::kLookup;
  Batch batch;
  double weight = 1;  // of the mean loss of its predicted tokens; a step's weights add up to 1
};

// What a training reads: the lookup language and, where the options name folders, their text.
class TrainingData {
 public:
  // Opens the shards. Throws a usage error for what TokenSet refuses and for a text vocabulary
  // beyond the model's.
  explicit TrainingData(const TrainOptions& options);

  // Of optimiser step `step` (0-based): one part, or two where text and lookups are mixed.
  std::vector<BatchPart> step(std::int64_t step) const;
  // Tokens that the network reads in that step.
  std::int64_t tokens_of_step(std::int64_t step) const;

  // Fresh data for the card: lookups, and where there is text, windows of its validation part.
  Batch validation_lookups() const;
  std::optional<Batch> validation_text() const;

  // What a trace of the gates reads at every step: the first of the card's fresh sequences, of text
  // where there is any. At most as many as a training step has, so that they fit where it does.
  struct TraceText {
    torch::Tensor tokens;  // [B,T]
    std::string source;    // in words
  };
  TraceText trace_text() const;

  // The text's shards; null without text.
  base::Json identity() const;
  // Of the text; empty: none.
  std::string_view tokenizer() const;

 private:
  TrainOptions options_;
  std::optional<TokenSet> text_, validation_text_;
};

}  // namespace kvphase::train
