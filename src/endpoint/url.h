// Where a server lives: base URLs as a person types them, redirects, and proxies from the
// environment. Must not know sockets or HTTP.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace kvphase::endpoint {

struct Url {
  std::string scheme;    // "http" | "https"
  std::string host;      // without the brackets of an IPv6 address, lower case
  int port = 0;          // 1..65535, the scheme's default filled in
  std::string path;      // "" or "/..." without a slash at the end
  std::string user;      // of a proxy only
  std::string password;  // of a proxy only; never printed

  bool tls() const { return scheme == "https"; }
  std::string origin() const;  // "https://host:port", the default port left out
  std::string text() const;    // origin + path, without user and password

  bool operator==(const Url&) const = default;
};

// The server's root and the prefix of its OpenAI-style routes: ".../v1" at the end of what was
// given is that prefix ("/v4" and the like stay as given), and native routes live beside it.
struct BaseUrl {
  Url root;
  std::string version = "/v1";
};

// Throws a usage error (never showing a user name, password, query or key) for anything but
// http(s)://host[:port][/path].
BaseUrl parse_base_url(std::string_view text);

// The target of a redirect, absolute or relative to `from`; empty: not an http(s) URL we follow.
// The path keeps its query here.
std::optional<Url> resolve_redirect(const Url& from, std::string_view location);

// The value of an environment variable; empty when unset or empty. Tests give their own.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// The proxy for `url` from HTTP_PROXY, HTTPS_PROXY and NO_PROXY (lower case first); none for
// loopback hosts. NO_PROXY: "*", hosts, domains (with or without a leading dot), host:port. A proxy
// URL without a scheme is http. Throws a usage error, without its text, for one that is not a URL.
std::optional<Url> proxy_for(const Url& url, const Environment& environment);

bool is_loopback(std::string_view host);

}  // namespace kvphase::endpoint
