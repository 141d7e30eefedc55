#include "serve/server.h"

#include <fmt/format.h>
#include <httplib.h>

#include "base/error.h"
#include "serve/api.h"
#include "serve/listener.h"

namespace kvphase::serve {
namespace {

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
  State(lm::LanguageModel& model, const ServeOptions& given)
      : options(given),
        api(model, given),
        listener({.requests = static_cast<std::size_t>(given.max_waiting),
                  .most_body = given.max_body_bytes,
                  .write_seconds = kWriteSeconds}) {}

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
    httplib::Server& http = listener.http();
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
  Listener listener;
};

Server::Server(lm::LanguageModel& model, const ServeOptions& options)
    : state_(std::make_unique<State>(model, options)) {
  state_->route();
}

Server::~Server() { stop(); }

int Server::start(const std::string& host, int port) {
  return state_->listener.start(host, port, "serve");
}

void Server::stop() {
  state_->api.stop();
  state_->listener.stop();
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
