#include "endpoint/client.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/stop.h"
#include "endpoint/detect.h"
#include "endpoint/errors.h"
#include "endpoint/json_text.h"
#include "endpoint/limiter.h"
#include "endpoint/secrets.h"
#include "endpoint/stream_folder.h"

namespace kvphase::endpoint {
namespace {

using base::Json;

void sleep_unless_stopped(double seconds) {
  const base::Stopwatch watch;
  while (!base::stop_requested() && watch.seconds() < seconds) {
    const double left = seconds - watch.seconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(std::clamp(left, 0.0, 0.05)));
  }
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

// A key pasted in place of a variable's name must not be shown.
bool is_variable_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return std::isupper(static_cast<unsigned char>(c)) != 0 ||
           std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
}

class Client::Impl {
 public:
  Impl(std::string_view base_url, ClientOptions options)
      : options_(std::move(options)),
        base_(parse_base_url(base_url)),
        http_(base_.root, options_.http, options_.environment),
        gate_(options_.concurrency, options_.concurrency, base::stop_requested),
        random_(base::derive_seed(options_.seed, "retry")) {
    if (!options_.sleep) options_.sleep = sleep_unless_stopped;
    find_key();
    // Distinct over runs, so that no earlier run's cache is met.
    salt_ = base::mix64(static_cast<std::uint64_t>(seconds_since_1970() * 1e6) ^ options_.seed);
    detect();
    api_ = make_server(info_.kind, {.version = base_.version,
                                    .model = info_.model,
                                    .context_length = options_.context_length,
                                    .reasoning_off = options_.reasoning_off,
                                    .extra = options_.extra});
  }

  Reply complete(const CompletionRequest& asked) {
    CompletionRequest request = asked;
    const Capabilities can = api_->capabilities();
    if (request.cold && can.cold_switch && request.cache_salt.empty()) {
      request.cache_salt = fmt::format("kvphase-{:016x}", base::mix64(salt_ + salts_++));
    }
    const WireRequest wire = api_->completion(request);
    double waited = 0;
    for (int attempt = 1;; ++attempt) {
      Reply reply = ask_within_limits(wire, request);
      clean(reply);
      reply.attempts = attempt;
      reply.waited_seconds = waited;
      if (reply.outcome != Outcome::kStopped) errors_.add(reply);
      RetryDecision decision;
      {
        const std::lock_guard lock(random_mutex_);
        decision = decide_retry(options_.retry, reply, attempt, random_);
      }
      if (!decision.retry) return reply;
      if (!base::stop_requested()) options_.sleep(decision.wait);
      waited += decision.wait;
      if (base::stop_requested()) return stopped("stopped before it was asked again");
    }
  }

  std::vector<Reply> complete_all(std::span<const CompletionRequest> requests,
                                  const std::function<void(std::size_t, const Reply&)>& on_reply) {
    std::vector<Reply> replies(requests.size());
    std::atomic<std::size_t> next = 0;
    std::mutex mutex;
    std::exception_ptr failure;
    const auto work = [&] {
      for (std::size_t i = next++; i < requests.size(); i = next++) {
        try {
          replies[i] = complete(requests[i]);
          const std::lock_guard lock(mutex);
          if (on_reply && !failure) on_reply(i, replies[i]);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!failure) failure = std::current_exception();
          next = requests.size();
        }
      }
    };
    std::vector<std::thread> threads;
    const std::size_t workers =
        std::min(static_cast<std::size_t>(std::max(1, options_.concurrency)), requests.size());
    for (std::size_t t = 1; t < workers; ++t) threads.emplace_back(work);
    work();
    for (auto& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
    return replies;
  }

  // A small request whose 200 body is wanted; empty with `why` otherwise. Retried like completions.
  std::optional<Json> ask(const WireRequest& wire, std::string& why, int* status = nullptr) {
    for (int attempt = 1;; ++attempt) {
      const HttpResponse response = send(wire, {});
      Reply reply;
      read_transport(response, reply);
      reply.retry_after = read_retry_after(response, seconds_since_1970());
      if (status != nullptr) *status = response.status;
      if (reply.answered()) {
        const JsonText json = read_json(response.body);
        const auto error = json.value ? find_error(*json.value) : std::nullopt;
        if (response.status / 100 != 2 || error) {
          read_refusal(response.status, error, response.body, reply);
        } else if (!json.value) {
          reply.outcome = Outcome::kInvalidBody;
          reply.detail = json.problem;
        } else {
          return json.value;
        }
      }
      clean(reply);
      why = reply.detail.empty() ? std::string(name_of(reply.outcome)) : reply.detail;
      last_ = reply.outcome;
      RetryDecision decision;
      {
        const std::lock_guard lock(random_mutex_);
        decision = decide_retry(options_.retry, reply, attempt, random_);
      }
      // While the server is still unknown only one that is loading is waited for.
      const bool worth = info_ready_ || reply.outcome == Outcome::kOverloaded;
      if (!decision.retry || base::stop_requested() || !worth) return std::nullopt;
      options_.sleep(decision.wait);
    }
  }

