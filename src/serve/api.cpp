#include "serve/api.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "base/error.h"
#include "base/random.h"
#include "serve/api_error.h"
#include "serve/parameters.h"

namespace kvphase::serve {
namespace {

using base::Json;
using lm::TokenId;

constexpr std::int64_t kUnlimitedTokens = INT64_MAX;
constexpr std::string_view kModelsPrefix = "/v1/models/";

std::int64_t unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

// In time that depends on the lengths only.
bool same_secret(std::string_view given, std::string_view expected) {
  unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size() && !expected.empty(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^
                  static_cast<unsigned char>(expected[i % expected.size()]);
  }
  return difference == 0;
}

bool authorized(const HttpRequest& request, const std::string& key) {
  constexpr std::string_view scheme = "Bearer ";
  const std::string_view given = request.authorization;
  return given.starts_with(scheme) && same_secret(given.substr(scheme.size()), key);
}

HttpReply json_reply(const Json& json) { return {.body = dump(json)}; }

HttpReply reply_to(const ApiError& error) {
  HttpReply reply{.status = error.status(), .body = dump(error.envelope())};
  if (error.status() == 503) reply.headers.emplace_back("Retry-After", "1");
  if (error.status() == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

ApiError stopping_error() {
  return {503, "server_error", "the server is stopping", "", "server_stopping"};
}

// The model's own refusals are the client's fault, everything else is the server's.
ApiError api_error_of(const std::exception& error) {
  if (const auto* api = dynamic_cast<const ApiError*>(&error)) return *api;
  const auto* known = dynamic_cast<const base::Error*>(&error);
  if (known != nullptr && known->kind() == base::ErrorKind::kUsage) {
    return invalid_request(known->what());
  }
  return {500, "server_error", fmt::format("the model failed: {}", error.what()), "",
          "internal_error"};
}

std::string event(const Json& json) { return "data: " + dump(json) + "\n\n"; }

std::string method_of(std::string_view path) {
  if (path == "/health" || path == "/v1/models" || path.starts_with(kModelsPrefix)) return "GET";
  for (const char* post : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"}) {
    if (path == post) return "POST";
  }
  return "";
}

}  // namespace

// One text request that has the model: its prompts as tokens, and the turn.
struct Api::Job {
  TextRequest request;
  std::vector<std::vector<TokenId>> prompts;
  std::unique_ptr<ModelLine::Turn> turn;
  ReplyHead head;
  std::uint64_t seed = 0;
};

HttpReply error_reply(int status, const std::string& message) {
  const char* type = status >= 500 ? "server_error" : "invalid_request_error";
  return reply_to(ApiError(status, type, message));
}

Api::Api(lm::LanguageModel& model, ServeOptions options)
    : model_(model),
      options_(std::move(options)),
      traits_(model.traits()),
      started_(unix_seconds()),
      line_(options_.max_waiting) {
  const lm::ModelIdentity identity = model.identity();
  if (options_.model_name.empty()) options_.model_name = identity.name;
  if (!identity.sha256.empty()) fingerprint_ = identity.sha256.substr(0, 16);
}

void Api::stop() {
  stopping_ = true;
  line_.close();
}

HttpReply Api::handle(const HttpRequest& request) {
  try {
    return route(request);
  } catch (const std::exception& error) {
    return reply_to(api_error_of(error));
  }
}

HttpReply Api::route(const HttpRequest& request) {
  const std::string_view path = request.path;
  if (path != "/health" && !options_.api_key.empty() && !authorized(request, options_.api_key)) {
    throw ApiError(401, "authentication_error",
                   "expected a valid API key as 'Authorization: Bearer KEY', got another or none",
                   "", "invalid_api_key");
  }
  const std::string method = method_of(path);
  if (method.empty()) {
    throw ApiError(404, "invalid_request_error",
                   "expected a path of this server's API, got another; it has /v1/completions, "
                   "/v1/chat/completions, /v1/models, /tokenize, /detokenize and /health",
                   "", "unknown_url");
  }
  if (request.method != method && !(method == "GET" && request.method == "HEAD")) {
    HttpReply reply = error_reply(405, fmt::format("expected the method {} for this path", method));
    reply.headers.emplace_back("Allow", method);
    return reply;
  }
  if (path == "/health") return json_reply({{"status", "ok"}});
  if (path == "/v1/models") return models();
  if (path.starts_with(kModelsPrefix)) return one_model(path.substr(kModelsPrefix.size()));
  const Json body = parse_body(request.body);
  const std::int64_t vocab_size = traits_.vocab_size;
  if (path == "/v1/completions") return text(completion_request(body, options_, vocab_size));
  if (path == "/v1/chat/completions") return text(chat_request(body, options_, vocab_size));
  if (path == "/tokenize") return tokenize(tokenize_request(body));
  return detokenize(detokenize_request(body, vocab_size));
}

std::unique_ptr<ModelLine::Turn> Api::enter() {
  ModelLine::Entry entry = line_.enter();
  if (entry.turn) return std::move(entry.turn);
  if (entry.refusal == ModelLine::Refusal::kClosed) throw stopping_error();
  throw ApiError(503, "server_error",
                 fmt::format("expected at most {} requests to wait for the model, got one more; "
                             "send fewer at once",
                             options_.max_waiting),
                 "", "server_overloaded");
}

std::vector<TokenId> Api::tokens_of(const Prompt& prompt) {
  if (const auto* tokens = std::get_if<std::vector<TokenId>>(&prompt)) return *tokens;
  return model_.tokenize(std::get<std::string>(prompt));
}

ReplyHead Api::new_head(Route route) {
  const std::uint64_t number = requests_++;
  const auto id = base::derive_seed(static_cast<std::uint64_t>(started_), "request", {number});
  return {.id = fmt::format("{}-{:016x}", route == Route::kChat ? "chatcmpl" : "cmpl", id),
          .created = unix_seconds(),
          .model = options_.model_name,
          .fingerprint = fingerprint_};
}

HttpReply Api::text(TextRequest request) {
  if (!request.model.empty() && request.model != options_.model_name) {
    one_model(request.model);  // throws
  }
  const auto job = std::make_shared<Job>();
  job->head = new_head(request.route);
  job->turn = enter();
  for (const Prompt& prompt : request.prompts) {
    job->prompts.push_back(tokens_of(prompt));
    const auto count = static_cast<std::int64_t>(job->prompts.back().size());
    if (count == 0) {
      throw invalid_request("expected a prompt of at least one token, got none",
                            request.route == Route::kChat ? "messages" : "prompt", "invalid_value");
    }
    if (traits_.context_length > 0 && count > traits_.context_length) {
      throw context_exceeded(count, traits_.context_length);
    }
  }
  // Without a seed every request draws its own.
  const std::uint64_t own = base::derive_seed(static_cast<std::uint64_t>(started_), job->head.id);
  job->seed = request.seed ? static_cast<std::uint64_t>(*request.seed) : own;
  job->request = std::move(request);
  if (job->request.stream) {
    return {.content_type = "text/event-stream",
            .headers = {{"Cache-Control", "no-cache"}},
            .stream = [this, job](const ByteSink& sink) {
              stream(*job, sink);
              job->turn.reset();
            }};
  }
  std::vector<Choice> choices;
  Usage usage;
  for (std::size_t i = 0; i < job->prompts.size(); ++i) {
    choices.push_back(run(*job, i, usage, [](const Piece&) { return true; }));
    if (choices.back().reason == FinishReason::kAborted) throw stopping_error();
  }
  return json_reply(whole_reply(job->request, job->head, choices, usage));
}

Choice Api::run(const Job& job, std::size_t index, Usage& usage,
                const std::function<bool(const Piece&)>& on_piece) {
  const TextRequest& request = job.request;
  Choice choice{.prompt = job.prompts[index]};
  const lm::GenerateRequest wanted{.prompt = choice.prompt,
                                   .max_tokens = request.max_tokens.value_or(kUnlimitedTokens),
                                   .top_logprobs = request.top_logprobs.value_or(0),
                                   .temperature = request.temperature,
                                   .seed = base::derive_seed(job.seed, "choice", {index})};
  const GenerationOutcome outcome =
      generate_pieces(model_, wanted, request.stop, [&](const Piece& piece) {
        choice.pieces.push_back(piece);
        return on_piece(piece) && !stopping_;
      });
  choice.reason = outcome.reason;
  usage.prompt_tokens += static_cast<std::int64_t>(choice.prompt.size());
  usage.completion_tokens += outcome.tokens;
  return choice;
}

void Api::stream(Job& job, const ByteSink& sink) {
  bool open = true;
  const auto send = [&](const Json& json) { return open = open && sink(event(json)); };
  try {
    const TextRequest& request = job.request;
    Usage usage;
    for (std::size_t i = 0; i < job.prompts.size() && open; ++i) {
      send(opening_chunk(request, job.head, i, job.prompts[i]));
      std::int64_t offset = 0;
      const Choice choice = run(job, i, usage, [&](const Piece& piece) {
        send(piece_chunk(request, job.head, i, piece, offset));
        offset += static_cast<std::int64_t>(piece.text.size());
        return open;
      });
      if (open && choice.reason == FinishReason::kAborted) throw stopping_error();
      send(closing_chunk(request, job.head, i, choice.reason));
    }
    if (request.include_usage) send(usage_chunk(request, job.head, usage));
  } catch (const std::exception& error) {
    // The status line has gone out: the error is the stream's last object.
    send(api_error_of(error).envelope());
  }
  if (open) sink("data: [DONE]\n\n");
}

// What an audit wants to know of the model, so that it needs no options.
Json Api::card() const {
  const auto known = [](const std::optional<std::int64_t>& x) { return x ? Json(*x) : Json(); };
  Json card = {{"vocab_size", traits_.vocab_size},
               {"max_logprobs", options_.max_logprobs},
               {"window", known(traits_.window)},
               {"stride", known(traits_.stride)},
               {"local_window", known(traits_.local_window)},
               {"full_attention", traits_.full_attention},
               {"staggered_grid", traits_.staggered_grid}};
  if (options_.about_model.is_object()) card.update(options_.about_model);
  return card;
}

HttpReply Api::models() const {
  const Json model = {{"id", options_.model_name},
                      {"object", "model"},
                      {"created", started_},
                      {"owned_by", "kvphase"},
                      {"max_model_len", traits_.context_length},
                      {"kvphase", card()}};
  return json_reply({{"object", "list"}, {"data", Json::array({model})}});
}

HttpReply Api::one_model(std::string_view id) const {
  if (id != options_.model_name) {
    throw ApiError(404, "invalid_request_error",
                   fmt::format("expected the model '{}', got {}; see /v1/models",
                               options_.model_name, shown(std::string(id))),
                   "model", "model_not_found");
  }
  Json list = Json::parse(models().body);
  return json_reply(list["data"][0]);
}

HttpReply Api::tokenize(const TokenizeRequest& request) {
  const auto turn = enter();
  const std::vector<TokenId> tokens = tokens_of(request.prompt);
  Json names;
  if (request.return_token_strings) {
    names = Json::array();
    for (const TokenId token : tokens) names.push_back(model_.detokenize({&token, 1}));
  }
  return json_reply({{"count", tokens.size()},
                     {"max_model_len", traits_.context_length},
                     {"tokens", tokens},
                     {"token_strs", std::move(names)}});
}

HttpReply Api::detokenize(const std::vector<TokenId>& tokens) {
  const auto turn = enter();
  return json_reply({{"prompt", model_.detokenize(tokens)}});
}

}  // namespace kvphase::serve
