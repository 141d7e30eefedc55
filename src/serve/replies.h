// The JSON of replies, in the shapes of OpenAI's API with vLLM's token ids. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "lm/language_model.h"
#include "serve/generation.h"
#include "serve/requests.h"

namespace kvphase::serve {

// What every object of one reply repeats.
struct ReplyHead {
  std::string id;            // "cmpl-..." or "chatcmpl-..."
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string fingerprint;  // of the weights, empty when unknown
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt's, taken from a cache
};

base::Json to_json(const Usage& usage);

// A finished continuation of one prompt.
struct Choice {
  std::vector<lm::TokenId> prompt;
  std::vector<Piece> pieces;
  FinishReason reason = FinishReason::kLength;
};

base::Json whole_reply(const TextRequest& request, const ReplyHead& head,
                       std::span<const Choice> choices, const Usage& usage);

// Streamed objects, in this order for every choice: opening, a piece each, closing; then, where
// asked for, the usage.
base::Json opening_chunk(const TextRequest& request, const ReplyHead& head, std::size_t index,
                         std::span<const lm::TokenId> prompt);
base::Json piece_chunk(const TextRequest& request, const ReplyHead& head, std::size_t index,
                       const Piece& piece, std::int64_t text_offset);
base::Json closing_chunk(const TextRequest& request, const ReplyHead& head, std::size_t index,
                         FinishReason reason);
base::Json usage_chunk(const TextRequest& request, const ReplyHead& head, const Usage& usage);

}  // namespace kvphase::serve
