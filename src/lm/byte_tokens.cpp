#include "lm/byte_tokens.h"

#include <fmt/format.h>

#include <cassert>

namespace kvphase::lm {
namespace {

// Bytes of the UTF-8 character that begins there; 0: none does (cut off, overlong, surrogate).
std::size_t utf8_length(std::span<const TokenId> tokens) {
  const TokenId first = tokens.front();
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                             : first >= 0xE0 && first <= 0xEF ? 3
                             : first >= 0xF0 && first <= 0xF4 ? 4
                                                              : 0;
  if (length == 0 || tokens.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (tokens[i] < 0x80 || tokens[i] > 0xBF) return 0;
  }
  const TokenId second = tokens[1];
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return wrong ? 0 : length;
}

}  // namespace

std::string byte_token_name(TokenId token) {
  assert(token >= 0 && token < kByteVocabulary);
  if (token == kDocumentEnd) return "<end>";
  if (token > ' ' && token <= '~') return std::string(1, static_cast<char>(token));
  return fmt::format("<0x{:02X}>", token);
}

const std::vector<std::string>& byte_token_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (TokenId token = 0; token < kByteVocabulary; ++token) {
      list.push_back(byte_token_name(token));
    }
    return list;
  }();
  return names;
}

std::vector<TokenId> byte_tokens(std::string_view text) {
  std::vector<TokenId> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::string byte_text(std::span<const TokenId> tokens) {
  std::string text;
  while (!tokens.empty()) {
    const std::size_t length = utf8_length(tokens);
    if (length == 0) text += byte_token_name(tokens.front());
    for (std::size_t i = 0; i < length; ++i) text.push_back(static_cast<char>(tokens[i]));
    tokens = tokens.subspan(std::max<std::size_t>(length, 1));
  }
  return text;
}

}  // namespace kvphase::lm
