// For the tests of this folder: a model whose answers are known in advance. Its words are "w0" to
// "w9"; the next token is the sum of the prompt modulo 10, with log-probability -0.5; the k-th
// after it (modulo 10) has -1 - k, the ninth -infinity.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "lm/language_model.h"

namespace kvphase::serve {

class ScriptedModel : public lm::LanguageModel {
 public:
  static constexpr std::int64_t kVocab = 10;
  static constexpr std::int64_t kContext = 8;

  lm::ModelIdentity identity() const override {
    return {.name = "scripted", .kind = "checkpoint", .sha256 = "0123456789abcdef0123"};
  }
  lm::ModelTraits traits() const override {
    return {.vocab_size = kVocab, .context_length = kContext};
  }
  std::vector<lm::TokenId> tokenize(std::string_view text) override {
    std::istringstream words{std::string(text)};
    std::vector<lm::TokenId> tokens;
    for (std::string word; words >> word;) {
      if (word.size() != 2 || word[0] != 'w' || word[1] < '0' || word[1] > '9') {
        throw base::usage_error("scripted", "expected a word of w0 to w9, got '{}'", word);
      }
      tokens.push_back(word[1] - '0');
    }
    return tokens;
  }
  std::string detokenize(std::span<const lm::TokenId> tokens) override {
    std::string text;
    for (const lm::TokenId token : tokens) {
      text += fmt::format("{}w{}", text.empty() ? "" : " ", token);
    }
    return text;
  }
  void score_each(std::span<const lm::ScoreRequest>, const OnScore&) override {}

  void generate(const lm::GenerateRequest& request,
                const std::function<bool(const lm::GeneratedToken&)>& on_token) override {
    if (++users_ != 1) overlapped = true;
    struct Leave {
      std::atomic<int>& users;
      ~Leave() { --users; }
    } leave{users_};
    requests.push_back(request);
    if (on_generate) on_generate(request);
    std::vector<lm::TokenId> tokens = request.prompt;
    for (std::int64_t i = 0; i < request.max_tokens; ++i) {
      if (!endless && static_cast<std::int64_t>(tokens.size()) > kContext) return;
      const int sum = std::accumulate(tokens.begin(), tokens.end(), 0);
      lm::GeneratedToken token{.token = static_cast<lm::TokenId>(sum % kVocab), .logprob = -0.5};
      for (std::int64_t k = 0; k < request.top_logprobs; ++k) {
        const double logprob = k == 9 ? -std::numeric_limits<double>::infinity() : -1.0 - double(k);
        token.top.push_back(
            {static_cast<lm::TokenId>((sum + k) % kVocab), k == 0 ? -0.5 : logprob});
      }
      tokens.push_back(token.token);
      if (!on_token(token)) return;
    }
  }

  std::vector<lm::GenerateRequest> requests;
  std::function<void(const lm::GenerateRequest&)> on_generate;  // may wait or throw
  bool endless = false;                                         // no context to end at
  std::atomic<bool> overlapped = false;                         // two requests had it at once

 private:
  std::atomic<int> users_ = 0;
};

}  // namespace kvphase::serve
