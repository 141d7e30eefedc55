#include "task/grade.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace kvphase::task {
namespace {

bool is_alnum(char c) {
  // Bytes of characters beyond ASCII belong to words.
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return out;
}

// A character between two word characters that makes one identifier of them: "a-1", "a_1", "/a/b",
// "1.5", "1,000", "12:30".
bool joins(char left, char c, char right) {
  if (c == ',' || c == ':') return is_digit(left) && is_digit(right);
  if (c == '.') return is_alnum(left) && is_alnum(right);
  return c == '-' || c == '_' || c == '/';
}

char char_at(std::string_view text, std::size_t i) { return i < text.size() ? text[i] : ' '; }

// Does the part text[begin, end) go on to the left or right as the same word or identifier?
bool goes_on_left(std::string_view text, std::size_t begin) {
  if (begin == 0) return false;
  const char edge = text[begin];
  const char c = text[begin - 1];
  const char beyond = begin >= 2 ? text[begin - 2] : ' ';
  if (!is_alnum(edge)) return is_alnum(c);  // "/srv" within "home/srv"
  if (is_alnum(c)) return true;
  // A leading sign or slash makes another value of it, a list's dash after a blank does not.
  if (c == '-' && is_digit(edge)) return true;
  return is_alnum(beyond) && joins(beyond, c, edge);
}
bool goes_on_right(std::string_view text, std::size_t end) {
  const char edge = text[end - 1];
  const char c = char_at(text, end);
  if (is_alnum(c)) return is_alnum(edge) || c != ' ';
  return is_alnum(char_at(text, end + 1)) && joins(edge, c, char_at(text, end + 1));
}

// Where `part` stands in `text` by itself, letter case aside.
std::size_t find_whole(std::string_view text, std::string_view part) {
  if (part.empty()) return std::string_view::npos;
  for (std::size_t i = text.find(part); i != std::string_view::npos; i = text.find(part, i + 1)) {
    if (!goes_on_left(text, i) && !goes_on_right(text, i + part.size())) return i;
  }
  return std::string_view::npos;
}

bool is_wrapping(char c) {
  return is_space(c) || c == '"' || c == '\'' || c == '`' || c == '*' || c == '_' || c == '.';
}

std::string_view unwrap(std::string_view text) {
  while (!text.empty() && is_wrapping(text.front()) && text.front() != '.') text.remove_prefix(1);
  while (!text.empty() && is_wrapping(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// One edit (replace, insert, delete, swap of neighbours) from `right` to `said`.
std::optional<NearMiss> one_edit(std::string_view said, std::string_view right) {
  const std::size_t n = std::min(said.size(), right.size());
  std::size_t same = 0;
  while (same < n && said[same] == right[same]) ++same;
  const auto tail = [&](std::size_t s, std::size_t r) {
    return said.substr(std::min(s, said.size())) == right.substr(std::min(r, right.size()));
  };
  NearMiss miss{.position = same, .kind = {}, .said = std::string(said)};
  if (said.size() == right.size()) {
    if (same == n) return std::nullopt;  // equal
    if (tail(same + 1, same + 1)) {
      miss.kind = "replaced";
    } else if (same + 1 < n && said[same] == right[same + 1] && said[same + 1] == right[same] &&
               tail(same + 2, same + 2)) {
      miss.kind = "swapped";
    }
  } else if (said.size() + 1 == right.size() && tail(same, same + 1)) {
    miss.kind = "missing";
  } else if (said.size() == right.size() + 1 && tail(same + 1, same)) {
    miss.kind = "extra";
  }
  return miss.kind.empty() ? std::nullopt : std::optional(miss);
}

// The first line that says something, and whether it ends within the text.
bool has_whole_line(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  return start != std::string_view::npos && text.find('\n', start) != std::string_view::npos;
}

}  // namespace

std::string_view name_of(Grading grading) {
  return grading == Grading::kExact ? "exact" : "contains";
}

std::optional<NearMiss> find_near_miss(std::string_view text, std::string_view expected) {
  constexpr std::size_t kLeast = 3;
  if (expected.size() < kLeast) return std::nullopt;
  const std::string said = lower(text);
  const std::string right = lower(expected);
  // Every run of as many words as the right answer has, one more and one fewer.
  std::vector<std::pair<std::size_t, std::size_t>> words;
  for (std::size_t i = 0; i < said.size();) {
    if (is_space(said[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < said.size() && !is_space(said[end])) ++end;
    words.emplace_back(i, end);
    i = end;
  }
  const auto count = static_cast<std::size_t>(std::ranges::count(right, ' ')) + 1;
  const auto strip = [](std::string_view part) {
    constexpr std::string_view kMarks = "\"'`*()[]<>,;:!?.";
    const std::size_t from = part.find_first_not_of(kMarks);
    if (from == std::string_view::npos) return std::string_view();
    return part.substr(from, part.find_last_not_of(kMarks) - from + 1);
  };
  for (std::size_t first = 0; first < words.size(); ++first) {
    for (std::size_t n = count > 1 ? count - 1 : 1; n <= count + 1; ++n) {
      if (first + n > words.size()) break;
      const std::string_view whole = std::string_view(said).substr(
          words[first].first, words[first + n - 1].second - words[first].first);
      if (auto miss = one_edit(strip(whole), right)) return miss;
    }
  }
  return std::nullopt;
}

Grade grade_text(std::string_view text, std::string_view expected,
                 std::span<const std::string> others, const GradeOptions& options) {
  constexpr std::size_t kNone = std::string_view::npos;
  const std::string said = lower(text);
  const std::string right = lower(expected);
  const bool whole = !options.cut || has_whole_line(text);
  if (trim(text).empty()) {
    if (options.cut) return {.reply_class = "truncated", .correct = std::nullopt};
    return {.reply_class = "empty", .correct = false};
  }
  std::size_t other = kNone;
  std::size_t right_at = kNone;
  if (options.grading == Grading::kExact) {
    if (unwrap(said) == unwrap(right)) right_at = 0;
    for (const std::string& value : others) {
      const std::string low = lower(value);
      if (low != right && unwrap(said) == unwrap(low)) other = 0;
    }
  } else {
    right_at = find_whole(said, right);
    for (const std::string& value : others) {
      const std::string low = lower(value);
      if (low != right) other = std::min(other, find_whole(said, low));
    }
  }
  // At the very end of a cut text an answer may go on: "12" of "123".
  const auto open_end = [&](std::size_t begin, std::size_t size) {
    return options.cut && begin + size == said.size();
  };
  const Grade truncated{.reply_class = "truncated", .correct = std::nullopt};
  if (right_at != kNone && right_at < other) {
    if (open_end(right_at, right.size())) return truncated;
    return {.reply_class = "exact", .correct = true};
  }
  if (other != kNone) return {.reply_class = "other_record", .correct = false};
  if (whole && find_near_miss(text, expected))
    return {.reply_class = "near_miss", .correct = false};
  if (!whole) return truncated;
  return {.reply_class = "wrong", .correct = false};
}

Grade grade_candidates(std::span<const std::string> candidates, const lm::AnswerReply& reply) {
  std::optional<double> right;
  std::optional<double> best_other;
  for (std::size_t i = 0; i < reply.candidate_logprobs.size(); ++i) {
    const std::optional<double> p = reply.candidate_logprobs[i];
    if (!p) continue;
    if (i == 0) {
      right = p;
    } else {
      best_other = std::max(best_other.value_or(*p), *p);
    }
  }
  if (right || best_other) {
    const bool correct = right && (!best_other || *right > *best_other);
    return {.reply_class = correct ? "exact" : "other_record", .correct = correct};
  }
  const std::string_view said = trim(reply.text);
  const auto starts = [&](std::string_view candidate) {
    candidate = trim(candidate);
    if (candidate.empty() || !said.starts_with(candidate)) return false;
    const char edge = candidate.back();
    const char next = char_at(said, candidate.size());
    // A number or a word that goes on is another one.
    return !(is_digit(edge) && is_digit(next)) &&
           !(is_alnum(edge) && !is_digit(edge) && is_alnum(next));
  };
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!starts(candidates[i])) continue;
    return {.reply_class = i == 0 ? "exact" : "other_record", .correct = i == 0};
  }
  if (said.empty()) {
    if (reply.cut) return {.reply_class = "truncated", .correct = std::nullopt};
    return {.reply_class = "empty", .correct = false};
  }
  return {.reply_class = "wrong", .correct = false};
}

Grade Task::grade(const Prompt& prompt, const lm::AnswerReply& reply) const {
  return grade_text(reply.text, prompt.expected, prompt.other_texts, {.cut = reply.cut});
}

}  // namespace kvphase::task
