// The OpenAI-compatible API over one language model: routes, refusals, replies. Requests may come
// from many threads; the model is asked by one at a time. Must not know sockets.
//   POST /v1/completions, /v1/chat/completions, /tokenize, /detokenize
//   GET  /v1/models, /v1/models/{id}, /health (the only one that asks for no key)
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lm/language_model.h"
#include "serve/model_line.h"
#include "serve/options.h"
#include "serve/replies.h"
#include "serve/requests.h"

namespace kvphase::serve {

struct HttpRequest {
  std::string method;         // "GET"
  std::string path;           // "/v1/models", without the query
  std::string authorization;  // the header's value, empty when absent
  std::string body;
};

// Takes bytes of a streamed body; false when the client has gone.
using ByteSink = std::function<bool(std::string_view)>;

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::function<void(const ByteSink&)> stream;  // where set, makes the body; called at most once
};

// An error of the HTTP layer in the same envelope; also for paths and bodies it refuses itself.
HttpReply error_reply(int status, const std::string& message);

class Api {
 public:
  // `model` outlives the Api.
  Api(lm::LanguageModel& model, ServeOptions options);

  HttpReply handle(const HttpRequest& request);  // never throws

  // Running generations end at their next token, waiting requests are refused with 503.
  void stop();

  const std::string& model_name() const { return options_.model_name; }

 private:
  struct Job;

  HttpReply route(const HttpRequest& request);
  HttpReply text(TextRequest request);
  void stream(Job& job, const ByteSink& sink);
  Choice run(const Job& job, std::size_t index, Usage& usage,
             const std::function<bool(const Piece&)>& on_piece);
  std::unique_ptr<ModelLine::Turn> enter();
  std::vector<lm::TokenId> tokens_of(const Prompt& prompt);
  ReplyHead new_head(Route route);

  base::Json card() const;
  HttpReply models() const;
  HttpReply one_model(std::string_view id) const;
  HttpReply tokenize(const TokenizeRequest& request);
  HttpReply detokenize(const std::vector<lm::TokenId>& tokens);

  lm::LanguageModel& model_;
  ServeOptions options_;
  lm::ModelTraits traits_;
  std::string fingerprint_;
  std::int64_t started_ = 0;  // seconds since 1970
  ModelLine line_;
  std::atomic<std::uint64_t> requests_ = 0;
  std::atomic<bool> stopping_ = false;
};

}  // namespace kvphase::serve
