// The first generated token and its likeliest rivals, out of every shape in which servers give
// log-probabilities. Pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.h"
#include "endpoint/reply.h"

namespace kvphase::endpoint {

// Reads the first generated token's log-probabilities from `body` into reply.first, or says in
// reply.first_absent why there are none. Shapes:
//   choices[0].logprobs.content[{token, logprob, bytes, id?, top_logprobs[...]}]    chat; llama.cpp
//   choices[0].logprobs {tokens, token_logprobs, top_logprobs[{text: logprob}]}     completions
//   completion_probabilities[{id, token, logprob, bytes, top_logprobs[...]}]        llama.cpp
//   completion_probabilities[{content, probs[{tok_str, prob}]}]                     llama.cpp, old
//   meta_info {output_token_logprobs[[logprob, id, text]], output_top_logprobs}     SGLang
//   logprobs[{token, logprob, bytes, top_logprobs[...]}]                            Ollama
// Null, NaN, -inf, positive values, and the floors -9999 and -100 that servers write for "too
// unlikely" are left out and counted. `asked` is how many rivals the request asked for.
void read_first_token(const base::Json& body, std::int64_t asked, Reply& reply);

}  // namespace kvphase::endpoint
