#include "task/grade.h"

#include <algorithm>
#include <cctype>

namespace kvphase::task {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Where `part` stands in `text` as words of its own.
std::size_t find_words(std::string_view text, std::string_view part) {
  if (part.empty()) return std::string_view::npos;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    const bool begins = at == 0 || !is_word(text[at - 1]) || !is_word(part.front());
    const bool ends = end == text.size() || !is_word(text[end]) || !is_word(part.back());
    if (begins && ends) return at;
  }
  return std::string_view::npos;
}

}  // namespace

Grade grade_text(std::string_view text, std::string_view expected,
                 std::span<const std::string> others) {
  const std::size_t right = find_words(text, expected);
  std::size_t other = std::string_view::npos;
  for (const std::string& value : others) {
    if (value != expected) other = std::min(other, find_words(text, value));
  }
  if (right != std::string_view::npos && right < other) {
    return {.reply_class = "exact", .correct = true};
  }
  return {.reply_class = other != std::string_view::npos ? "other_record" : "wrong",
          .correct = false};
}

Grade Task::grade(const Prompt& prompt, const lm::AnswerReply& reply) const {
  return grade_text(reply.text, prompt.expected, prompt.other_texts);
}

}  // namespace kvphase::task
