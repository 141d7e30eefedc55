#include "guard/normalise.h"

#include <algorithm>
#include <array>
#include <regex>
#include <utility>

#include "base/error.h"
#include "guard/compose.h"

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

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r\f\v";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Of a variable or the like, in most programming languages.
bool is_name(std::string_view text) {
  return !text.empty() && is_letter(text[0]) &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c); });
}

// What a fence around the whole text holds; without one, or an empty one, the text.
std::string_view without_fence(std::string_view text) {
  const std::string_view whole = trimmed(text);
  for (const std::string_view fence : {"```", "~~~"}) {
    if (whole.size() <= 2 * fence.size() || !whole.starts_with(fence) || !whole.ends_with(fence)) {
      continue;
    }
    std::string_view inner = whole.substr(fence.size(), whole.size() - 2 * fence.size());
    if (inner.find(fence) != inner.npos) continue;
    const std::size_t line = inner.find('\n');
    if (line != inner.npos) {
      const std::string_view info = trimmed(inner.substr(0, line));
      if (info.find_first_of(" \t") != info.npos) continue;  // no language: text of another kind
      inner.remove_prefix(line);
    }
    if (!trimmed(inner).empty()) return inner;
  }
  return text;
}

// One mark taken off; empty: there is none.
std::string_view unwrapped(std::string_view text) {
  for (const std::string_view mark : {"\"", "'", "`", "**", "*", "__", "_"}) {
    const std::size_t n = mark.size();
    if (text.size() <= 2 * n || !text.starts_with(mark) || !text.ends_with(mark)) continue;
    const std::string_view inner = text.substr(n, text.size() - 2 * n);
    if (inner.find(mark) != inner.npos || (mark[0] == '_' && is_name(text))) continue;
    return inner;
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
  std::string text = composed(answer);
  if (!options.extract.empty()) {
    text = extracted(text, options.extract);
    if (text == kNoMatch) return text;
  }
  text = single_blanks(plain_marks(without_fence(text)));
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
