#include "task/pad.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"

namespace kvphase::task {
namespace {

constexpr std::array<std::pair<PadAt, std::string_view>, 5> kNames = {
    {{PadAt::kSplit, "split"},
     {PadAt::kStart, "start"},
     {PadAt::kBeforeNeedle, "before-needle"},
     {PadAt::kAfterNeedle, "after-needle"},
     {PadAt::kTwoFactor, "two-factor"}}};

std::int64_t mod(std::int64_t x, std::int64_t modulus) { return (x % modulus + modulus) % modulus; }

}  // namespace

std::string_view name_of(PadAt at) {
  return std::ranges::find(kNames, at, &std::pair<PadAt, std::string_view>::first)->second;
}

std::vector<std::string> pad_at_names() {
  std::vector<std::string> names;
  for (const auto& [at, name] : kNames) names.emplace_back(name);
  return names;
}

PadAt pad_at_from_name(std::string_view name) {
  for (const auto& [at, known] : kNames) {
    if (known == name) return at;
  }
  throw base::usage_error("task", "expected --pad-at {}, got '{}'; did you mean {}?",
                          fmt::join(pad_at_names(), " | "), name,
                          base::nearest_name(name, pad_at_names()));
}

PadAmounts pad_amounts(PadAt at, const PadPlace& place, std::int64_t residue, std::int64_t R) {
  assert(residue >= 0 && residue < R && place.extra >= 0);
  PadAmounts pad{.front = mod(residue - place.target, R)};
  switch (at) {
    case PadAt::kSplit:
      pad.back = R - 1 - pad.front;
      break;
    case PadAt::kStart:
    case PadAt::kBeforeNeedle:
      break;
    case PadAt::kAfterNeedle:
      pad = {.front = 0, .back = place.extra + mod(residue - place.query - place.extra, R)};
      break;
    case PadAt::kTwoFactor: {
      const std::int64_t least = R - 1 + place.extra;
      pad.back = least + mod(residue + place.between - place.query - least, R) - pad.front;
      break;
    }
  }
  return pad;
}

std::int64_t most_padding(PadAt at, std::int64_t R) {
  const std::int64_t most_extra = 2 * R - 1;
  switch (at) {
    case PadAt::kAfterNeedle:
      return most_extra + R - 1;
    case PadAt::kTwoFactor:
      return most_extra + 2 * (R - 1);
    default:
      return R - 1;
  }
}

}  // namespace kvphase::task
