#include "endpoint/http.h"

#include <httplib.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include "base/stop.h"

namespace kvphase::endpoint {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Writing to a closed socket must be an error of this request, not the end of the process. Blocked
// for this thread only; a pending signal of our own is taken off.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlocked() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec now{};
    while (sigtimedwait(&pipe_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocked(const SigpipeBlocked&) = delete;
  SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

// One open connection. `handle` is our own duplicate of its socket: the watchdog may shut it down
// at any time, whatever the library does with the number it has.
struct Connection {
  std::unique_ptr<httplib::Client> client;
  std::string origin;
  std::mutex mutex;  // of handle
  int handle = -1;
  bool used = false;  // has carried a reply

  ~Connection() { adopt(-1); }
  void adopt(int socket) {
    const std::lock_guard lock(mutex);
    if (handle >= 0) ::close(handle);
    handle = socket >= 0 ? ::fcntl(socket, F_DUPFD_CLOEXEC, 0) : -1;
  }
  void shut_down() {
    const std::lock_guard lock(mutex);
    if (handle >= 0) ::shutdown(handle, SHUT_RDWR);
  }
  // Closed by the server, or holding bytes that no request asked for.
  bool stale() {
    const std::lock_guard lock(mutex);
    if (handle < 0) return true;
    pollfd state{.fd = handle, .events = POLLIN, .revents = 0};
    return ::poll(&state, 1, 0) != 0;
  }
};

bool is_redirect(const HttpResponse& response) {
  return response.status >= 301 && response.status <= 308 && response.status != 304 &&
         response.header("location").has_value();
}

enum class Phase { kConnecting, kWaiting, kReading };

// One request under way, watched from outside.
struct Flight {
  Connection* connection = nullptr;
  Clock::time_point begun = Clock::now();  // of the whole request
  std::atomic<Clock::rep> active{0};       // last sign of life
  std::atomic<Phase> phase{Phase::kConnecting};
  std::atomic<bool> fired{false};
  std::atomic<HttpOutcome> cause{HttpOutcome::kOk};

  void touch() { active = Clock::now().time_since_epoch().count(); }
  double quiet() const {
    return since(Clock::time_point(Clock::duration(active.load(std::memory_order_relaxed))));
  }
  void fire(HttpOutcome why) {
    cause = why;
    fired = true;
    connection->shut_down();
  }
};

}  // namespace

class HttpClient::Impl {
 public:
  Impl(Url root, HttpOptions options, Environment environment)
      : root_(std::move(root)),
        options_(std::move(options)),
        environment_(std::move(environment)),
        watchdog_([this] { watch(); }) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    wake_.notify_all();
    watchdog_.join();
  }

  HttpResponse send(const HttpRequest& request) {
    const SigpipeBlocked guard;
    Url url = root_;
    url.path += request.path;
    const Clock::time_point begun = Clock::now();
    std::string method = request.method;
    for (int redirects = 0;; ++redirects) {
      HttpResponse response = send_once(request, method, url, begun);
      response.redirects = redirects;
      if (response.outcome != HttpOutcome::kOk || !is_redirect(response)) return response;
      const auto next = resolve_redirect(url, *response.header("location"));
      response.outcome = HttpOutcome::kRedirectRefused;
      if (!next) {
        response.detail = "redirected to something that is not an http(s) address";
      } else if (url.tls() && !next->tls()) {
        response.detail = "redirected from https to http";
      } else if (redirects >= options_.max_redirects) {
        response.detail = "more than " + std::to_string(options_.max_redirects) + " redirects";
      } else {
        // A completion stays a POST: turning it into a GET, as browsers do, would ask something
        // else. Only 303 asks for that.
        if (response.status == 303) method = "GET";
        url = *next;
        continue;
      }
      return response;
    }
  }

 private:
  std::unique_ptr<Connection> connect(const Url& url) {
    auto connection = std::make_unique<Connection>();
    connection->origin = url.origin();
    const std::string host =
        url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]";
    connection->client = std::make_unique<httplib::Client>(url.scheme + "://" + host + ":" +
                                                           std::to_string(url.port));
    httplib::Client& client = *connection->client;
    client.set_keep_alive(true);
    client.set_tcp_nodelay(true);
    client.set_url_encode(false);
    client.set_follow_location(false);
    const auto seconds = [](double s) {
      return std::chrono::microseconds(static_cast<std::int64_t>(s * 1e6));
    };
    client.set_connection_timeout(seconds(options_.timeouts.connect));
    // Longer than the watchdog ever waits, so that it alone says which phase was too slow.
    client.set_read_timeout(seconds(options_.timeouts.total + 60));
    client.set_write_timeout(seconds(options_.timeouts.total + 60));
    if (!options_.ca_bundle.empty()) client.set_ca_cert_path(options_.ca_bundle);
    client.enable_server_certificate_verification(true);
    if (const auto proxy = proxy_for(url, environment_)) {
      client.set_proxy(proxy->host, proxy->port);
      if (!proxy->user.empty()) client.set_proxy_basic_auth(proxy->user, proxy->password);
    }
    client.set_socket_options([raw = connection.get()](socket_t sock) { raw->adopt(sock); });
    return connection;
  }

