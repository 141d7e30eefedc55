#include "guard/wish.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"

namespace kvphase::guard {
namespace {

constexpr Policy kPolicies[] = {Policy::kReport, Policy::kMajority, Policy::kRefuse};

// Without blanks around, A-Z as a-z.
std::string plain_word(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  std::string word(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
  std::ranges::transform(word, word.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return word;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

std::optional<std::int64_t> number_of(std::string_view word) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return number;
}

std::int64_t repeats_of(std::string_view word) {
  const std::optional<std::int64_t> number = number_of(word);
  if (!number || *number < 1 || *number > kMostRepeats) {
    throw base::usage_error("guard", "expected repeats=1 to {} in X-Kvphase-Guard, got '{}'",
                            kMostRepeats, word);
  }
  return *number;
}

base::Error no_such_word(std::string_view word) {
  std::vector<std::string> names = {"on", "off"};
  for (const Policy policy : kPolicies) names.emplace_back(name_of(policy));
  return base::usage_error("guard",
                           "expected on, off, a number of offsets, repeats=N or a policy (report, "
                           "majority, refuse) in X-Kvphase-Guard, got '{}'; the nearest is '{}'",
                           word, base::nearest_name(std::string(word), names));
}

}  // namespace

std::string_view name_of(Policy policy) {
  switch (policy) {
    case Policy::kReport:
      return "report";
    case Policy::kMajority:
      return "majority";
    case Policy::kRefuse:
      return "refuse";
  }
  return "report";
}

Policy policy_of(std::string_view name) {
  std::vector<std::string> names;
  for (const Policy policy : kPolicies) {
    if (name == name_of(policy)) return policy;
    names.emplace_back(name_of(policy));
  }
  throw base::usage_error("guard", "expected a policy of {}, got '{}'; did you mean '{}'?",
                          fmt::join(names, ", "), name,
                          base::nearest_name(std::string(name), names));
}

Wish default_wish(const GuardOptions& options) {
  return {.guarded = true,
          .offsets = options.offsets,
          .policy = options.policy,
          .repeats = options.repeats};
}

Wish read_wish(std::string_view header, const GuardOptions& options) {
  constexpr std::string_view kRepeats = "repeats=";
  Wish wish = default_wish(options);
  while (!header.empty()) {
    const std::size_t comma = std::min(header.find(','), header.size());
    const std::string word = plain_word(header.substr(0, comma));
    header.remove_prefix(std::min(comma + 1, header.size()));
    if (word.empty() || is_one_of(word, {"on", "true", "yes", "1"})) continue;
    if (is_one_of(word, {"off", "false", "no", "0"})) return {};
    const auto policy = std::ranges::find(kPolicies, word, [](Policy p) { return name_of(p); });
    if (word.starts_with(kRepeats)) {
      wish.repeats = repeats_of(std::string_view(word).substr(kRepeats.size()));
    } else if (const std::optional<std::int64_t> number = number_of(word)) {
      if (*number < 2 || *number > options.most_offsets) {
        throw base::usage_error("guard", "expected 2 to {} offsets in X-Kvphase-Guard, got {}",
                                options.most_offsets, *number);
      }
      wish.offsets = *number;
    } else if (policy != std::end(kPolicies)) {
      wish.policy = *policy;
    } else {
      throw no_such_word(word);
    }
  }
  return wish;
}

}  // namespace kvphase::guard
