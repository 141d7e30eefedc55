#include "guard/normalise.h"

#include <algorithm>
#include <array>
#include <regex>
#include <utility>

#include "base/error.h"

namespace kvphase::guard {
namespace {

std::string plain_marks(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, char>, 8> kMarks = {{
      {"\u2018", '\''},
      {"\u2019", '\''},
      {"\u201a", '\''},
      {"\u201c", '"'},
      {"\u201d", '"'},
      {"\u201e", '"'},
      {"\u00a0", ' '},
      {"\u202f", ' '},
  }};
  std::string plain;
  for (std::size_t i = 0; i < text.size();) {
    const auto mark = std::ranges::find_if(
        kMarks, [&](const auto& m) { return text.substr(i).starts_with(m.first); });
    if (mark == kMarks.end()) {
      plain += text[i++];
    } else {
      plain += mark->second;
      i += mark->first.size();
    }
  }
  return plain;
}

std::string single_blanks(std::string_view text) {
  std::string single;
  for (const char c : text) {
    const bool blank = std::string_view(" \t\n\r\f\v").find(c) != std::string_view::npos;
    if (!blank) {
      single += c;
    } else if (!single.empty() && single.back() != ' ') {
      single += ' ';
    }
  }
  if (!single.empty() && single.back() == ' ') single.pop_back();
  return single;
}

// One mark taken off; empty: there is none.
std::string_view unwrapped(std::string_view text) {
  for (const std::string_view mark : {"\"", "'", "`", "**", "*"}) {
    const std::size_t n = mark.size();
    if (text.size() > 2 * n && text.starts_with(mark) && text.ends_with(mark) &&
        text.substr(n, text.size() - 2 * n).find(mark) == std::string_view::npos) {
      return text.substr(n, text.size() - 2 * n);
    }
  }
  if (text.size() > 1 && text.ends_with('.') && !text.ends_with("..")) {
    return text.substr(0, text.size() - 1);
  }
  return {};
}

std::string extracted(std::string_view answer, const std::string& expression) {
  const std::string searched(answer.substr(0, kMostSearched));
  std::smatch match;
  if (!std::regex_search(searched, match, std::regex(expression))) return std::string(kNoMatch);
  return match.size() > 1 && match[1].matched ? match[1].str() : match[0].str();
}

}  // namespace

void check_extract(const NormaliseOptions& options, std::string_view scope) {
  try {
    const std::regex expression(options.extract);
  } catch (const std::regex_error& error) {
    throw base::usage_error(scope, "expected a regular expression (ECMAScript), got '{}': {}",
                            options.extract, error.what());
  }
}

std::string normalised(std::string_view answer, const NormaliseOptions& options) {
  std::string text(answer);
  if (!options.extract.empty()) {
    text = extracted(answer, options.extract);
    if (text == kNoMatch) return text;
  }
  text = single_blanks(plain_marks(text));
  for (std::string_view inner = unwrapped(text); !inner.empty(); inner = unwrapped(text)) {
    text = single_blanks(inner);
  }
  if (options.ignore_case) {
    std::ranges::transform(text, text.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
  }
  return text;
}

}  // namespace kvphase::guard
