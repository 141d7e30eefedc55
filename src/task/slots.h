// A prompt's text with named slots, as templates write it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvphase::task {

enum class Slot { kText, kFillerBefore, kFillerAfter, kNeedle, kQuestion };

struct Segment {
  Slot slot = Slot::kText;
  std::string text;  // of kText
};

// Splits a text at {filler} (the same as {filler_before}), {filler_before}, {filler_after},
// {needle} and {question}; {{ and }} are braces. Throws a usage error for another {name}, with the
// nearest, for a slot that stands twice and for an order other than the one above.
std::vector<Segment> parse_slots(std::string_view text, std::string_view scope);

}  // namespace kvphase::task
