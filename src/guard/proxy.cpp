#include "guard/proxy.h"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "endpoint/url.h"
#include "guard/exchange.h"
#include "guard/metrics.h"
#include "guard/passing.h"
#include "serve/listener.h"

namespace kvphase::guard {
namespace {

using endpoint::HttpOutcome;
using endpoint::HttpRequest;
using endpoint::HttpResponse;
using Became = Metrics::Outcome;

constexpr int kWriteSeconds = 60;  // without the client taking a byte of the reply

// A guarded request's replies, and the HTTP that brought each.
struct Asked {
  std::vector<VersionReply> replies;
  std::vector<HttpResponse> responses;  // without their bodies
  void add(Asked more) {
    std::ranges::move(more.replies, std::back_inserter(replies));
    std::ranges::move(more.responses, std::back_inserter(responses));
  }
};

Became became(Outcome outcome) {
  switch (outcome) {
    case Outcome::kAnswered:
      return Became::kGuarded;
    case Outcome::kRefused:
      return Became::kRefused;
    case Outcome::kUpstreamError:
      return Became::kUpstreamError;
    case Outcome::kNoReply:
      return Became::kFailed;
  }
  return Became::kFailed;
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
    return request_to(upstream_path(from.target), from);
  }

  void pass(const httplib::Request& from, const std::string& body, httplib::Response& to,
            const std::shared_ptr<Counted>& counted, Became passed = Became::kPassed) {
    if (wants_stream(body)) {
      pass_stream(from, body, to, counted, passed);
      return;
    }
    HttpRequest request = request_of(from);
    request.body = body;
    HttpResponse reply = client.send(request);
    if (reply.outcome != HttpOutcome::kOk) {
      metrics.count(Became::kFailed);
      no_reply(to, reply);
      return;
    }
    metrics.count(passed);
    copy_headers(reply, to);
    to.set_content(std::move(reply.body), content_type_of(reply));
  }

  void pass_stream(const httplib::Request& from, const std::string& body, httplib::Response& to,
                   const std::shared_ptr<Counted>& counted, Became passed) {
    const auto exchange = std::make_shared<Exchange>(client, request_of(from), body);
    HttpResponse head = exchange->head();
    if (head.outcome != HttpOutcome::kOk && head.status / 100 != 2) {
      metrics.count(Became::kFailed);
      no_reply(to, head);
      return;
    }
    copy_headers(head, to);
    if (head.status / 100 != 2) {
      metrics.count(passed);
      to.set_content(std::move(head.body), content_type_of(head));
      return;
    }
    const auto ended = std::make_shared<bool>(false);
    to.set_chunked_content_provider(
        content_type_of(head),
        [this, exchange, counted, ended, passed](std::size_t, httplib::DataSink& sink) {
          bool ok = true;
          const std::string piece = exchange->next(ok);
          if (!piece.empty()) return sink.write(piece.data(), piece.size());
          metrics.count(ok ? passed : Became::kCut);
          *ended = true;
          if (ok) sink.done();
          return ok;  // false: the client sees a cut stream too
        },
        [this, ended](bool) {
          if (!*ended) metrics.count(Became::kLeft);
        });
  }

