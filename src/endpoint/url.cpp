#include "endpoint/url.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace kvphase::endpoint {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

int default_port(std::string_view scheme) { return scheme == "https" ? 443 : 80; }

// What is wrong with a URL, without repeating what may be secret in it.
struct Parsed {
  std::optional<Url> url;
  std::string problem;
};

Parsed parse(std::string_view text, bool allow_user, bool keep_query) {
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos) return {std::nullopt, "no http:// or https:// in front"};
  Url url{.scheme = lower(text.substr(0, colon))};
  if (url.scheme != "http" && url.scheme != "https") {
    return {std::nullopt, "the scheme '" + url.scheme + "'"};
  }
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f) {
      return {std::nullopt, "a space or control character"};
    }
  }
  std::string_view rest = text.substr(colon + 3);
  const std::size_t end = rest.find_first_of("/?#");
  std::string_view authority = rest.substr(0, end);
  std::string_view path = end == std::string_view::npos ? "" : rest.substr(end);
  if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
    if (!allow_user) {
      return {std::nullopt, "a user name or password in the URL; name a key's variable instead"};
    }
    const std::string_view user = authority.substr(0, at);
    const std::size_t split = user.find(':');
    url.user = user.substr(0, split);
    if (split != std::string_view::npos) url.password = user.substr(split + 1);
    authority = authority.substr(at + 1);
  }
  std::string_view port;
  if (!authority.empty() && authority.front() == '[') {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) return {std::nullopt, "an IPv6 address without ']'"};
    url.host = lower(authority.substr(1, close - 1));
    authority = authority.substr(close + 1);
    if (!authority.empty() && authority.front() != ':') {
      return {std::nullopt, "text after the IPv6 address"};
    }
    if (!authority.empty()) port = authority.substr(1);
  } else {
    const std::size_t split = authority.find(':');
    url.host = lower(authority.substr(0, split));
    if (split != std::string_view::npos) port = authority.substr(split + 1);
  }
  if (url.host.empty()) return {std::nullopt, "no host"};
  url.port = default_port(url.scheme);
  if (!port.empty()) {
    const auto [stop, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
    if (error != std::errc{} || stop != port.data() + port.size() || url.port < 1 ||
        url.port > 65535) {
      return {std::nullopt, "a port that is not a number of 1 to 65535"};
    }
  }
  if (const std::size_t hash = path.find('#'); hash != std::string_view::npos) {
    if (!keep_query) return {std::nullopt, "a '#' part"};
    path = path.substr(0, hash);
  }
  if (!keep_query) {
    if (path.find('?') != std::string_view::npos) {
      return {std::nullopt, "a '?' part; a key belongs in an environment variable"};
    }
    while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  }
  url.path = std::string(path);
  if (!url.path.empty() && url.path.front() == '?') url.path = fmt::format("/{}", url.path);
  return {url, ""};
}

}  // namespace

std::string Url::origin() const {
  const std::string shown = host.find(':') == std::string::npos ? host : fmt::format("[{}]", host);
  return port == default_port(scheme) ? scheme + "://" + shown
                                      : fmt::format("{}://{}:{}", scheme, shown, port);
}

std::string Url::text() const { return origin() + path; }

BaseUrl parse_base_url(std::string_view text) {
  const Parsed parsed = parse(text, false, false);
  if (!parsed.url) {
    throw base::usage_error(
        "endpoint", "expected a server's address such as http://127.0.0.1:8080, got one with {}",
        parsed.problem);
  }
  BaseUrl base{.root = *parsed.url};
  std::string& path = base.root.path;
  const std::size_t slash = path.rfind('/');
  if (slash != std::string::npos && path.size() >= slash + 3 && path[slash + 1] == 'v' &&
      std::all_of(path.begin() + static_cast<std::ptrdiff_t>(slash) + 2, path.end(),
                  [](unsigned char c) { return std::isdigit(c) != 0; })) {
    base.version = path.substr(slash);
    path.resize(slash);
  }
  return base;
}

std::optional<Url> resolve_redirect(const Url& from, std::string_view location) {
  if (location.empty()) return std::nullopt;
  std::string absolute(location);
  if (location.starts_with("//")) {
    absolute = from.scheme + ":" + absolute;
  } else if (location.front() == '/') {
    absolute = from.origin() + absolute;
  } else if (location.find("://") == std::string_view::npos) {
    const std::string folder = from.path.substr(0, from.path.rfind('/') + 1);
    absolute = from.origin() + (folder.empty() ? "/" : folder) + absolute;
  }
  return parse(absolute, false, true).url;
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
  };
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host.ends_with(".localhost") || host == "::1" ||
         host.starts_with("127.");
}

std::optional<Url> proxy_for(const Url& url, const Environment& environment) {
  if (is_loopback(url.host)) return std::nullopt;
  const auto read = [&](const std::string& name) {
    auto value = environment(name);
    if (!value) {
      std::string upper = name;
      std::transform(upper.begin(), upper.end(), upper.begin(),
                     [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      value = environment(upper);
    }
    return value;
  };
  const auto proxy = read(url.scheme + "_proxy");
  if (!proxy) return std::nullopt;
  const std::string exceptions = lower(read("no_proxy").value_or(""));
  for (std::size_t start = 0; start < exceptions.size();) {
    const std::size_t end = std::min(exceptions.find(',', start), exceptions.size());
    std::string entry = exceptions.substr(start, end - start);
    start = end + 1;
    std::erase_if(entry, [](unsigned char c) { return std::isspace(c) != 0; });
    if (entry == "*") return std::nullopt;
    if (entry == fmt::format("{}:{}", url.host, url.port)) return std::nullopt;
    if (entry.starts_with("*.")) entry.erase(0, 1);
    if (entry.starts_with(".")) entry.erase(0, 1);
    if (entry.empty()) continue;
    if (url.host == entry || url.host.ends_with("." + entry)) return std::nullopt;
  }
  const std::string text = proxy->find("://") == std::string::npos ? "http://" + *proxy : *proxy;
  const Parsed parsed = parse(text, true, false);
  if (!parsed.url || parsed.url->tls()) {
    throw base::usage_error(
        "endpoint", "expected {}_PROXY to be http://[user:password@]host:port, got one with {}",
        url.tls() ? "HTTPS" : "HTTP", parsed.url ? "the scheme 'https'" : parsed.problem);
  }
  return parsed.url;
}

}  // namespace kvphase::endpoint
