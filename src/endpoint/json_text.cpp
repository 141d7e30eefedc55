#include "endpoint/json_text.h"

#include <algorithm>

namespace kvphase::endpoint {
namespace {

// Length of the valid UTF-8 character at the front, 0 when there is none (Unicode 15, table 3-7).
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned a = byte(0);
  if (a < 0x80) return 1;
  if (a >= 0xC2 && a <= 0xDF) return follows(1) ? 2 : 0;
  if (a >= 0xE0 && a <= 0xEF) {
    const bool second = a == 0xE0   ? follows(1, 0xA0)
                        : a == 0xED ? follows(1, 0x80, 0x9F)
                                    : follows(1);
    return second && follows(2) ? 3 : 0;
  }
  if (a >= 0xF0 && a <= 0xF4) {
    const bool second = a == 0xF0   ? follows(1, 0x90)
                        : a == 0xF4 ? follows(1, 0x80, 0x8F)
                                    : follows(1);
    return second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string repair_utf8(std::string_view text, bool& changed) {
  std::string out;
  out.reserve(text.size());
  changed = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_length(text.substr(i));
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      changed = true;
      ++i;
    } else {
      out.append(text, i, length);
      i += length;
    }
  }
  return out;
}

std::string excerpt(std::string_view text, std::size_t limit) {
  bool changed = false;
  std::string out = repair_utf8(text.substr(0, limit + 4), changed);
  const bool cut = text.size() > limit;
  if (cut) {
    std::size_t end = std::min(limit, out.size());
    while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0U) == 0x80U) --end;
    out.resize(end);
  }
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return cut ? out + "..." : out;
}

JsonText read_json(std::string_view text) {
  JsonText result;
  const bool ascii =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x80; });
  std::string copy;
  if (!ascii) {
    copy = repair_utf8(text, result.had_invalid_utf8);
  }
  std::string_view clean = ascii ? text : std::string_view(copy);
  int depth = 0;
  bool inside = false;  // a string
  std::string finite;
  std::size_t copied = 0;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    const char c = clean[i];
    if (inside) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        inside = false;
      }
    } else if (c == '"') {
      inside = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) {
        result.problem = "nested deeper than " + std::to_string(kMaxJsonDepth);
        return result;
      }
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == 'N' || c == 'I' || (c == '-' && clean.substr(i + 1).starts_with("I"))) {
      const std::string_view rest = clean.substr(i);
      for (const std::string_view name : {"NaN", "-Infinity", "Infinity", "-Inf", "Inf"}) {
        if (!rest.starts_with(name)) continue;
        finite.append(clean, copied, i - copied).append("null");
        copied = i + name.size();
        i = copied - 1;
        result.had_non_finite = true;
        break;
      }
    }
  }
  if (result.had_non_finite) {
    finite.append(clean, copied);
    clean = finite;
  }
  base::Json value = base::Json::parse(clean, nullptr, false);
  if (value.is_discarded()) {
    result.problem = text.empty() ? "an empty body" : "not JSON: " + excerpt(text);
    return result;
  }
  result.value = std::move(value);
  return result;
}

}  // namespace kvphase::endpoint
