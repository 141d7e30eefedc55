#include "task/slots.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace kvphase::task {

std::vector<Segment> parse_slots(std::string_view text, std::string_view scope) {
  static const std::vector<std::string> kNames = {"filler", "filler_before", "filler_after",
                                                  "needle", "question"};
  constexpr Slot kSlots[] = {Slot::kFillerBefore, Slot::kFillerBefore, Slot::kFillerAfter,
                             Slot::kNeedle, Slot::kQuestion};
  std::vector<Segment> segments;
  std::string literal;
  const auto flush = [&] {
    if (!literal.empty()) segments.push_back({.slot = Slot::kText, .text = literal});
    literal.clear();
  };
  const auto has = [&](Slot slot) {
    return std::ranges::any_of(segments, [&](const Segment& s) { return s.slot == slot; });
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "{{" || text.substr(i, 2) == "}}") {
      literal += text[i++];
      continue;
    }
    if (text[i] != '{') {
      literal += text[i];
      continue;
    }
    const std::size_t end = text.find('}', i);
    const std::string name(text.substr(i + 1, end == std::string_view::npos ? 20 : end - i - 1));
    const auto found = std::ranges::find(kNames, name);
    if (end == std::string_view::npos || found == kNames.end()) {
      throw base::usage_error(scope,
                              "expected a slot of {{{}}}, got '{{{}'; did you mean {{{}}}? Write "
                              "{{{{ for a brace",
                              fmt::join(kNames, "}, {"), name, base::nearest_name(name, kNames));
    }
    const Slot slot = kSlots[found - kNames.begin()];
    flush();
    if (has(slot)) throw base::usage_error(scope, "expected {{{}}} once, got it again", name);
    if (slot != Slot::kFillerBefore && !has(Slot::kFillerBefore)) {
      throw base::usage_error(scope,
                              "expected {{filler_before}} (or {{filler}}) before every other slot, "
                              "got {{{}}} first; what stands before it must be the same for all "
                              "items",
                              name);
    }
    if (slot == Slot::kNeedle && has(Slot::kFillerAfter)) {
      throw base::usage_error(scope, "expected {{needle}} before {{filler_after}}, got it behind");
    }
    segments.push_back({.slot = slot, .text = {}});
    i = end;
  }
  flush();
  if (!has(Slot::kFillerBefore)) {
    throw base::usage_error(scope,
                            "expected {{filler_before}} or {{filler}} in the prompt, got none");
  }
  return segments;
}

}  // namespace kvphase::task