  // These versions at once, each as the upstream answers it.
  Asked ask(const httplib::Request& from, const Versions& versions,
            const std::vector<std::int64_t>& wanted) {
    Asked asked{.replies = std::vector<VersionReply>(wanted.size()),
                .responses = std::vector<HttpResponse>(wanted.size())};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      threads.emplace_back([&, i] {
        HttpRequest request = request_of(from);
        request.body = versions.bodies[static_cast<std::size_t>(wanted[i])];
        const base::Stopwatch watch;
        HttpResponse reply = client.send(request);
        const bool whole = reply.outcome == HttpOutcome::kOk;
        asked.replies[i] = {.version = wanted[i],
                            .status = whole ? reply.status : 0,
                            .body = whole ? std::move(reply.body) : "",
                            .seconds = watch.seconds()};
        reply.body.clear();
        asked.responses[i] = std::move(reply);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return asked;
  }

  // One version for each offset, as the line break was last seen to count; and the one that is
  // missing where it turns out to count otherwise. Again while two answers differ, up to the
  // repeats wished.
  Asked ask_at_offsets(const httplib::Request& from, const Versions& versions, const Wish& wish) {
    const auto row = [&](bool free) {
      std::vector<std::int64_t> wanted = {0};
      for (std::int64_t v = free ? 2 : 1; std::ssize(wanted) < wish.offsets; ++v) {
        wanted.push_back(v);
      }
      return wanted;
    };
    Asked asked = ask(from, versions, row(free_line_break));
    if (const auto missing = missing_version(asked.replies, wish.offsets)) {
      free_line_break = *missing == wish.offsets;
      asked.add(ask(from, versions, {*missing}));
    }
    if (wish.repeats < 2 || judge(asked.replies, wish.offsets, wish.policy).verdict != "disagree") {
      return asked;
    }
    const bool free = offsets_of(asked.replies, wish.offsets).free_line_break;
    for (std::int64_t repeat = 1; repeat < wish.repeats; ++repeat) {
      asked.add(ask(from, versions, row(free)));
    }
    return asked;
  }

  void guard(const httplib::Request& from, const Versions& versions, const Wish& wish,
             httplib::Response& to) {
    const base::Stopwatch watch;
    const Asked asked = ask_at_offsets(from, versions, wish);
    const Guarded guarded = judge(asked.replies, wish.offsets, wish.policy);
    metrics.guarded({.outcome = became(guarded.outcome),
                     .verdict = guarded.verdict,
                     .versions = guarded.asked,
                     .differ = guarded.votes.differ,
                     .added_seconds = std::max(0.0, watch.seconds() - asked.replies[0].seconds),
                     .extra_prompt_tokens = guarded.extra_prompt_tokens,
                     .extra_completion_tokens = guarded.extra_completion_tokens});
    if (guarded.outcome == Outcome::kNoReply) {
      no_reply(to, asked.responses[0]);
    } else if (!guarded.passed_on) {
      to.status = guarded.status;
      to.set_content(guarded.body, kJson);
    } else {
      const HttpResponse& given = asked.responses[*guarded.passed_on];
      copy_headers_for_new_body(given, to);
      to.status = guarded.status;
      const bool events = versions.stream && guarded.outcome == Outcome::kAnswered;
      to.set_content(events ? as_events(guarded.body, versions.chat) : guarded.body,
                     events ? "text/event-stream" : content_type_of(given));
    }
    for (const auto& [name, value] : guarded.headers) to.set_header(name, value);
  }

  // By header, by the model's name, by chance.
  Wish wish_of(const httplib::Request& from, const std::string& body) {
    if (from.method != "POST") return {};
    if (from.has_header("X-Kvphase-Guard")) {
      return read_wish(from.get_header_value("X-Kvphase-Guard"), options.guard);
    }
    const Wish wish = default_wish(options.guard);
    if (takes_suffix(body, options.guard)) return wish;
    if (options.sample <= 0 || !from.path.ends_with("/completions") || wants_stream(body)) {
      return {};
    }
    const std::lock_guard lock(random_mutex);
    return random.uniform() < options.sample ? wish : Wish{};
  }

  void handle(const httplib::Request& from, std::string body, httplib::Response& to) {
    const auto counted = std::make_shared<Counted>(under_way, options.most_requests);
    if (!counted->ok()) {
      metrics.count(Became::kTurnedAway);
      to.set_header("Retry-After", "1");
      refuse(to, 503, fmt::format("expected at most {} requests at once", options.most_requests),
             "busy");
      return;
    }
    Wish wish;
    try {
      wish = wish_of(from, body);
    } catch (const base::Error& error) {
      metrics.count(Became::kRejected);
      refuse(to, 400, error.what(), "bad_header");
      return;
    }
    if (!wish.guarded) {
      pass(from, without_suffix(body, options.guard), to, counted);
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
      metrics.count(Became::kSkipped);
      refuse(to, 422,
             fmt::format("expected a request that can be guarded, got one that cannot: {}",
                         versions.skipped),
             "skipped");
    } else {
      pass(from, without_suffix(body, options.guard), to, counted, Became::kSkipped);
    }
    to.set_header("X-Kvphase-Guard", "skipped");
    to.set_header("X-Kvphase-Guard-Reason", versions.skipped);
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
      metrics.count(Became::kRejected);
      refuse(to, 413, fmt::format("expected a body of at most {} bytes", options.max_body),
             "too_large");
    } else if (!whole) {
      metrics.count(Became::kRejected);
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
