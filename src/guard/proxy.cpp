#include "guard/proxy.h"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "endpoint/url.h"
#include "guard/exchange.h"
#include "guard/metrics.h"
#include "serve/listener.h"

namespace kvphase::guard {
namespace {

using endpoint::HttpOutcome;
using endpoint::HttpRequest;
using endpoint::HttpResponse;

constexpr int kWriteSeconds = 60;  // without the client taking a byte of the reply
constexpr const char* kJson = "application/json";

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Not for the other side (RFC 9110, 7.6.1), or set by the client library itself.
bool is_ours(const std::string& name) {
  static constexpr std::array kOurs = {"connection",         "keep-alive",   "proxy-connection",
                                       "proxy-authenticate", "te",           "trailer",
                                       "transfer-encoding",  "upgrade",      "host",
                                       "content-length",     "content-type", "accept",
                                       "accept-encoding",    "user-agent",   "expect",
                                       "x-kvphase-guard",    "remote_addr",  "remote_port",
                                       "local_addr",         "local_port"};
  return std::ranges::find(kOurs, name) != kOurs.end();
}

std::string error_body(std::string_view message, std::string_view code) {
  const base::Json json = {{"error",
                            {{"message", fmt::format("[guard] {}", message)},
                             {"type", "kvphase_guard"},
                             {"param", nullptr},
                             {"code", code}}}};
  return json.dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

void refuse(httplib::Response& to, int status, std::string_view message, std::string_view code) {
  to.status = status;
  to.set_content(error_body(message, code), kJson);
}

// What a client is told when the upstream gave no whole reply.
void no_reply(httplib::Response& to, const HttpResponse& from) {
  const bool late =
      from.outcome == HttpOutcome::kFirstByteTimeout || from.outcome == HttpOutcome::kIdleTimeout ||
      from.outcome == HttpOutcome::kTotalTimeout || from.outcome == HttpOutcome::kConnectTimeout;
  refuse(to, late ? 504 : 502,
         fmt::format("expected a reply from the upstream, got {}: {}", name_of(from.outcome),
                     from.detail),
         name_of(from.outcome));
}

std::string content_type_of(const HttpResponse& from) {
  return from.header("content-type").value_or("application/octet-stream");
}

void copy_headers(const HttpResponse& from, httplib::Response& to) {
  to.status = from.status;
  for (const auto& [name, value] : from.headers) {
    if (!is_ours(name)) to.headers.emplace(name, value);
  }
}

bool wants_stream(std::string_view body) {
  for (std::size_t at = body.find("\"stream\""); at != std::string_view::npos;
       at = body.find("\"stream\"", at + 1)) {
    std::string_view rest = body.substr(at + 8, 32);
    while (!rest.empty() && (rest[0] == ':' || std::isspace(static_cast<unsigned char>(rest[0])))) {
      rest.remove_prefix(1);
    }
    if (rest.starts_with("true")) return true;
  }
  return false;
}

// Counts one up for as long as it lives.
class Counted {
 public:
  Counted(std::atomic<int>& count, int most) : count_(count), ok_(++count <= most) {}
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  bool ok() const { return ok_; }

 private:
  std::atomic<int>& count_;
  bool ok_;
};

}  // namespace

struct Proxy::State {
  explicit State(const ProxyOptions& given)
      : options(given),
        upstream(endpoint::parse_base_url(given.upstream)),
        client(upstream.root, given.http, endpoint::process_environment()),
        random(base::derive_seed(given.seed, "guard sample")),
        listener({.requests = static_cast<std::size_t>(given.most_requests),
                  .most_body = given.max_body,
                  .write_seconds = kWriteSeconds}) {}

  // "/v1/..." below the upstream's own prefix.
  std::string upstream_path(const std::string& target) const {
    if (upstream.version != "/v1" && target.starts_with("/v1/")) {
      return upstream.version + target.substr(3);
    }
    return target;
  }

  HttpRequest request_of(const httplib::Request& from) const {
    HttpRequest request{.method = from.method, .path = upstream_path(from.target)};
    if (from.has_header("Content-Type"))
      request.content_type = from.get_header_value("Content-Type");
    for (const auto& [name, value] : from.headers) {
      if (!is_ours(lower(name))) request.headers.emplace_back(name, value);
    }
    return request;
  }

