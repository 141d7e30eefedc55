// lm::LanguageModel over a server. Prompts in ids need one that takes them (our `kvphase serve`,
// vLLM, SGLang, llama.cpp); prompts in words go as ids, as text or as a chat message. A reply that
// does not come is missing with its cause; a target outside the likeliest tokens has no
// log-probability.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "endpoint/client.h"
#include "lm/language_model.h"

namespace kvphase::endpoint {

// How a prompt in words is sent.
enum class PromptForm {
  kTokens,  // each piece through the server's tokenizer, then ids
  kText,    // raw text
  kChat,    // one user message
};

struct EndpointModelOptions {
  PromptForm form = PromptForm::kTokens;
  // Likeliest tokens to ask for; more find more targets, up to the server's limit (20 on vLLM).
  // -1: the whole vocabulary, where it is known, else as many as the server gives.
  std::int64_t top_logprobs = 20;
  // Tokens that the server adds to each prompt, as PositionProof found; another count in usage
  // makes a reply missing. Empty: unknown, then counts are not compared.
  std::optional<std::int64_t> overhead = 0;
  // Keep out of the server's prompt cache, where it can be told. false: prompts that share their
  // beginning are asked one after the other, after a request that only fills the cache with it, so
  // that all of them are warm.
  bool cold = true;
  bool always_top = false;  // ask for top_logprobs of prompts in words without candidates too
  std::int64_t answer_tokens = 0;  // more room for a model that thinks first; 0: as the task says
  bool stream = false;             // for gateways that close quiet connections
  // Replies in a row of which none came from the model (nobody there, key refused, every request
  // refused): then the server is given up. Larger: more prompts are missing after an outage.
  std::int64_t give_up_after = 20;
};

// What was spent so far, by the server's own counts where it gives any.
struct EndpointTotals {
  std::int64_t replies = 0;
  std::int64_t missing = 0;
  std::int64_t attempts = 0;  // the retried ones included
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompts'
  std::int64_t warm_replies = 0;   // that used a cache
  std::int64_t completion_tokens = 0;
  std::int64_t primers = 0;  // requests that only filled the cache, not among the replies
};

class EndpointModel : public lm::LanguageModel {
 public:
  // Throws a usage error for a form that the server does not have. Asking throws an environment
  // error when the server is given up, and kInterrupted when the user stops or a cap is reached.
  EndpointModel(std::shared_ptr<Client> client, EndpointModelOptions options);

  lm::ModelIdentity identity() const override;
  lm::ModelTraits traits() const override;
  std::vector<lm::TokenId> tokenize(std::string_view text) override;  // without BOS
  std::string detokenize(std::span<const lm::TokenId> tokens) override;
  void score_each(std::span<const lm::ScoreRequest> requests, const OnScore& on_reply) override;
  void answer_each(std::span<const lm::AnswerRequest> requests, const OnAnswer& on_reply) override;
  // One request per token: the only way to see each token's log-probability on every server.
  // Throws an environment error when a reply is missing.
  void generate(const lm::GenerateRequest& request,
                const std::function<bool(const lm::GeneratedToken&)>& on_token) override;

  // What answer_each() sends for a request; `shared_only`: its shared pieces alone.
  CompletionRequest completion(const lm::AnswerRequest& request, bool shared_only = false);

  EndpointTotals totals() const;
  std::int64_t top_logprobs() const { return options_.top_logprobs; }  // that are asked for

 private:
  using OnIndex = std::function<void(std::size_t, const Reply&)>;
  void complete(const std::vector<CompletionRequest>& requests, const OnIndex& on_reply);
  void fill_cache(const lm::AnswerRequest& request);
  const std::vector<lm::TokenId>& ids_of(const std::string& piece);
  lm::AnswerReply answer(const Reply& reply, const lm::AnswerRequest& request);
  CompletionRequest make_request(const std::vector<lm::TokenId>& prompt, std::int64_t top) const;
  lm::ScoreReply score(const Reply& reply, lm::TokenId target);
  bool is_token(const TopToken& token, lm::TokenId id);
  void count(const Reply& reply);

  std::shared_ptr<Client> client_;
  EndpointModelOptions options_;
  std::map<lm::TokenId, std::string> texts_;  // of targets, where tokens come by text only
  std::map<std::string, std::vector<lm::TokenId>, std::less<>> piece_ids_;  // bounded
  std::size_t piece_bytes_ = 0;                                             // of its keys
  std::vector<std::string> cached_;  // the pieces that fill_cache() sent last
  std::int64_t failed_in_a_row_ = 0;
  mutable std::mutex mutex_;  // of totals_
  EndpointTotals totals_;
};

}  // namespace kvphase::endpoint
