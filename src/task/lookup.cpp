#include "task/lookup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/nearest.h"
#include "base/random.h"
#include "task/position_design.h"

namespace kvphase::task {
namespace {

using lm::TokenId;

constexpr std::array<std::string_view, 3> kPaddingNames = {"prefix", "in-sequence",
                                                           "around-target"};

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

struct Layout {
  std::vector<std::int64_t> starts;  // of the pairs, increasing
  std::size_t target = 0;            // which of them starts at the base
};

// Number of ways, up to a factor, to place `count` pairs in `length` tokens: log C(length-count,
// count).
double log_ways(std::int64_t length, std::int64_t count) {
  if (2 * count > length) return -std::numeric_limits<double>::infinity();
  const auto log_factorial = [](std::int64_t n) { return std::lgamma(static_cast<double>(n) + 1); };
  return log_factorial(length - count) - log_factorial(count) - log_factorial(length - 2 * count);
}

// `count` pairs in `length` tokens, one of them at `base`: uniform over all such layouts. The
// number of pairs before the base is drawn by how many layouts have it, then both sides are placed.
Layout layout_with_pair_at(std::int64_t length, std::int64_t count, std::int64_t base,
                           base::Random& random) {
  const std::int64_t after = length - base - 2;
  std::vector<double> weights;
  for (std::int64_t left = 0; left < count; ++left) {
    weights.push_back(log_ways(base, left) + log_ways(after, count - 1 - left));
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  double total = 0;
  for (double& weight : weights) total += weight = std::exp(weight - largest);
  double draw = random.uniform() * total;
  std::size_t left = 0;
  while (left + 1 < weights.size() && (draw -= weights[left]) >= 0) ++left;
  while (weights[left] == 0) --left;  // only by rounding at the very end

  Layout layout{.starts = place_pairs(base, static_cast<std::int64_t>(left), random),
                .target = left};
  layout.starts.push_back(base);
  for (const std::int64_t start :
       place_pairs(after, count - 1 - static_cast<std::int64_t>(left), random)) {
    layout.starts.push_back(base + 2 + start);
  }
  return layout;
}

}  // namespace

std::string name_of(Padding padding) {
  return std::string(kPaddingNames.at(static_cast<std::size_t>(padding)));
}

std::vector<std::string> padding_names() { return {kPaddingNames.begin(), kPaddingNames.end()}; }

Padding padding_from_name(std::string_view name) {
  const auto found = std::ranges::find(kPaddingNames, name);
  if (found == kPaddingNames.end()) {
    throw base::usage_error("lookup", "expected a padding of {}, got '{}'; did you mean '{}'?",
                            fmt::join(kPaddingNames, " | "), name,
                            base::nearest_name(name, padding_names()));
  }
  return static_cast<Padding>(found - kPaddingNames.begin());
}

// What stays fixed over an item's residues.
struct LookupTask::Item {
  std::vector<std::int64_t> keys;           // N distinct key indices, in list order
  std::vector<std::int64_t> values;         // N value indices
  std::vector<std::int64_t> fillers;        // H - 2N filler indices, in order
  Layout layout;                            // in the list's block of H - (R-1) tokens
  std::vector<std::size_t> demonstrations;  // D records other than the target, in order
};

std::int64_t prompt_length(const LookupOptions& options) {
  return options.language.haystack + 1 + 2 * options.demonstrations + 1;
}

LookupTask::LookupTask(const LookupOptions& options) : options_(options) {
  LookupLanguage& language = options_.language;
  language.queries = std::min(language.queries, language.records);
  validate(language, "lookup");
  const std::int64_t R = options_.modulus;
  if (R < 2) throw base::usage_error("lookup", "expected a modulus of at least 2, got {}", R);
  constexpr std::int64_t kMostItems = 10'000'000;
  if (options_.items < 1 || options_.items > kMostItems) {
    throw base::usage_error("lookup", "expected 1 to {} items, got {}", kMostItems, options_.items);
  }
  if (options_.demonstrations < 0) {
    throw base::usage_error("lookup", "expected 0 or more demonstrations, got {}",
                            options_.demonstrations);
  }
  if (options_.demonstrations >= language.records) {
    throw base::usage_error(
        "lookup", "expected fewer demonstrations than the {} records, got {}; use --demonstrations",
        language.records, options_.demonstrations);
  }
  const std::int64_t block = language.haystack - (R - 1);
  if (block - 1 < least_room(R)) {
    throw base::usage_error(
        "lookup",
        "expected a haystack of at least {} tokens for modulus {} (the target's "
        "position must have the same mean and variance at every residue), got {}; use "
        "--modulus {} or less",
        3 * R - 1, R, language.haystack, (language.haystack + 1) / 3);
  }
  if (2 * language.records + 1 > block) {
    throw base::usage_error(
        "lookup",
        "expected at most {} records in a haystack of {} tokens at modulus {}, got {}; use "
        "fewer --records or a smaller --modulus",
        (block - 1) / 2, language.haystack, R, language.records);
  }
  options_.items = (options_.items + R - 1) / R * R;
  bases_ = base_positions({.modulus = R, .room = block - 1, .items = options_.items});
}

std::string LookupTask::padding() const { return name_of(options_.padding); }

base::Json LookupTask::options() const {
  return {{"language", to_json(options_.language)},
          {"demonstrations", options_.demonstrations},
          {"padding", padding()},
          {"modulus", options_.modulus},
          {"items", options_.items},
          {"prompt_length", prompt_length(options_)},
          {"seed", options_.seed}};
}

LookupTask::Item LookupTask::make_item(std::int64_t index) const {
  const LookupLanguage& language = options_.language;
  base::Random random(
      base::derive_seed(options_.seed, "audit", {static_cast<std::uint64_t>(index)}));
  Item item;
  const auto N = at(language.records);
  for (const std::size_t key : random.sample_without_replacement(at(language.keys), N)) {
    item.keys.push_back(static_cast<std::int64_t>(key));
  }
  const auto draw = [&](std::int64_t count) {
    return static_cast<std::int64_t>(random.uniform_index(static_cast<std::uint64_t>(count)));
  };
  for (std::size_t n = 0; n < N; ++n) item.values.push_back(draw(language.values));
  for (std::int64_t n = 2 * language.records; n < language.haystack; ++n) {
    item.fillers.push_back(draw(language.fillers));
  }
  item.layout = layout_with_pair_at(language.haystack - (options_.modulus - 1), language.records,
                                    bases_[at(index)], random);
  for (const std::size_t n : random.sample_without_replacement(N, N)) {
    if (n != item.layout.target && item.demonstrations.size() < at(options_.demonstrations)) {
      item.demonstrations.push_back(n);
    }
  }
  return item;
}

Prompt LookupTask::prompt(std::int64_t index, std::int64_t residue) const {
  assert(index >= 0 && index < options_.items && residue >= 0 && residue < options_.modulus);
  const LookupLanguage& language = options_.language;
  const std::int64_t R = options_.modulus;
  const Item item = make_item(index);
  const std::int64_t base = bases_[at(index)];
  const std::int64_t shift = ((residue - base) % R + R) % R;
  const std::int64_t position = base + shift;

  std::vector<std::int64_t> starts = item.layout.starts;
  if (options_.padding == Padding::kPrefix) {
    for (std::int64_t& start : starts) start += shift;
  } else if (options_.padding == Padding::kAroundTarget) {
    starts[item.layout.target] = position;
    for (std::size_t n = item.layout.target + 1; n < starts.size(); ++n) starts[n] += R - 1;
  } else {
    base::Random random(base::derive_seed(
        options_.seed, "audit-in-sequence",
        {static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(residue)}));
    const auto before = static_cast<std::int64_t>(item.layout.target);
    const auto left = place_pairs(position, before, random);
    const std::int64_t after_target = position + 2;
    const auto right =
        place_pairs(language.haystack - after_target, language.records - before - 1, random);
    std::copy(left.begin(), left.end(), starts.begin());
    starts[item.layout.target] = position;
    std::transform(right.begin(), right.end(), starts.begin() + before + 1,
                   [&](std::int64_t start) { return start + after_target; });
  }

  Prompt prompt;
  prompt.item = index;
  prompt.residue = residue;
  prompt.target_position = position;
  std::vector<TokenId>& tokens = prompt.request.prompt;
  tokens.reserve(at(prompt_length(options_)));
  auto filler = item.fillers.begin();
  const auto key_of = [&](std::size_t n) { return language.key(item.keys[n]); };
  const auto value_of = [&](std::size_t n) { return language.value(item.values[n]); };
  for (std::size_t n = 0; n < starts.size(); ++n) {
    while (static_cast<std::int64_t>(tokens.size()) < starts[n]) {
      tokens.push_back(language.filler(*filler++));
    }
    tokens.push_back(key_of(n));
    tokens.push_back(value_of(n));
  }
  while (static_cast<std::int64_t>(tokens.size()) < language.haystack) {
    tokens.push_back(language.filler(*filler++));
  }
  tokens.push_back(language.separator());
  for (const std::size_t n : item.demonstrations) {
    tokens.push_back(key_of(n));
    tokens.push_back(value_of(n));
  }
  prompt.query_position = static_cast<std::int64_t>(tokens.size());
  tokens.push_back(key_of(item.layout.target));
  prompt.length = static_cast<std::int64_t>(tokens.size());
  prompt.request.target = value_of(item.layout.target);
  for (std::size_t n = 0; n < starts.size(); ++n) {
    if (n != item.layout.target) prompt.other_answers.push_back(value_of(n));
  }
  return prompt;
}

std::string LookupTask::token_name(TokenId token) const {
  // A server's vocabulary may hold more than the language.
  if (!options_.language.holds(token)) return fmt::format("#{}", token);
  return options_.language.token_name(token);
}

Anatomy LookupTask::anatomy(const Prompt& prompt) const {
  const LookupLanguage& language = options_.language;
  const std::vector<TokenId>& tokens = prompt.request.prompt;
  Anatomy anatomy{.context_end = at(language.haystack), .help = tokens.size() - 1};
  for (std::size_t i = 0; i + 1 < anatomy.context_end; ++i) {
    if (language.meaning(tokens[i]).kind != TokenKind::kKey) continue;
    anatomy.facts.push_back({.ids = {tokens[i], tokens[i + 1]},
                             .tokens = 2,
                             .pair_tokens = 2,
                             .asked = tokens[i] == tokens.back()});
  }
  anatomy.ask_ids = {tokens.back()};
  anatomy.lead_tokens = 1;
  anatomy.passage_tokens = 8;
  for (std::int64_t i = 0; i < language.fillers; ++i) {
    anatomy.filler_ids.push_back(language.filler(i));
  }
  return anatomy;
}

}  // namespace kvphase::task
