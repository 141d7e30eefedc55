// Scripted stand-ins for real engines: the routes, envelopes and quirks of llama.cpp, vLLM, SGLang,
// Ollama and a hosted chat API around one scripted model. They prove that our reading agrees with
// what is documented, not that the documentation agrees with the engines.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/scripted_server/scripted_server.h"

namespace kvphase::scripted {

// What the model says after a prompt: its likeliest tokens first. Called for one prompt at a time.
struct Alternative {
  std::int32_t token = 0;
  double logprob = 0;
};
using Model = std::function<std::vector<Alternative>(const std::vector<std::int32_t>& prompt)>;

struct EngineOptions {
  Model model;
  std::int64_t context = 8192;
  std::int64_t bos = 0;                // tokens put in front of raw text
  std::int64_t template_overhead = 0;  // tokens that a chat template adds
  bool report_usage = true;
  // Where set, what usage says of a prompt of n tokens instead of n.
  std::function<std::int64_t(std::int64_t n, const Request&)> usage;
  // Where set and not empty, the reply in place of a completion's.
  std::function<std::optional<Reply>(const Request&)> fault;
  std::int64_t cached_tokens = 0;                // as usage says
  std::function<std::string(std::int32_t)> say;  // text of the one answered token, which then ends
                                                 // the answer; empty: scripted_text
  bool returns_ids = true;                       // where the engine can return the ids it read
  base::Json card;                               // "kvphase" of the model in /v1/models; null: none
};

// The scripted tokenizer: words by spaces, "w17" is token 17, others take one token for each six
// characters; BOS is token 1.
std::vector<std::int32_t> scripted_tokens(std::string_view text);
std::string scripted_text(const std::vector<std::int32_t>& tokens);

// Finds the last token's earlier occurrence and answers with what follows it, as a lookup; wrong
// when that occurrence stands at a position whose residue `wrong` says.
Model lookup_model(std::function<bool(std::int64_t position)> wrong);

Handler llama_cpp_engine(EngineOptions options);
Handler vllm_engine(EngineOptions options, std::string owner = "vllm");
Handler sglang_engine(EngineOptions options);
Handler ollama_engine(EngineOptions options);
Handler chat_api(EngineOptions options);  // chat only, usage counts only

}  // namespace kvphase::scripted
