// Where two answers differ, character by character, to be shown in place. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvphase::guard {

// A stretch of the second text that the first has too, or has otherwise.
struct Stretch {
  std::string text;
  bool disputed = false;
  bool operator==(const Stretch&) const = default;
};

struct Dispute {
  std::vector<Stretch> first;   // the whole first text
  std::vector<Stretch> second;  // the whole second text
  std::int64_t at = 0;          // characters (code points) in front of the first difference
  std::int64_t disputed = 0;    // characters of both texts that the other does not have
};

// By the longest common subsequence of code points between the common beginning and end; where that
// would take more than kMostCells cells, all between them is disputed. Bytes that are no UTF-8 are
// characters of their own. A disputed character that one text lacks shows in the other only.
Dispute dispute(std::string_view first, std::string_view second);

inline constexpr std::size_t kMostCells = 4'000'000;

// "the code is 77[3]1": disputed stretches in brackets, long common stretches cut to `context`
// characters beside them ("..."). A text that only lacks something shows "[]" there.
std::string marked(const std::vector<Stretch>& text, std::size_t context = 40);

}  // namespace kvphase::guard
