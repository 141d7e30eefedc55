#include "serve/server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <thread>

#include "base/error.h"
#include "serve/api.h"

namespace kvphase::serve {
namespace {

// Beyond the requests in line, so that refusals and /health are answered while it is full.
constexpr std::size_t kSpareThreads = 16;
constexpr int kKeepAliveSeconds =
    2;                             // an idle connection holds a thread, and delays stop(), so long
constexpr int kReadSeconds = 30;   // without a byte of the request
constexpr int kWriteSeconds = 30;  // without the client taking a byte of the reply
// A refused body is read to its end, so that the reply is seen, but no further than this: a
// compressed one may be a thousand times its length.
constexpr std::size_t kDiscardFactor = 4;

HttpRequest request_of(const httplib::Request& from) {
  return {.method = from.method,
          .path = from.path,
          .authorization = from.get_header_value("Authorization"),
          .body = from.body};
}

void write(const HttpReply& reply, httplib::Response& to) {
  to.status = reply.status;
  for (const auto& [name, value] : reply.headers) to.set_header(name, value);
  if (!reply.stream) {
    to.set_content(reply.body, reply.content_type);
    return;
  }
  to.set_chunked_content_provider(reply.content_type,
                                  [stream = reply.stream](std::size_t, httplib::DataSink& sink) {
                                    bool open = true;
                                    stream([&](std::string_view bytes) {
                                      open = open && sink.write(bytes.data(), bytes.size());
                                      return open;
                                    });
                                    if (open) sink.done();
                                    return open;
                                  });
}

}  // namespace

struct Server::State {
  State(lm::LanguageModel& model, const ServeOptions& given) : options(given), api(model, given) {}

  void handle_post(const httplib::Request& request, httplib::Response& response,
                   const httplib::ContentReader& read) {
    HttpRequest wanted = request_of(request);
    std::size_t received = 0;
    const auto take = [&](const char* data, std::size_t size) {
      received += size;
      if (received <= options.max_body_bytes) wanted.body.append(data, size);
      return received <= options.max_body_bytes * kDiscardFactor;
    };
    if (request.is_multipart_form_data()) {
      read([](const httplib::MultipartFormData&) { return true; },
           [](const char*, std::size_t) { return true; });
    } else if (!read(take) && received <= options.max_body_bytes) {
      // httplib has set a status of its own (413 by the announced length, or a torn body).
      const int status = response.status == 413 ? 413 : 400;
      write(refusal(status), response);
      return;
    }
    if (received > options.max_body_bytes) {
      write(refusal(413), response);
    } else {
      write(api.handle(wanted), response);
    }
  }

  HttpReply refusal(int status) const {
    if (status == 413) {
      return error_reply(413, fmt::format("expected a body of at most {} bytes, got a longer one",
                                          options.max_body_bytes));
    }
    return error_reply(status, "expected a well-formed HTTP request, got another");
  }

  void route() {
    for (const char* path :
         {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"}) {
      http.Post(path, [this](const httplib::Request& request, httplib::Response& response,
                             const httplib::ContentReader& read) {
        handle_post(request, response, read);
      });
    }
    // Every other path and every refusal of httplib's own arrives here, the body read.
    http.set_error_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (!response.body.empty()) return;
      const bool unmatched =
          response.status == 404 || (response.status == 400 && !request.path.empty());
      write(unmatched ? api.handle(request_of(request)) : refusal(response.status), response);
    });
    http.set_exception_handler(
        [](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
          write(error_reply(500, "the server failed"), response);
        });
  }

  ServeOptions options;
  Api api;
  httplib::Server http;
  std::thread listener;
};

Server::Server(lm::LanguageModel& model, const ServeOptions& options)
    : state_(std::make_unique<State>(model, options)) {
  httplib::Server& http = state_->http;
  const std::size_t threads = static_cast<std::size_t>(options.max_waiting) + kSpareThreads;
  http.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };
  http.set_payload_max_length(options.max_body_bytes);
  http.set_keep_alive_timeout(kKeepAliveSeconds);
  http.set_keep_alive_max_count(std::numeric_limits<std::size_t>::max());
  http.set_read_timeout(kReadSeconds);
  http.set_write_timeout(kWriteSeconds);
  http.set_tcp_nodelay(true);  // a streamed token must not wait for the next one
  http.set_socket_options([](int socket) {
    // Not SO_REUSEPORT, httplib's default: a second server on the port must fail, not share it.
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  state_->route();
}

Server::~Server() { stop(); }

int Server::start(const std::string& host, int port) {
  httplib::Server& http = state_->http;
  errno = 0;
  if (port == 0) {
    port = http.bind_to_any_port(host);
  } else if (!http.bind_to_port(host, port)) {
    port = -1;
  }
  if (port < 0) {
    throw base::environment_error(
        "serve", "expected to listen on {}, got: {}; is the port taken, or the host not this one?",
        host, errno != 0 ? std::strerror(errno) : "no such address");
  }
  state_->listener = std::thread([&http] { http.listen_after_bind(); });
  while (!http.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return port;
}

void Server::stop() {
  state_->api.stop();
  state_->http.stop();
  if (state_->listener.joinable()) state_->listener.join();
}

const std::string& Server::model_name() const { return state_->api.model_name(); }

std::string server_url(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace kvphase::serve
