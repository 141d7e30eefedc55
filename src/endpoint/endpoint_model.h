// lm::LanguageModel over a server that takes token-id prompts: our `kvphase serve`, vLLM, SGLang,
// llama.cpp. A reply that does not come is missing with its cause; a target outside the likeliest
// tokens has no log-probability.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "endpoint/client.h"
#include "lm/language_model.h"

namespace kvphase::endpoint {

struct EndpointModelOptions {
  // Likeliest tokens to ask for; more find more targets, up to the server's limit (20 on vLLM).
  std::int64_t top_logprobs = 20;
  // Tokens that the server adds to each prompt, as PositionProof found; another count in usage
  // makes a reply missing.
  std::int64_t overhead = 0;
  bool cold = true;  // keep out of the server's prompt cache, where it can be told
};

// What was spent so far, by the server's own counts where it gives any.
struct EndpointTotals {
  std::int64_t replies = 0;
  std::int64_t missing = 0;
  std::int64_t attempts = 0;  // the retried ones included
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompts'
  std::int64_t warm_replies = 0;   // that used a cache
};

class EndpointModel : public lm::LanguageModel {
 public:
  // Throws a usage error for a server that takes no token ids.
  EndpointModel(std::shared_ptr<Client> client, EndpointModelOptions options);

  lm::ModelIdentity identity() const override;
  lm::ModelTraits traits() const override;
  std::vector<lm::TokenId> tokenize(std::string_view text) override;  // without BOS
  std::string detokenize(std::span<const lm::TokenId> tokens) override;
  std::vector<lm::ScoreReply> score_next(std::span<const lm::ScoreRequest> requests) override;
  // One request per token: the only way to see each token's log-probability on every server.
  // Throws an environment error when a reply is missing.
  void generate(const lm::GenerateRequest& request,
                const std::function<bool(const lm::GeneratedToken&)>& on_token) override;

  EndpointTotals totals() const;

 private:
  CompletionRequest make_request(const std::vector<lm::TokenId>& prompt, std::int64_t top) const;
  lm::ScoreReply score(const Reply& reply, lm::TokenId target);
  bool is_token(const TopToken& token, lm::TokenId id);
  void count(const Reply& reply);

  std::shared_ptr<Client> client_;
  EndpointModelOptions options_;
  std::map<lm::TokenId, std::string> texts_;  // of targets, where tokens come by text only
  mutable std::mutex mutex_;                  // of totals_
  EndpointTotals totals_;
};

}  // namespace kvphase::endpoint