  std::unique_ptr<Connection> take(const Url& url) {
    const std::string origin = url.origin();
    while (true) {
      std::unique_ptr<Connection> connection;
      {
        const std::lock_guard lock(mutex_);
        const auto found = std::find_if(idle_.rbegin(), idle_.rend(), [&](const auto& candidate) {
          return candidate->origin == origin;
        });
        if (found == idle_.rend()) break;
        connection = std::move(*found);
        idle_.erase(std::next(found).base());
      }
      if (!connection->stale()) return connection;
    }
    return connect(url);
  }

  HttpResponse send_once(const HttpRequest& request, const std::string& method, const Url& url,
                         Clock::time_point begun) {
    try {
      while (true) {
        std::unique_ptr<Connection> connection = take(url);
        const bool reused = connection->used;
        HttpResponse response = exchange(*connection, request, method, url, begun);
        if (response.outcome == HttpOutcome::kOk) {
          connection->used = true;
          const std::lock_guard lock(mutex_);
          idle_.push_back(std::move(connection));
        } else if (reused && response.outcome == HttpOutcome::kDisconnected &&
                   response.status == 0) {
          continue;  // the server closed an idle connection; not this request's fault
        }
        return response;
      }
    } catch (const std::exception& error) {
      return {.outcome = HttpOutcome::kConnectFailed, .detail = error.what()};
    }
  }

  HttpResponse exchange(Connection& connection, const HttpRequest& request,
                        const std::string& method, const Url& url, Clock::time_point begun) {
    HttpResponse response;
    Flight flight;
    flight.connection = &connection;
    flight.begun = begun;
    flight.touch();

    httplib::Request out;
    out.method = method;
    out.path = url.path.empty() ? "/" : url.path;
    out.headers.emplace(
        "Accept", request.on_chunk ? "text/event-stream, application/json" : "application/json");
    out.headers.emplace("Accept-Encoding", "identity");
    out.headers.emplace("User-Agent", options_.user_agent);
    if (url.origin() == root_.origin()) {
      for (const auto& [name, value] : request.headers) out.headers.emplace(name, value);
    }
    if (method != "GET") {
      out.body = std::string(request.body);
      out.headers.emplace("Content-Type", request.content_type);
    }
    bool too_large = false;
    bool cancelled = false;
    out.response_handler = [&](const httplib::Response& head) {
      flight.phase = Phase::kReading;
      flight.touch();
      response.first_byte_seconds = since(begun);
      response.status = head.status;
      for (const auto& [name, value] : head.headers) {
        std::string lower = name;
        std::transform(lower.begin(), lower.end(), lower.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        response.headers.emplace_back(std::move(lower), value);
      }
      const std::uint64_t length = head.get_header_value<std::uint64_t>("Content-Length");
      too_large = length > options_.max_body;
      if (request.on_head && !too_large && !is_redirect(response)) request.on_head(response);
      return !too_large;
    };
    std::size_t received = 0;
    out.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
      flight.touch();
      received += size;
      too_large = received > options_.max_body;
      if (too_large) return false;
      if (request.on_chunk && response.status / 100 == 2) {
        cancelled = !request.on_chunk(std::string_view(data, size));
        return !cancelled;
      }
      response.body.append(data, size);
      return true;
    };

    const auto entry = enter(flight);
    httplib::Response in;
    httplib::Error error = httplib::Error::Success;
    const bool sent = connection.client->send(out, in, error);
    leave(entry);
    response.total_seconds = since(begun);
    if (flight.fired) {
      response.outcome = flight.cause;
      response.detail = describe(flight.cause, received);
    } else if (sent) {
      response.outcome = HttpOutcome::kOk;
    } else if (too_large) {
      response.outcome = HttpOutcome::kTooLarge;
      response.detail =
          "a reply of more than " + std::to_string(options_.max_body) + " bytes, the limit";
    } else if (cancelled) {
      response.outcome = HttpOutcome::kCancelled;
    } else {
      explain(connection, error, received, response);
    }
    return response;
  }

  static std::string describe(HttpOutcome cause, std::size_t received) {
    return std::string(name_of(cause)) + " after " + std::to_string(received) +
           " bytes of the body";
  }

