#include "endpoint/secrets.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <string>

#include "base/error.h"

namespace kvphase::endpoint {
namespace {

constexpr std::string_view kRedacted = "[redacted]";
constexpr std::size_t kSharedRun = 8;  // characters of a secret that give it away

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  return text;
}

std::optional<std::string> read_env_file(const std::filesystem::path& path, std::string_view name) {
  std::ifstream file(path);
  std::optional<std::string> found;
  for (std::string line; std::getline(file, line);) {
    std::string_view rest = trim(line);
    if (rest.starts_with("export ")) rest = trim(rest.substr(7));
    const std::size_t equals = rest.find('=');
    if (equals == std::string_view::npos || trim(rest.substr(0, equals)) != name) continue;
    std::string_view value = trim(rest.substr(equals + 1));
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'')) {
      const std::size_t close = value.find(value.front(), 1);
      if (close != std::string_view::npos) value = value.substr(1, close - 1);
    } else if (const std::size_t comment = value.find(" #"); comment != std::string_view::npos) {
      value = trim(value.substr(0, comment));
    }
    found = std::string(value);
  }
  return found;
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const unsigned char c : text) {
    if (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '~') {
      out += static_cast<char>(c);
    } else {
      out += fmt::format("%{:02X}", c);
    }
  }
  return out;
}

bool is_key_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' ||
         c == '+' || c == '/' || c == '=' || c == '~' || c == '*';
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return std::tolower(static_cast<unsigned char>(x)) ==
                  std::tolower(static_cast<unsigned char>(y));
         });
}

// Marks the key that follows `lead` at `at`, jumping over separators, when it is long enough to be
// one.
void mark_after(std::string_view text, std::size_t at, std::string_view lead,
                std::string_view separators, std::vector<bool>& hidden) {
  if (!equal_ignoring_case(text.substr(at, lead.size()), lead)) return;
  std::size_t start = at + lead.size();
  while (start < text.size() && separators.find(text[start]) != std::string_view::npos) ++start;
  if (start == at + lead.size() && !separators.empty()) return;
  std::size_t end = start;
  while (end < text.size() && is_key_character(text[end])) ++end;
  if (end - start < kSharedRun) return;
  std::fill(hidden.begin() + static_cast<std::ptrdiff_t>(start),
            hidden.begin() + static_cast<std::ptrdiff_t>(end), true);
}

void mark_secrets(std::string_view text, const std::vector<std::string>& secrets,
                  std::vector<bool>& hidden) {
  for (const std::string& secret : secrets) {
    const std::size_t run = std::min(kSharedRun, secret.size());
    for (std::size_t start = 0; start + run <= secret.size(); ++start) {
      const std::string_view window(secret.data() + start, run);
      for (std::size_t at = text.find(window); at != std::string_view::npos;
           at = text.find(window, at + 1)) {
        std::fill_n(hidden.begin() + static_cast<std::ptrdiff_t>(at), run, true);
      }
    }
  }
}

std::string hide(std::string_view text, const std::vector<bool>& hidden) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!hidden[i]) {
      out += text[i];
    } else if (i == 0 || !hidden[i - 1]) {
      out += kRedacted;
    }
  }
  return out;
}

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned value = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      value = value << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += i + j <= bytes.size() ? kDigits[value >> (18 - 6 * j) & 63U] : '=';
    }
  }
  return out;
}

ApiKey find_api_key(const std::string& name, const Environment& environment,
                    const std::filesystem::path& env_file) {
  std::optional<std::string> value = environment(name);
  if (!value) value = read_env_file(env_file, name);
  if (!value) return {};
  const std::string key(trim(*value));
  for (const char c : key) {
    if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
      throw base::usage_error("endpoint",
                              "expected a key of visible ASCII characters in {}, got another "
                              "character in it (its value is not shown)",
                              name);
    }
  }
  return ApiKey(key);
}

void Redactor::add(std::string_view secret) {
  if (secret.empty()) return;
  std::string escaped;
  for (const char c : secret) {
    if (c == '/') escaped += '\\';
    escaped += c;
  }
  for (const std::string& form :
       {std::string(secret), percent_encoded(secret), base64(secret), escaped}) {
    if (std::find(secrets_.begin(), secrets_.end(), form) == secrets_.end()) {
      secrets_.push_back(form);
    }
  }
}

std::string Redactor::answer(std::string_view text) const {
  if (secrets_.empty() || text.empty()) return std::string(text);
  std::vector<bool> hidden(text.size());
  mark_secrets(text, secrets_, hidden);
  return hide(text, hidden);
}

std::string Redactor::message(std::string_view text) const {
  std::vector<bool> hidden(text.size());
  mark_secrets(text, secrets_, hidden);
  for (std::size_t i = 0; i < text.size(); ++i) {
    mark_after(text, i, "Bearer", " :\"", hidden);
    if (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0) {
      mark_after(text, i, "sk-", "", hidden);
    }
    for (const std::string_view lead :
         {"api_key", "api-key", "apikey", "access_token", "?key", "&key"}) {
      mark_after(text, i, lead, "=: \"'", hidden);
    }
    if (text.substr(i).starts_with("://")) {
      const std::size_t end = std::min(text.find_first_of("/ \"'<>", i + 3), text.size());
      const std::size_t at = text.substr(i + 3, end - i - 3).rfind('@');
      if (at != std::string_view::npos) {
        std::fill_n(hidden.begin() + static_cast<std::ptrdiff_t>(i) + 3, at, true);
      }
    }
  }
  return hide(text, hidden);
}

}  // namespace kvphase::endpoint