  ClientOptions options_;
  BaseUrl base_;
  HttpClient http_;
  Gate gate_;
  ErrorLog errors_;
  Redactor redactor_;
  ServerInfo info_;
  std::unique_ptr<ServerApi> api_;

 private:
  void find_key() {
    const bool named = !options_.api_key_env.empty();
    const std::string name = named ? options_.api_key_env : "OPENAI_API_KEY";
    key_ = find_api_key(name, options_.environment, options_.env_file);
    redactor_.add(key_.reveal());
    for (const char* variable : {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"}) {
      const auto proxy = options_.environment(variable);
      if (!proxy) continue;
      const std::size_t at = proxy->rfind('@');
      if (at == std::string::npos) continue;
      const std::size_t start = proxy->find("://");
      const std::size_t user = start == std::string::npos ? 0 : start + 3;
      redactor_.add(proxy->substr(user, at - user));
    }
    if (named && key_.empty()) {
      throw base::usage_error("endpoint",
                              "expected a key in the variable {} or in .env, got none; set it or "
                              "leave --api-key-env out",
                              is_variable_name(name) ? name
                                                     : "that --api-key-env names (it takes "
                                                       "a name, never the key itself)");
    }
    if (!named && !key_.empty() && !base_.root.tls() && !is_loopback(base_.root.host)) {
      key_ = {};
      info_.notes.push_back(
          "OPENAI_API_KEY is not sent over plain http to another host; name it with --api-key-env "
          "to send it");
    }
  }

  void detect() {
    std::string first_why;
    bool reached = false;
    bool refused = false;
    bool overloaded = false;
    const Getter get = [&](const std::string& path) -> std::optional<Json> {
      // Nobody there, or not ready: do not ask again.
      if ((!reached && !first_why.empty()) || overloaded) return std::nullopt;
      std::string why;
      int status = 0;
      auto body = ask({.method = "GET", .path = path}, why, &status);
      reached = reached || status != 0;
      refused = refused || last_ == Outcome::kAuth;
      overloaded = overloaded || last_ == Outcome::kOverloaded;
      if (!body && first_why.empty()) first_why = why;
      last_ = Outcome::kOk;
      return body;
    };
    const std::vector<std::string> notes = info_.notes;
    info_ = detect_server(base_, options_.api, get);
    info_.notes = notes;
    if (!reached || overloaded) {
      throw base::environment_error("endpoint", "expected a server at {}, got: {}",
                                    base_.root.text(), first_why);
    }
    if (refused && info_.models.empty()) {
      throw base::environment_error(
          "endpoint",
          "expected {} to accept the key{}, got: {}; name its variable with "
          "--api-key-env",
          base_.root.text(), key_.empty() ? " (none was sent)" : "", first_why);
    }
    if (!options_.model.empty()) {
      info_.model = options_.model;
      if (!info_.models.empty() && info_.models.size() < 100 &&
          std::find(info_.models.begin(), info_.models.end(), options_.model) ==
              info_.models.end()) {
        info_.notes.push_back("the server does not list the model '" + options_.model + "'");
      }
    } else if (!info_.models.empty()) {
      info_.model = info_.models.front();
    }
    if (options_.context_length > 0) info_.context_length = options_.context_length;
    info_.version = redactor_.message(info_.version);
    info_ready_ = true;
  }

  HttpResponse send(const WireRequest& wire, std::function<bool(std::string_view)> on_chunk) {
    HttpRequest request{.method = wire.method, .path = wire.path, .body = wire.body};
    if (!key_.empty()) request.headers.emplace_back("Authorization", "Bearer " + key_.reveal());
    request.on_chunk = std::move(on_chunk);
    return http_.send(request);
  }

  static Reply stopped(std::string why) {
    return {.outcome = Outcome::kStopped, .detail = std::move(why)};
  }

  // One attempt, when there is a place for it and money left.
  Reply ask_within_limits(const WireRequest& wire, const CompletionRequest& request) {
    const std::int64_t place = gate_.enter();
    if (place < 0) return stopped("stopped before it was asked");
    std::optional<std::int64_t> ticket;
    if (options_.spending) {
      ticket = options_.spending->admit(request);
      if (!ticket) {
        gate_.leave(place, AttemptEnd::kNeutral);
        return stopped("a cap was reached: " + options_.spending->refused_because());
      }
    }
    Reply reply = attempt_once(wire, request);
    if (ticket) options_.spending->settle(*ticket, reply);
    const bool pushed_back =
        reply.outcome == Outcome::kRateLimited || reply.outcome == Outcome::kOverloaded;
    gate_.leave(place, reply.answered() ? AttemptEnd::kSuccess
                       : pushed_back    ? AttemptEnd::kPushedBack
                                        : AttemptEnd::kNeutral);
    return reply;
  }

  Reply attempt_once(const WireRequest& wire, const CompletionRequest& request) {
    Reply reply;
    StreamFolder folder(*api_, wire.json_lines);
    try {
      const HttpResponse response =
          request.stream ? send(wire, [&](std::string_view piece) { return folder.push(piece); })
                         : send(wire, {});
      reply.first_byte_seconds = response.first_byte_seconds;
      reply.total_seconds = response.total_seconds;
      read_transport(response, reply);
      reply.retry_after = read_retry_after(response, seconds_since_1970());
      // A stream that broke may still have said why.
      const bool cut = reply.outcome == Outcome::kDisconnected && folder.anything();
      if (response.status / 100 == 2 && request.stream &&
          (reply.answered() || cut || response.outcome == HttpOutcome::kCancelled)) {
        reply.outcome = Outcome::kOk;
        folder.finish(request, reply);
        note_cache(request, reply);
        return reply;
      }
      if (!reply.answered()) return reply;
      const JsonText json = read_json(response.body);
      const auto error = json.value ? find_error(*json.value) : std::nullopt;
      if (response.status / 100 != 2 || error) {
        read_refusal(response.status, error, response.body, reply);
      } else if (!json.value) {
        reply.outcome = Outcome::kInvalidBody;
        reply.detail = json.problem;
      } else {
        if (json.had_non_finite) reply.notes.emplace_back("bare NaN or Infinity in the body");
        if (json.had_invalid_utf8) reply.notes.emplace_back("bytes that are not UTF-8 in the body");
        api_->read(*json.value, request, reply);
        note_cache(request, reply);
      }
    } catch (const Json::exception& error) {  // JSON of a shape that no reader foresaw
      reply.outcome = Outcome::kInvalidBody;
      reply.detail = std::string("unexpected JSON: ") + error.what();
    }
    return reply;
  }

  static void note_cache(const CompletionRequest& request, Reply& reply) {
    if (request.cold && reply.usage.cached_tokens.value_or(0) > 0) {
      reply.notes.push_back(
          fmt::format("warm: {} prompt tokens came from a cache", *reply.usage.cached_tokens));
    }
  }

  // Takes secrets out of all that leaves.
  void clean(Reply& reply) const {
    reply.detail = redactor_.message(reply.detail);
    reply.text = redactor_.answer(reply.text);
    reply.reasoning = redactor_.answer(reply.reasoning);
    reply.finish_reason = redactor_.message(reply.finish_reason);
    for (std::string& note : reply.notes) note = redactor_.message(note);
    if (reply.first) {
      reply.first->text = redactor_.answer(reply.first->text);
      for (TopToken& token : reply.first->top) token.text = redactor_.answer(token.text);
    }
  }

  ApiKey key_;
  std::mutex random_mutex_;
  base::Random random_;
  std::uint64_t salt_ = 0;
  std::atomic<std::uint64_t> salts_ = 0;
  std::atomic<Outcome> last_ = Outcome::kOk;
  bool info_ready_ = false;
};

Client::Client(std::string_view base_url, ClientOptions options)
    : impl_(std::make_unique<Impl>(base_url, std::move(options))) {}
Client::~Client() = default;

const ServerInfo& Client::info() const { return impl_->info_; }
const ServerApi& Client::api() const { return *impl_->api_; }
const ErrorLog& Client::errors() const { return impl_->errors_; }
Reply Client::complete(const CompletionRequest& request) { return impl_->complete(request); }
Spent Client::spent() const {
  return impl_->options_.spending ? impl_->options_.spending->spent() : Spent{};
}
std::string Client::spending_refused() const {
  return impl_->options_.spending ? impl_->options_.spending->refused_because() : "";
}
std::string Client::redact(std::string_view text) const { return impl_->redactor_.message(text); }

std::vector<Reply> Client::complete_all(
    std::span<const CompletionRequest> requests,
    const std::function<void(std::size_t, const Reply&)>& on_reply) {
  return impl_->complete_all(requests, on_reply);
}

std::optional<std::vector<lm::TokenId>> Client::tokenize(std::string_view text, bool add_special,
                                                         std::string& why) {
  const auto wire = api().tokenize(text, add_special);
  if (!wire) {
    why = std::string(name_of(info().kind)) + " has no tokenizer route";
    return std::nullopt;
  }
  const auto body = impl_->ask(*wire, why);
  if (!body) return std::nullopt;
  auto tokens = api().read_tokens(*body);
  if (!tokens) why = "no list of token ids in the tokenizer's reply";
  return tokens;
}

std::optional<std::string> Client::detokenize(std::span<const lm::TokenId> tokens,
                                              std::string& why) {
  const auto wire = api().detokenize(tokens);
  if (!wire) {
    why = std::string(name_of(info().kind)) + " has no detokenizer route";
    return std::nullopt;
  }
  const auto body = impl_->ask(*wire, why);
  if (!body) return std::nullopt;
  auto text = api().read_text(*body);
  if (!text) why = "no text in the detokenizer's reply";
  return text;
}

}  // namespace kvphase::endpoint