  void explain(Connection& connection, httplib::Error error, std::size_t received,
               HttpResponse& response) const {
    switch (error) {
      case httplib::Error::ConnectionTimeout:
        response.outcome = HttpOutcome::kConnectTimeout;
        response.detail = "no connection within the time limit";
        break;
      case httplib::Error::Connection:
      case httplib::Error::BindIPAddress:
        response.outcome = HttpOutcome::kConnectFailed;
        response.detail = "connection refused, host unknown or proxy not usable";
        break;
      case httplib::Error::SSLConnection:
        response.outcome = HttpOutcome::kTlsFailed;
        response.detail = "no TLS on the other side, or none both sides know";
        break;
      case httplib::Error::SSLLoadingCerts:
        response.outcome = HttpOutcome::kTlsFailed;
        response.detail = options_.ca_bundle.empty()
                              ? "the system's certificate authorities cannot be read"
                              : "the CA bundle " + options_.ca_bundle + " cannot be read";
        break;
      case httplib::Error::SSLServerVerification: {
        response.outcome = HttpOutcome::kTlsFailed;
        const long result = connection.client->get_openssl_verify_result();
        response.detail = result == X509_V_OK ? "the certificate is for another host"
                                              : std::string(X509_verify_cert_error_string(result));
        break;
      }
      default:
        response.outcome = HttpOutcome::kDisconnected;
        response.detail = response.status == 0
                              ? "the connection closed before a reply, or the reply was not HTTP"
                              : "the connection closed after " + std::to_string(received) +
                                    " bytes of the body, before its end";
    }
  }

  using Entry = std::list<Flight*>::iterator;

  Entry enter(Flight& flight) {
    const std::lock_guard lock(mutex_);
    flights_.push_back(&flight);
    if (flights_.size() == 1) wake_.notify_all();
    return std::prev(flights_.end());
  }

  void leave(Entry entry) {
    const std::lock_guard lock(mutex_);
    flights_.erase(entry);
  }

  void watch() {
    std::unique_lock lock(mutex_);
    const HttpTimeouts& limit = options_.timeouts;
    const double shortest = std::min({limit.first_byte, limit.idle, limit.total, 2.0});
    const auto tick = std::chrono::duration<double>(std::max(0.005, shortest / 40));
    while (!closing_) {
      if (flights_.empty()) {
        wake_.wait(lock, [this] { return closing_ || !flights_.empty(); });
      } else {
        wake_.wait_for(lock, tick, [this] { return closing_; });
      }
      const bool stop = base::stop_requested();
      for (Flight* flight : flights_) {
        if (flight->fired) {
          flight->connection->shut_down();  // it may have opened a new socket since
        } else if (stop) {
          flight->fire(HttpOutcome::kStopped);
        } else if (since(flight->begun) > limit.total) {
          flight->fire(HttpOutcome::kTotalTimeout);
        } else if (flight->phase == Phase::kReading) {
          if (flight->quiet() > limit.idle) flight->fire(HttpOutcome::kIdleTimeout);
        } else if (flight->quiet() > limit.first_byte) {
          flight->fire(HttpOutcome::kFirstByteTimeout);
        }
      }
    }
  }

  Url root_;
  HttpOptions options_;
  Environment environment_;
  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::list<Flight*> flights_;
  bool closing_ = false;
  std::thread watchdog_;  // last: it uses all of the above
};

HttpClient::HttpClient(Url root, HttpOptions options, Environment environment)
    : impl_(std::make_unique<Impl>(std::move(root), std::move(options), std::move(environment))) {}

HttpClient::~HttpClient() = default;

HttpResponse HttpClient::send(const HttpRequest& request) { return impl_->send(request); }

std::optional<std::string> HttpResponse::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return std::nullopt;
}

std::string_view name_of(HttpOutcome outcome) {
  switch (outcome) {
    case HttpOutcome::kOk:
      return "ok";
    case HttpOutcome::kConnectFailed:
      return "connect_failed";
    case HttpOutcome::kConnectTimeout:
      return "connect_timeout";
    case HttpOutcome::kTlsFailed:
      return "tls_failed";
    case HttpOutcome::kFirstByteTimeout:
      return "first_byte_timeout";
    case HttpOutcome::kIdleTimeout:
      return "idle_timeout";
    case HttpOutcome::kTotalTimeout:
      return "total_timeout";
    case HttpOutcome::kDisconnected:
      return "disconnected";
    case HttpOutcome::kTooLarge:
      return "too_large";
    case HttpOutcome::kRedirectRefused:
      return "redirect_refused";
    case HttpOutcome::kCancelled:
      return "cancelled";
    case HttpOutcome::kStopped:
      return "stopped";
  }
  return "unknown";
}

}  // namespace kvphase::endpoint