  void pass(const httplib::Request& from, const std::string& body, httplib::Response& to,
            const std::shared_ptr<Counted>& counted, bool skipped = false) {
    const auto count = [&] { skipped ? metrics.skipped() : metrics.passed(); };
    if (!wants_stream(body)) {
      HttpRequest request = request_of(from);
      request.body = body;
      HttpResponse reply = client.send(request);
      if (reply.outcome != HttpOutcome::kOk) {
        metrics.failed();
        no_reply(to, reply);
        return;
      }
      count();
      copy_headers(reply, to);
      to.set_content(std::move(reply.body), content_type_of(reply));
      return;
    }
    const auto exchange = std::make_shared<Exchange>(client, request_of(from), body);
    HttpResponse head = exchange->head();
    if (head.outcome != HttpOutcome::kOk && head.status / 100 != 2) {
      metrics.failed();
      no_reply(to, head);
      return;
    }
    count();
    copy_headers(head, to);
    if (head.status / 100 != 2) {
      to.set_content(std::move(head.body), content_type_of(head));
      return;
    }
    to.set_chunked_content_provider(content_type_of(head),
                                    [exchange, counted](std::size_t, httplib::DataSink& sink) {
                                      bool ok = true;
                                      const std::string piece = exchange->next(ok);
                                      if (!piece.empty()) {
                                        return sink.write(piece.data(), piece.size());
                                      }
                                      if (ok) sink.done();
                                      return ok;  // false: the client sees a cut stream too
                                    });
  }

