#include "guard/passing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "guard/guarding.h"

namespace kvphase::guard {
namespace {

using endpoint::HttpOutcome;
using endpoint::HttpRequest;
using endpoint::HttpResponse;

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

bool is_of_the_body(const std::string& name) {
  static constexpr std::array kOfBody = {"content-encoding", "content-md5",   "content-digest",
                                         "repr-digest",      "digest",        "etag",
                                         "content-range",    "accept-ranges", "last-modified"};
  return std::ranges::find(kOfBody, name) != kOfBody.end() || name.starts_with("x-kvphase-guard");
}

}  // namespace

HttpRequest request_to(const std::string& path, const httplib::Request& from) {
  HttpRequest request{.method = from.method, .path = path};
  if (from.has_header("Content-Type")) request.content_type = from.get_header_value("Content-Type");
  for (const auto& [name, value] : from.headers) {
    if (!is_ours(lower(name))) request.headers.emplace_back(name, value);
  }
  return request;
}

void copy_headers(const HttpResponse& from, httplib::Response& to) {
  to.status = from.status;
  for (const auto& [name, value] : from.headers) {
    if (!is_ours(name)) to.headers.emplace(name, value);
  }
}

void copy_headers_for_new_body(const HttpResponse& from, httplib::Response& to) {
  for (const auto& [name, value] : from.headers) {
    if (!is_ours(name) && !is_of_the_body(name)) to.headers.emplace(name, value);
  }
}

std::string content_type_of(const HttpResponse& from) {
  return from.header("content-type").value_or("application/octet-stream");
}

void refuse(httplib::Response& to, int status, std::string_view message, std::string_view code) {
  to.status = status;
  to.set_content(error_body(message, code), kJson);
}

void no_reply(httplib::Response& to, const HttpResponse& from) {
  const bool late =
      from.outcome == HttpOutcome::kFirstByteTimeout || from.outcome == HttpOutcome::kIdleTimeout ||
      from.outcome == HttpOutcome::kTotalTimeout || from.outcome == HttpOutcome::kConnectTimeout;
  refuse(to, late ? 504 : 502,
         fmt::format("expected a reply from the upstream, got {}: {}", name_of(from.outcome),
                     from.detail),
         name_of(from.outcome));
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

}  // namespace kvphase::guard
