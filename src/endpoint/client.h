// A server under its address: finds out what it is, asks it, retries, keeps within its limits, and
// lets no key out. Any number of threads may call the const-looking questions below at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "endpoint/http.h"
#include "endpoint/reply.h"
#include "endpoint/retry.h"
#include "endpoint/server.h"
#include "endpoint/spending.h"

namespace kvphase::endpoint {

struct ClientOptions {
  HttpOptions http;
  RetryPolicy retry;
  std::optional<ServerKind> api;    // empty: found by asking
  std::string model;                // empty: the server's only or first one
  std::int64_t context_length = 0;  // Ollama's num_ctx; 0: the server's own
  bool reasoning_off = true;
  base::Json extra;  // members added to every completion body; null: none

  // The variable that holds the key. The default one is kept back from plain http to other hosts:
  // it usually holds a key that was meant for somebody else.
  std::string api_key_env;  // empty: OPENAI_API_KEY
  std::filesystem::path env_file = ".env";
  Environment environment = process_environment();

  std::shared_ptr<Spending> spending;  // what completions cost, and caps; empty: not counted

  int concurrency = 4;                // most requests at once; the server's push-back lowers it
  std::uint64_t seed = 0;             // of the waits between attempts
  std::function<void(double)> sleep;  // seconds; empty: real, interrupted by base::stop_requested()
};

// What was found out about the server; without secrets.
struct ServerInfo {
  ServerKind kind = ServerKind::kGeneric;
  std::string address;  // without the version prefix
  std::string version;  // of the server program, empty when unknown
  std::string model;
  std::vector<std::string> models;  // all that it offers, the first 100
  std::int64_t context_length = 0;  // tokens, 0: unknown
  base::Json card;                  // what `kvphase serve` says of its model, null elsewhere
  std::int64_t slots = 0;           // llama.cpp: requests that share the context, 0: unknown
  std::string evidence;             // why it is taken for this kind
  std::vector<std::string> notes;   // e.g. a key that was kept back
};

class Client {
 public:
  // Asks the server what it is. Throws an environment error with the cause when it cannot be
  // reached or refuses the key, a usage error for a bad address or option.
  Client(std::string_view base_url, ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const ServerInfo& info() const;
  const ServerApi& api() const;

  // One completion with its retries. Outcome::kStopped: the user stopped or a cap was reached
  // before it had an answer; asked again later it may have one.
  Reply complete(const CompletionRequest& request);

  // Many, at most options.concurrency at once; the replies stand in the order of the requests.
  // on_reply(index, reply) is called for each as it comes, by one thread at a time. After
  // base::stop_requested() what is left comes back as Outcome::kStopped.
  std::vector<Reply> complete_all(std::span<const CompletionRequest> requests,
                                  const std::function<void(std::size_t, const Reply&)>& on_reply);

  // Ids of a text, with the BOS a raw text prompt would get or without; empty with `why` filled
  // where the server has no tokenizer or it fails.
  std::optional<std::vector<lm::TokenId>> tokenize(std::string_view text, bool add_special,
                                                   std::string& why);
  std::optional<std::string> detokenize(std::span<const lm::TokenId> tokens, std::string& why);

  // Every failed attempt, the retried ones included.
  const ErrorLog& errors() const;
  Spent spent() const;                   // by completions; zero without options.spending
  std::string spending_refused() const;  // the cap that was reached; empty: none
  // Takes the key out of a text that is to be shown.
  std::string redact(std::string_view text) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvphase::endpoint
