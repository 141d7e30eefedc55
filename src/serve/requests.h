// What a client may ask for: the bodies of /v1/completions, /v1/chat/completions, /tokenize and
// /detokenize, read and checked before the model is asked for anything. Must not know HTTP.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "lm/language_model.h"
#include "serve/options.h"

namespace kvphase::serve {

// Text still to be tokenised, or tokens as they are.
using Prompt = std::variant<std::string, std::vector<lm::TokenId>>;

enum class Route { kCompletion, kChat };

struct TextRequest {
  Route route = Route::kCompletion;
  std::string model;  // as the client wrote it, empty when it did not
  std::vector<Prompt> prompts;
  std::optional<std::int64_t> max_tokens;    // empty: to the end of the context
  double temperature = 1;                    // 0: greedy
  std::optional<std::int64_t> seed;          // of sampling; empty: the server's choice
  std::optional<std::int64_t> top_logprobs;  // empty: no log-probabilities; 0: the token's own
  std::vector<std::string> stop;             // ends the text before the first of these
  bool stream = false;
  bool include_usage = false;               // a last streamed chunk with the token counts
  bool return_token_ids = false;            // vLLM's prompt_token_ids and token_ids
  bool return_tokens_as_token_ids = false;  // vLLM's "token_id:N" as names in log-probabilities
};

struct TokenizeRequest {
  Prompt prompt;
  bool return_token_strings = false;
};

// The prompt of a chat: the messages' contents in order with a newline between them. Roles add no
// tokens, so a content's position is its position in the prompt.
std::string render_chat(const base::Json& messages);

// Each throws a 400 ApiError for a wrong type, a value out of range or a parameter that this
// server could only ignore. vocab_size 0: unknown.
TextRequest completion_request(const base::Json& body, const ServeOptions& options,
                               std::int64_t vocab_size);
TextRequest chat_request(const base::Json& body, const ServeOptions& options,
                         std::int64_t vocab_size);
TokenizeRequest tokenize_request(const base::Json& body);
std::vector<lm::TokenId> detokenize_request(const base::Json& body, std::int64_t vocab_size);

}  // namespace kvphase::serve