  // These versions at once, each as the upstream answers it.
  std::vector<VersionReply> ask(const httplib::Request& from, const Versions& versions,
                                const std::vector<std::size_t>& wanted) {
    std::vector<VersionReply> replies(wanted.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < replies.size(); ++i) {
      threads.emplace_back([&, i] {
        HttpRequest request = request_of(from);
        request.body = versions.bodies[wanted[i]];
        const base::Stopwatch watch;
        HttpResponse reply = client.send(request);
        if (reply.outcome == HttpOutcome::kOk) {
          replies[i] = {.status = reply.status, .body = std::move(reply.body)};
        }
        replies[i].seconds = watch.seconds();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return replies;
  }

  // One version for each offset. Where the line break turns out to be no token, the last one is
  // asked for too, and from then on in place of the second.
  std::vector<VersionReply> ask_at_offsets(const httplib::Request& from, const Versions& versions) {
    const std::size_t k = versions.bodies.size() - 1;
    std::vector<std::size_t> wanted = {0};
    for (std::size_t v = free_line_break ? 2 : 1; wanted.size() < k; ++v) wanted.push_back(v);
    std::vector<VersionReply> replies = ask(from, versions, wanted);
    if (!free_line_break && line_break_is_free(replies)) {
      free_line_break = true;
      replies.push_back(ask(from, versions, {k}).front());
    }
    return replies;
  }

  void guard(const httplib::Request& from, const Versions& versions, const Wish& wish,
             httplib::Response& to) {
    const base::Stopwatch watch;
    const std::vector<VersionReply> replies = ask_at_offsets(from, versions);
    const Guarded guarded = judge(replies, wish.offsets, wish.policy);
    metrics.guarded({.verdict = guarded.verdict,
                     .refused = guarded.refused,
                     .versions = std::ssize(replies),
                     .differ = guarded.agreement.differ,
                     .added_seconds = std::max(0.0, watch.seconds() - replies[0].seconds),
                     .extra_prompt_tokens = guarded.extra_prompt_tokens,
                     .extra_completion_tokens = guarded.extra_completion_tokens});
    to.status = guarded.status;
    for (const auto& [name, value] : guarded.headers) to.set_header(name, value);
    if (guarded.answered_by < 0 && guarded.status == 502 && guarded.body.empty()) {
      refuse(to, 502, "expected a reply from the upstream, got none", "no_reply");
    } else if (versions.stream && guarded.answered_by >= 0 && !guarded.refused) {
      to.set_content(as_events(guarded.body, versions.chat), "text/event-stream");
    } else {
      to.set_content(guarded.body, kJson);
    }
  }

  // By header, by the model's name, by chance.
  Wish wish_of(const httplib::Request& from, const std::string& body) {
    if (from.method != "POST" || !from.path.ends_with("/completions")) return {};
    if (from.has_header("X-Kvphase-Guard")) {
      return read_wish(from.get_header_value("X-Kvphase-Guard"), options.guard);
    }
    const Wish wish{
        .guarded = true, .offsets = options.guard.offsets, .policy = options.guard.policy};
    if (takes_suffix(body, options.guard)) return wish;
    if (options.sample <= 0 || wants_stream(body)) return {};
    const std::lock_guard lock(random_mutex);
    return random.uniform() < options.sample ? wish : Wish{};
  }

  void handle(const httplib::Request& from, std::string body, httplib::Response& to) {
    const auto counted = std::make_shared<Counted>(under_way, options.most_requests);
    if (!counted->ok()) {
      metrics.turned_away();
      to.set_header("Retry-After", "1");
      refuse(to, 503, fmt::format("expected at most {} requests at once", options.most_requests),
             "busy");
      return;
    }
    Wish wish;
    try {
      wish = wish_of(from, body);
    } catch (const base::Error& error) {
      refuse(to, 400, error.what(), "bad_header");
      return;
    }
    if (!wish.guarded) {
      pass(from, body, to, counted);
      return;
    }
    Versions versions = make_versions(from.path, body, wish.offsets, options.guard);
    const Counted guards(guarded_under_way, options.most_guarded);
    if (versions.skipped.empty() && !guards.ok()) versions.skipped = "too many are being guarded";
    if (versions.skipped.empty()) {
      guard(from, versions, wish, to);
      return;
    }
    if (wish.policy == Policy::kRefuse) {
      metrics.skipped();
      refuse(to, 422,
             fmt::format("expected a request that can be guarded, got one that cannot: {}",
                         versions.skipped),
             "skipped");
    } else {
      pass(from, without_suffix(body), to, counted, true);
    }
    to.set_header("X-Kvphase-Guard", "skipped");
    to.set_header("X-Kvphase-Guard-Reason", versions.skipped);
  }

  // The upstream does not know the suffixed name.
  std::string without_suffix(const std::string& body) const {
    if (!takes_suffix(body, options.guard)) return body;
    base::Json json = base::Json::parse(body);
    auto model = json["model"].get<std::string>();
    model.resize(model.size() - options.guard.suffix.size());
    json["model"] = model;
    return json.dump(-1, ' ', false, base::Json::error_handler_t::replace);
  }

  void handle_body(const httplib::Request& from, httplib::Response& to,
                   const httplib::ContentReader& read) {
    std::string body;
    bool too_large = false;
    const bool whole = read([&](const char* data, std::size_t size) {
      too_large = body.size() + size > options.max_body;
      if (!too_large) body.append(data, size);
      return !too_large;
    });
    if (too_large || to.status == 413) {
      refuse(to, 413, fmt::format("expected a body of at most {} bytes", options.max_body),
             "too_large");
    } else if (!whole) {
      refuse(to, 400, "expected a whole request, got a part", "bad_request");
    } else {
      handle(from, std::move(body), to);
    }
  }

  void route() {
    httplib::Server& http = listener.http();
    http.Get("/kvphase/metrics", [this](const httplib::Request&, httplib::Response& to) {
      to.set_content(metrics.text(), "text/plain; version=0.0.4");
    });
    http.Get("/kvphase/health", [](const httplib::Request&, httplib::Response& to) {
      to.set_content("{\"status\":\"ok\"}", kJson);
    });
    const auto plain = [this](const httplib::Request& from, httplib::Response& to) {
      handle(from, "", to);
    };
    const auto with_body = [this](const httplib::Request& from, httplib::Response& to,
                                  const httplib::ContentReader& read) {
      handle_body(from, to, read);
    };
    http.Get(".*", plain);
    http.Options(".*", plain);
    http.Post(".*", with_body);
    http.Put(".*", with_body);
    http.Patch(".*", with_body);
    http.Delete(".*", with_body);
    http.set_exception_handler(
        [](const httplib::Request&, httplib::Response& to, const std::exception_ptr&) {
          refuse(to, 500, "the proxy failed", "internal");
        });
  }

  ProxyOptions options;
  endpoint::BaseUrl upstream;
  endpoint::HttpClient client;
  std::mutex random_mutex;
  base::Random random;
  std::atomic<bool> free_line_break{false};  // as the upstream's counts have said
  std::atomic<int> under_way{0};
  std::atomic<int> guarded_under_way{0};
  Metrics metrics;
  serve::Listener listener;
};

Proxy::Proxy(const ProxyOptions& options) : state_(std::make_unique<State>(options)) {
  if (options.guard.offsets < 2 || options.guard.offsets > options.guard.most_offsets) {
    throw base::usage_error("guard", "expected 2 to {} offsets, got {}", options.guard.most_offsets,
                            options.guard.offsets);
  }
  state_->route();
}

Proxy::~Proxy() { stop(); }

int Proxy::start(const std::string& host, int port) {
  return state_->listener.start(host, port, "guard");
}

void Proxy::stop() { state_->listener.stop(); }

std::string Proxy::metrics() const { return state_->metrics.text(); }

}  // namespace kvphase::guard
