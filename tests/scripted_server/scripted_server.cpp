#include "tests/scripted_server/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <csignal>
#include <list>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace kvphase::scripted {
namespace {

// A socket, with or without TLS.
class Wire {
 public:
  Wire(int socket, SSL_CTX* context) : socket_(socket) {
    if (context != nullptr) {
      ssl_ = SSL_new(context);
      SSL_set_fd(ssl_, socket);
      good_ = SSL_accept(ssl_) == 1;
    }
  }
  ~Wire() {
    if (ssl_ != nullptr) {
      if (good_) SSL_shutdown(ssl_);
      SSL_free(ssl_);
    }
    ::shutdown(socket_, SHUT_RDWR);
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  bool good() const { return good_; }

  bool write(std::string_view data) {
    while (good_ && !data.empty()) {
      const auto sent = ssl_ != nullptr
                            ? SSL_write(ssl_, data.data(), static_cast<int>(data.size()))
                            : ::send(socket_, data.data(), data.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        good_ = false;
      } else {
        data.remove_prefix(static_cast<std::size_t>(sent));
      }
    }
    return good_;
  }

  bool read_more(std::string& buffer) {
    char block[65536];
    const auto got = ssl_ != nullptr ? SSL_read(ssl_, block, sizeof block)
                                     : ::recv(socket_, block, sizeof block, 0);
    if (got <= 0) return good_ = false;
    buffer.append(block, static_cast<std::size_t>(got));
    return true;
  }

 private:
  int socket_;
  SSL* ssl_ = nullptr;
  bool good_ = true;
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

template <typename T, void (*Free)(T*)>
struct Freed {
  void operator()(T* value) const { Free(value); }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
using X509Ptr = std::unique_ptr<X509, Freed<X509, X509_free>>;

template <typename Write>
std::string pem(Write write) {
  BIO* bio = BIO_new(BIO_s_mem());
  write(bio);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

}  // namespace

std::string Request::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return "";
}

base::Json Request::json() const {
  base::Json value = base::Json::parse(body, nullptr, false);
  return value.is_discarded() ? base::Json(nullptr) : value;
}

Reply json_reply(const base::Json& body, int status) {
  return {.status = status, .body = body.dump()};
}

Certificate make_certificate(const std::string& host, std::int64_t seconds_valid_from_now) {
  const Key key(EVP_EC_gen("P-256"));
  const X509Ptr cert(X509_new());
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -86400 * 2);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), static_cast<long>(seconds_valid_from_now));
  X509_set_pubkey(cert.get(), key.get());
  X509_NAME* name = X509_get_subject_name(cert.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(host.c_str()), -1, -1, 0);
  X509_set_issuer_name(cert.get(), name);
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, cert.get(), cert.get(), nullptr, nullptr, 0);
  const std::string names = "DNS:" + host + ",IP:127.0.0.1";
  for (const auto& [id, value] : {std::pair{NID_subject_alt_name, names},
                                  std::pair{NID_basic_constraints, std::string("CA:TRUE")}}) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
    X509_add_ext(cert.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(cert.get(), key.get(), EVP_sha256());
  return {.certificate = pem([&](BIO* bio) { PEM_write_bio_X509(bio, cert.get()); }),
          .key = pem([&](BIO* bio) {
            PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

class ScriptedServer::Impl {
 public:
  Impl(Handler handler, const std::optional<Certificate>& tls, int port)
      : handler_(std::move(handler)), tls_(tls.has_value()) {
    std::signal(SIGPIPE, SIG_IGN);  // a test program; OpenSSL has no MSG_NOSIGNAL
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 256) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw std::runtime_error("scripted server: cannot listen on 127.0.0.1");
    }
    port_ = ntohs(address.sin_port);
    if (tls) {
      context_ = SSL_CTX_new(TLS_server_method());
      BIO* bio =
          BIO_new_mem_buf(tls->certificate.data(), static_cast<int>(tls->certificate.size()));
      const X509Ptr cert(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr));
      BIO_free(bio);
      bio = BIO_new_mem_buf(tls->key.data(), static_cast<int>(tls->key.size()));
      const Key key(PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr));
      BIO_free(bio);
      SSL_CTX_use_certificate(context_, cert.get());
      SSL_CTX_use_PrivateKey(context_, key.get());
    }
    acceptor_ = std::thread([this] { accept_all(); });
  }

  ~Impl() {
    closing_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int socket : open_) ::shutdown(socket, SHUT_RDWR);
    }
    for (auto& thread : threads_) thread.join();
    ::close(listener_);
    SSL_CTX_free(context_);
  }

  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::int64_t connections_ = 0;
  bool keep_ = true;
  bool tls_scheme() const { return tls_; }

 private:
  void accept_all() {
    while (!closing_) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) continue;
      const int yes = 1;
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      const std::lock_guard lock(mutex_);
      ++connections_;
      open_.push_back(socket);
      threads_.emplace_back([this, socket] {
        serve(socket);
        const std::lock_guard inner(mutex_);
        open_.remove(socket);
        ::close(socket);
      });
    }
  }

  void serve(int socket) {
    Wire wire(socket, context_);
    std::string buffer;
    while (wire.good() && !closing_) {
      Request request;
      if (!read_request(wire, buffer, request)) return;
      Reply reply;
      {
        const std::lock_guard lock(mutex_);
        request.index = served_++;
        if (keep_) requests_.push_back(request);
      }
      {
        const std::lock_guard lock(handler_mutex_);
        reply = handler_(request);
      }
      if (!send_reply(wire, reply)) return;
    }
  }

  static bool read_request(Wire& wire, std::string& buffer, Request& request) {
    std::size_t end = 0;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
      if (!wire.read_more(buffer)) return false;
    }
    std::size_t length = 0;
    std::size_t line = buffer.find("\r\n");
    const std::size_t space = buffer.find(' ');
    const std::size_t second = buffer.find(' ', space + 1);
    request.method = buffer.substr(0, space);
    request.path = buffer.substr(space + 1, second - space - 1);
    while (line < end) {
      const std::size_t start = line + 2;
      line = buffer.find("\r\n", start);
      const std::size_t colon = buffer.find(':', start);
      std::string value = buffer.substr(colon + 1, line - colon - 1);
      value.erase(0, value.find_first_not_of(' '));
      request.headers.emplace_back(lower(buffer.substr(start, colon - start)), value);
      if (request.headers.back().first == "content-length") length = std::stoul(value);
    }
    buffer.erase(0, end + 4);
    while (buffer.size() < length) {
      if (!wire.read_more(buffer)) return false;
    }
    request.body = buffer.substr(0, length);
    buffer.erase(0, length);
    return true;
  }

  bool pause(double seconds) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!closing_ && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, 0.005)));
    }
    return !closing_;
  }

  bool send_reply(Wire& wire, const Reply& reply) const {
    if (reply.delay > 0 && !pause(reply.delay)) return false;
    if (reply.raw) {
      wire.write(reply.body);
      return false;
    }
    std::string head = "HTTP/1.1 " + std::to_string(reply.status) +
                       " Scripted\r\nContent-Type: " + reply.content_type + "\r\n";
    for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
    const bool chunked = !reply.pieces.empty();
    head += chunked ? "Transfer-Encoding: chunked\r\n"
                    : "Content-Length: " +
                          std::to_string(reply.claimed_length.value_or(reply.body.size())) + "\r\n";
    head += "\r\n";
    if (!chunked && reply.seconds_per_byte <= 0) {
      head += std::string_view(reply.body).substr(0, reply.cut_after.value_or(reply.body.size()));
    }
    if (!wire.write(head)) return false;
    std::size_t sent = 0;
    if (chunked) {
      for (std::size_t i = 0; i < reply.pieces.size(); ++i) {
        if (i > 0 && reply.piece_delay > 0 && !pause(reply.piece_delay)) return false;
        char size[32];
        std::snprintf(size, sizeof size, "%zx\r\n", reply.pieces[i].size());
        if (!wire.write(size + reply.pieces[i] + "\r\n")) return false;
        sent += reply.pieces[i].size();
        if (reply.cut_after && sent >= *reply.cut_after) return false;
      }
      if (!wire.write("0\r\n\r\n")) return false;
    } else if (reply.seconds_per_byte > 0) {
      for (const char c : reply.body) {
        if (!pause(reply.seconds_per_byte) || !wire.write(std::string_view(&c, 1))) return false;
      }
    }
    return !reply.cut_after && !reply.close;
  }

  Handler handler_;
  std::mutex handler_mutex_;
  bool tls_ = false;
  SSL_CTX* context_ = nullptr;
  int listener_ = -1;
  std::atomic<bool> closing_{false};
  std::int64_t served_ = 0;
  std::list<int> open_;
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

ScriptedServer::ScriptedServer(Handler handler, std::optional<Certificate> tls, int port)
    : impl_(std::make_unique<Impl>(std::move(handler), tls, port)) {}

ScriptedServer::~ScriptedServer() = default;

int ScriptedServer::port() const { return impl_->port_; }

std::string ScriptedServer::url() const {
  return (impl_->tls_scheme() ? "https" : "http") +
         ("://127.0.0.1:" + std::to_string(impl_->port_));
}

std::vector<Request> ScriptedServer::requests() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->requests_;
}

std::int64_t ScriptedServer::connections() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->connections_;
}

void ScriptedServer::keep_requests(bool keep) {
  const std::lock_guard lock(impl_->mutex_);
  impl_->keep_ = keep;
}

}  // namespace kvphase::scripted
