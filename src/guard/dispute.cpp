#include "guard/dispute.h"

#include <algorithm>

namespace kvphase::guard {
namespace {

using Characters = std::vector<std::string_view>;

// Bytes of the character that begins here; 1 where it is no UTF-8.
std::size_t width_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t width = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
  if (width > text.size()) return 1;
  for (std::size_t i = 1; i < width; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) return 1;
  }
  return width;
}

Characters characters_of(std::string_view text) {
  Characters all;
  while (!text.empty()) {
    const std::size_t width = width_of(text);
    all.push_back(text.substr(0, width));
    text.remove_prefix(width);
  }
  return all;
}

void add(std::vector<Stretch>& text, std::string_view character, bool disputed) {
  if (text.empty() || text.back().disputed != disputed) text.push_back({.disputed = disputed});
  text.back().text += character;
}

// What both have between begin and end, as pairs of indices.
std::vector<std::pair<std::size_t, std::size_t>> common(const Characters& a, const Characters& b,
                                                        std::size_t begin, std::size_t end_a,
                                                        std::size_t end_b) {
  const std::size_t rows = end_a - begin, columns = end_b - begin;
  if (rows == 0 || columns == 0 || rows > kMostCells / columns) return {};
  // longest[i][k]: of what follows i in a and k in b.
  std::vector<std::uint32_t> longest((rows + 1) * (columns + 1), 0);
  const auto at = [&](std::size_t i, std::size_t k) -> std::uint32_t& {
    return longest[i * (columns + 1) + k];
  };
  for (std::size_t i = rows; i-- > 0;) {
    for (std::size_t k = columns; k-- > 0;) {
      at(i, k) = a[begin + i] == b[begin + k] ? at(i + 1, k + 1) + 1
                                              : std::max(at(i + 1, k), at(i, k + 1));
    }
  }
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0, k = 0; i < rows && k < columns;) {
    if (a[begin + i] == b[begin + k]) {
      pairs.emplace_back(begin + i++, begin + k++);
    } else if (at(i + 1, k) >= at(i, k + 1)) {
      ++i;
    } else {
      ++k;
    }
  }
  return pairs;
}

// The end (`last`) or the beginning of a stretch, of so many characters at most.
std::string part(const std::string& text, std::size_t most, bool last) {
  const Characters all = characters_of(text);
  if (all.size() <= most) return text;
  std::string kept;
  for (std::size_t i = 0; i < most; ++i) kept += all[last ? all.size() - most + i : i];
  return last ? "..." + kept : kept + "...";
}

}  // namespace

Dispute dispute(std::string_view first, std::string_view second) {
  const Characters a = characters_of(first);
  const Characters b = characters_of(second);
  std::size_t begin = 0, end_a = a.size(), end_b = b.size();
  while (begin < end_a && begin < end_b && a[begin] == b[begin]) ++begin;
  while (end_a > begin && end_b > begin && a[end_a - 1] == b[end_b - 1]) {
    --end_a;
    --end_b;
  }
  auto pairs = common(a, b, begin, end_a, end_b);
  Dispute found{.at = static_cast<std::int64_t>(begin)};
  for (std::size_t i = 0; i < begin; ++i) {
    add(found.first, a[i], false);
    add(found.second, b[i], false);
  }
  pairs.emplace_back(end_a, end_b);
  std::size_t i = begin, k = begin;
  for (const auto& [to_a, to_b] : pairs) {
    const bool one_sided = (i < to_a) != (k < to_b);
    for (; i < to_a; ++i, ++found.disputed) add(found.first, a[i], true);
    for (; k < to_b; ++k, ++found.disputed) add(found.second, b[k], true);
    if (one_sided) {  // what one lacks has its place in both
      if (found.first.empty() || !found.first.back().disputed) found.first.push_back({"", true});
      if (found.second.empty() || !found.second.back().disputed) found.second.push_back({"", true});
    }
    if (to_a == end_a) break;
    add(found.first, a[i++], false);
    add(found.second, b[k++], false);
  }
  for (; end_a < a.size(); ++end_a, ++end_b) {
    add(found.first, a[end_a], false);
    add(found.second, b[end_b], false);
  }
  return found;
}

std::string marked(const std::vector<Stretch>& text, std::size_t context) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const Stretch& stretch = text[i];
    if (stretch.disputed) {
      shown += "[" + stretch.text + "]";
      continue;
    }
    const bool before = i + 1 < text.size();  // a disputed stretch follows
    const bool after = i > 0;
    if (before && after) {
      const bool is_long = characters_of(stretch.text).size() > 2 * context;
      shown +=
          is_long ? part(stretch.text, context, false) + part(stretch.text, context, true).substr(3)
                  : stretch.text;
    } else {
      shown += part(stretch.text, context, before);
    }
  }
  return shown;
}

}  // namespace kvphase::guard
