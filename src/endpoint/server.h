// One kind of server: how to ask it for a completion or its tokens, and how to read what it says.
// Pure: JSON in, JSON out; the sending is client.h's. One file per kind; to add one, write its
// file, add a line to kServerKinds and one to make_server in server.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "endpoint/reply.h"
#include "endpoint/url.h"

namespace kvphase::endpoint {

enum class ServerKind {
  kLlamaCpp,
  kVllm,
  kKvphase,  // our own `kvphase serve`
  kSglang,
  kOllama,
  kOpenAi,
  kDeepSeek,
  kOpenRouter,
  kGeneric,  // anything else that speaks /v1/chat/completions
};

struct ServerKindName {
  ServerKind kind;
  std::string_view name;  // of --api
};
std::span<const ServerKindName> server_kinds();
std::string_view name_of(ServerKind kind);
// Throws a usage error with the nearest name.
ServerKind server_kind_of(std::string_view name);

struct ChatMessage {
  std::string role;
  std::string content;
};

struct CompletionRequest {
  // Exactly one of these three is not empty.
  std::vector<lm::TokenId> tokens;  // T ids, sent as they are: nothing is put in front
  std::string text;                 // raw text; the server may put a BOS in front
  std::vector<ChatMessage> messages;

  std::int64_t max_tokens = 1;
  double temperature = 0;
  std::optional<std::uint64_t> seed;
  std::int64_t top_logprobs = 0;  // rivals of the first token to ask for; 0: no log-probabilities
  std::vector<std::string> stop;
  bool return_prompt_ids = false;  // where the server can
  bool cold = true;        // keep the server from reusing an earlier prompt's cache, where it can
  std::string cache_salt;  // keeps caches of different salts apart, where the server can
  bool stream = false;     // for gateways that close quiet connections
  bool needs_end = false;  // an answer cut by max_tokens is no answer
  std::optional<std::int64_t> expected_prompt_tokens;  // another count in usage is no answer
};

struct WireRequest {
  std::string method = "POST";
  std::string path;  // relative to the server's root
  std::string body;
  bool json_lines = false;  // a stream of JSON lines in place of server-sent events
};

struct Capabilities {
  bool token_prompts = false;
  bool text_prompts = false;  // raw text without a chat template
  bool chat = true;
  bool tokenizer = false;  // counts and ids of a text
  bool returned_prompt_ids = false;
  std::int64_t max_top_logprobs = 0;  // 0: no log-probabilities at all
  bool ids_in_logprobs = false;       // tokens by id, not only by text
  bool cold_switch = false;           // a request can keep out of the prompt cache
  std::string cache_note;             // what to do about the cache where it cannot
};

// What is known of the server beyond its kind; also what a person may set.
struct ServerSettings {
  std::string version = "/v1";      // prefix of the OpenAI-style routes
  std::string model;                // empty: the server's only one
  std::int64_t context_length = 0;  // Ollama's num_ctx; 0: not said
  bool reasoning_off = true;        // ask for an answer without thinking, where there is a switch
  base::Json extra;                 // members added to every completion body; null: none
};

class ServerApi {
 public:
  explicit ServerApi(ServerSettings settings) : settings_(std::move(settings)) {}
  virtual ~ServerApi() = default;

  virtual ServerKind kind() const = 0;
  virtual Capabilities capabilities() const = 0;

  // Throws a usage error for a prompt form or an option that the server does not have.
  virtual WireRequest completion(const CompletionRequest& request) const = 0;
  // Fills the reply from a whole body that holds no error; decides its outcome.
  virtual void read(const base::Json& body, const CompletionRequest& request,
                    Reply& reply) const = 0;
  // Folds one event of a stream into `whole`, which read() then understands; true when the event
  // said that generation has finished.
  virtual bool fold(base::Json& whole, const base::Json& event) const = 0;

  // Empty: the server has no tokenizer route. add_special: with the BOS a prompt would get.
  virtual std::optional<WireRequest> tokenize(std::string_view text, bool add_special) const;
  virtual std::optional<WireRequest> detokenize(std::span<const lm::TokenId> tokens) const;
  virtual std::optional<std::vector<lm::TokenId>> read_tokens(const base::Json& body) const;
  virtual std::optional<std::string> read_text(const base::Json& body) const;

  const ServerSettings& settings() const { return settings_; }

 protected:
  ServerSettings settings_;
};

std::unique_ptr<ServerApi> make_server(ServerKind kind, ServerSettings settings);

// Shared by the kinds.
WireRequest json_request(std::string path, const base::Json& body);
void merge_extra(base::Json& body, const base::Json& extra);  // extra's members win
// Splits "<think>...</think> answer" (also without the opening tag, also never closed) into
// reasoning and text.
void split_reasoning(Reply& reply);
// The outcome of a reply whose text, reasoning, finish reason and usage are read.
void decide_outcome(const CompletionRequest& request, Reply& reply);
Usage read_usage(const base::Json& body, std::vector<std::string>& notes);

}  // namespace kvphase::endpoint
