#include "serve/listener.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"

namespace kvphase::serve {
namespace {

// Beyond the requests in line, so that refusals and /health are answered while it is full.
constexpr std::size_t kSpareThreads = 16;
constexpr int kKeepAliveSeconds =
    2;  // an idle connection holds a thread, and delays stop(), so long
constexpr std::size_t kRequestsPerConnection =
    1000;                         // said to the client, which then connects anew
constexpr int kReadSeconds = 30;  // without a byte of the request
constexpr int kBacklog = 512;     // connections that wait to be accepted

}  // namespace

Listener::Listener(const ListenOptions& options) {
  const std::size_t threads = options.requests + kSpareThreads;
  http_.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };
  http_.set_payload_max_length(options.most_body);
  http_.set_keep_alive_timeout(kKeepAliveSeconds);
  http_.set_keep_alive_max_count(kRequestsPerConnection);
  http_.set_read_timeout(kReadSeconds);
  http_.set_write_timeout(options.write_seconds);
  http_.set_tcp_nodelay(true);  // a streamed token must not wait for the next one
  http_.set_socket_options([this](int socket) {
    socket_ = socket;
    // Not SO_REUSEPORT, httplib's default: a second server on the port must fail, not share it.
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
}

int Listener::start(const std::string& host, int port, std::string_view scope) {
  errno = 0;
  if (port == 0) {
    port = http_.bind_to_any_port(host);
  } else if (!http_.bind_to_port(host, port)) {
    port = -1;
  }
  if (port < 0) {
    throw base::environment_error(
        scope, "expected to listen on {}, got: {}; is the port taken, or the host not this one?",
        host, errno != 0 ? std::strerror(errno) : "no such address");
  }
  // httplib's own 5 lose connections when many clients come at once.
  ::listen(socket_, kBacklog);
  thread_ = std::thread([this] { http_.listen_after_bind(); });
  while (!http_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return port;
}

void Listener::stop() {
  http_.stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace kvphase::serve
