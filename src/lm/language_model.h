// What a task may ask of a model, whoever runs it: our own network (engine) or a server (endpoint).
// Must not know transports, tensors, tasks or positions' meaning.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace kvphase::lm {

using TokenId = std::int32_t;

// Who answered: enough to tell two models apart and to find the design behind a result.
struct ModelIdentity {
  std::string name;    // what a person calls it
  std::string kind;    // "checkpoint" | "endpoint"
  std::string sha256;  // of the weights, empty when they cannot be seen
  base::Json config;   // its configuration as far as known, null when unknown
};

// What a model can do and how its compressor is laid out; unknown is empty.
struct ModelTraits {
  std::int64_t vocab_size = 0;               // 0: unknown
  std::int64_t context_length = 0;           // longest prompt in tokens; 0: unknown
  std::optional<std::int64_t> window;        // W of the chunk compressor
  std::optional<std::int64_t> stride;        // S of the chunk compressor
  std::optional<std::int64_t> local_window;  // exact recent tokens
  bool full_attention = false;               // known to have no chunked compression
  bool staggered_grid = false;  // KV heads on shifted grids: no phase is the boundary of every head
};

// "What follows this prompt, and how likely is `target`?"
struct ScoreRequest {
  std::vector<TokenId> prompt;  // T tokens, at least one
  TokenId target = 0;           // the right next token
};

// One of the likeliest first tokens: its text, or "#id" where only the id is known.
struct NamedLogprob {
  std::string token;
  double logprob = 0;  // nats
};

// A reply is answered or missing with a cause; a missing one is neither right nor wrong. Our own
// network always answers with numbers; a server may answer without them.
struct ScoreReply {
  TokenId top = 0;  // argmax over the full vocabulary (the smallest id of equals); -1: see
                    // answer_text
  std::optional<double> target_logprob;  // log P(target | prompt), nats; empty: not to be had
  std::optional<double> margin;  // target_logprob - log P(best other token), nats; > 0 iff target
                                 // wins
  std::string missing;           // why there is no answer, e.g. "timeout"; empty: answered
  std::string answer_text;  // what a server said in place of a known token; empty: `top` says it
  std::int64_t cached_tokens = 0;        // of the prompt, that a server took from an earlier one
  std::vector<NamedLogprob> top_tokens;  // likeliest first, where a server says them

  bool answered() const { return missing.empty(); }
};

// "Answer this in words": a prompt in text, for the model's own tokenizer.
struct AnswerRequest {
  // Concatenated they are the prompt. Where ids can be sent each piece is tokenised by itself, so
  // that its first token stands exactly where the pieces before it end.
  std::vector<std::string> pieces;
  // Leading pieces that the neighbours of this request start with too; a prompt cache can keep
  // them. 0: none.
  std::size_t shared = 0;
  std::optional<std::int64_t> tokens;  // of all pieces, where known: another count is no answer
  std::int64_t max_tokens = 16;
  std::vector<std::string> stop;
  // Continuations whose first token's probability is wanted, the right one first; empty: none.
  std::vector<std::string> candidates;
};

struct AnswerReply {
  std::string text;     // without reasoning
  std::string missing;  // why there is no answer; empty: answered
  // log P(first token of the candidate), nats; empty where not to be had.
  std::vector<std::optional<double>> candidate_logprobs;
  std::optional<double> margin;  // of the first candidate over the likeliest other token, nats
  bool cut = false;              // max_tokens ended the text: more may have come
  std::int64_t cached_tokens = 0;
  std::vector<NamedLogprob> top_tokens;  // as ScoreReply

  bool answered() const { return missing.empty(); }
};

struct TokenLogprob {
  TokenId token = 0;
  double logprob = 0;  // nats
};

struct GenerateRequest {
  std::vector<TokenId> prompt;  // T tokens, at least one
  std::int64_t max_tokens = 1;
  std::int64_t top_logprobs = 0;  // how many of the likeliest tokens to report at every step
  double temperature = 0;         // 0: greedy (the smallest id of equals)
  std::uint64_t seed = 0;         // of sampling, where temperature > 0
};

struct GeneratedToken {
  TokenId token = 0;
  double logprob = 0;             // of the chosen token before temperature, nats
  std::vector<TokenLogprob> top;  // top_logprobs of them, likeliest first
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual ModelIdentity identity() const = 0;
  virtual ModelTraits traits() const = 0;

  virtual std::vector<TokenId> tokenize(std::string_view text) = 0;
  virtual std::string detokenize(std::span<const TokenId> tokens) = 0;

  // Calls on_reply(index, reply) once per request, in any order, from one thread at a time.
  // Implementations batch as they like; a reply never depends on the other requests of the call.
  // Prompts longer than the context are refused (usage error). A stop by the user throws
  // (kInterrupted) after the replies that came.
  using OnScore = std::function<void(std::size_t index, const ScoreReply& reply)>;
  virtual void score_each(std::span<const ScoreRequest> requests, const OnScore& on_reply) = 0;
  // The same, in the order of the requests.
  std::vector<ScoreReply> score_next(std::span<const ScoreRequest> requests) {
    std::vector<ScoreReply> replies(requests.size());
    score_each(requests,
               [&](std::size_t index, const ScoreReply& reply) { replies[index] = reply; });
    return replies;
  }

  // As score_each(), for prompts in words. Throws a usage error where the model reads ids only.
  using OnAnswer = std::function<void(std::size_t index, const AnswerReply& reply)>;
  virtual void answer_each(std::span<const AnswerRequest> requests, const OnAnswer& on_reply);

  // Calls on_token for every new token until max_tokens, the end of the context, or until it
  // returns false.
  virtual void generate(const GenerateRequest& request,
                        const std::function<bool(const GeneratedToken&)>& on_token) = 0;
};

}  // namespace kvphase::lm
