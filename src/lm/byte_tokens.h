// The vocabulary of models that read bytes: a token per byte value and one that ends a document.
// Knows no model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lm/language_model.h"

namespace kvphase::lm {

inline constexpr TokenId kDocumentEnd = 256;
inline constexpr std::int64_t kByteVocabulary = 257;

// Of tokens 0..256, each its own: printable ASCII stands for itself ("A"), the rest is "<0x0A>" and
// "<end>". None holds a blank.
std::string byte_token_name(TokenId token);

// All of them: what tokens.json of such a model holds, and how one is recognised.
const std::vector<std::string>& byte_token_names();

std::vector<TokenId> byte_tokens(std::string_view text);

// The text of tokens 0..256 as valid UTF-8: what is no UTF-8 is written as its name, and so is the
// end of a document.
std::string byte_text(std::span<const TokenId> tokens);

}  // namespace kvphase::lm
