#include "task/records.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "task/position_design.h"
#include "task/residue_set.h"

namespace kvphase::task {
namespace {

constexpr std::int64_t kFillers = 8;
constexpr std::int64_t kMostValues = 48;

constexpr const char* kPreamble =
    "Below is a long list of records. A record is a key, then the word \"is\", then the key's "
    "value, "
    "which is one word. Words between records mean nothing.\n\n";
constexpr const char* kQuestion =
    "\n\nNow give the value of each of these keys, with the value alone.\n";
// Before a key that is asked for before the list.
constexpr const char* kKeyFirst =
    "The key whose value you will be asked for stands first, then the list begins:";

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::int64_t mod(std::int64_t x, std::int64_t modulus) { return (x % modulus + modulus) % modulus; }

// `count` records of `width` tokens in `length` tokens, all layouts equally likely: their starts.
std::vector<std::int64_t> place(std::int64_t length, std::int64_t count, std::int64_t width,
                                base::Random& random) {
  assert(count * width <= length);
  const std::vector<std::size_t> cells = random.sample_without_replacement(
      at(length - count * (width - 1)), static_cast<std::size_t>(count));
  std::vector<std::int64_t> starts(cells.begin(), cells.end());
  std::sort(starts.begin(), starts.end());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    starts[i] += static_cast<std::int64_t>(i) * (width - 1);
  }
  return starts;
}

// Cells of R tokens that a target's base may start in.
std::int64_t base_cells(std::int64_t list, std::int64_t width, std::int64_t R) {
  return (list - width - 2 * R + 1) / R + 1;
}

std::int64_t count_words(std::string_view text) {
  std::int64_t words = 0;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) words += text[i] == ' ' && text[i + 1] != ' ';
  return words;
}

}  // namespace

// What stays fixed over the versions of a haystack.
struct RecordsTask::Haystack {
  std::int64_t index = 0;
  std::vector<std::int64_t> starts;  // of the records, increasing
  std::vector<std::int64_t> keys;    // distinct
  std::vector<std::int64_t> values;
  std::vector<std::size_t> targets;  // record of each of its items
  std::string text;                  // the list
  std::vector<std::size_t> bytes;    // where each target's record starts in the text
  std::string demonstrations;
  std::vector<std::string> answers;  // distinct values, as other_texts
};

std::size_t words_for_records(std::int64_t records, std::int64_t key_words) {
  // A fifth more keys than records, so that which are in the list says little.
  const double keys = 1.2 * static_cast<double>(records) + 1;
  const double words = key_words == 1 ? keys : std::sqrt(keys) + 1;
  return static_cast<std::size_t>(std::ceil(words)) + static_cast<std::size_t>(kFillers) +
         static_cast<std::size_t>(kMostValues);
}

RecordsTask::RecordsTask(const RecordsOptions& options) : options_(options) {
  RecordsOptions& o = options_;
  const auto refuse = [](const char* what, std::int64_t least, std::int64_t got) {
    return base::usage_error("records", "expected {} of at least {}, got {}", what, least, got);
  };
  residues_ = audited_residues(o.modulus, o.every_residue);
  class_step_ = class_step(o.modulus, o.every_residue);
  if (o.key_words != 1 && o.key_words != 2) {
    throw base::usage_error("records", "expected keys of 1 or 2 words, got {}", o.key_words);
  }
  if (o.items < 1) throw refuse("a number of items", 1, o.items);
  if (o.per_haystack < 1) throw refuse("items per haystack", 1, o.per_haystack);
  if (o.demonstrations < 0) throw refuse("demonstrations", 0, o.demonstrations);
  if (o.max_tokens < 1) throw refuse("max_tokens", 1, o.max_tokens);
  const std::int64_t classes = o.modulus / class_step_;
  o.per_haystack = (o.per_haystack + classes - 1) / classes * classes;
  o.items = (o.items + o.per_haystack - 1) / o.per_haystack * o.per_haystack;
  constexpr std::int64_t kMostItems = 10'000'000;
  if (o.items > kMostItems) {
    throw base::usage_error("records", "expected at most {} items, got {}", kMostItems, o.items);
  }

  std::set<std::string> distinct(o.words.begin(), o.words.end());
  if (distinct.size() != o.words.size() || distinct.contains(kConnector)) {
    throw base::usage_error("records", "expected distinct words other than '{}', got repeats",
                            kConnector);
  }
  const std::int64_t words = std::ssize(o.words);
  const std::int64_t values = std::min(kMostValues, (words - kFillers) / 3);
  if (values >= 2) {
    const auto first_value = o.words.begin() + kFillers;
    fillers_.assign(o.words.begin(), first_value);
    values_.assign(first_value, first_value + values);
    keys_.assign(first_value + values, o.words.end());
  }
  if (values < 2 || key_count() < o.records) {
    throw base::usage_error(
        "records", "expected at least {} words for {} records with keys of {} words, got {}",
        words_for_records(o.records, o.key_words), o.records, o.key_words, words);
  }
  if (o.records < o.per_haystack + o.demonstrations) {
    throw base::usage_error("records",
                            "expected at least {} records ({} items of a haystack, {} "
                            "demonstrations), got {}; use fewer items per haystack",
                            o.per_haystack + o.demonstrations, o.per_haystack, o.demonstrations,
                            o.records);
  }
  const std::int64_t cell = (record_tokens() + 2 * o.modulus - 2) / o.modulus + 1;  // in R tokens
  const std::int64_t least = o.per_haystack * cell * o.modulus + record_tokens() + 2 * o.modulus;
  if (list_tokens() < least) {
    throw base::usage_error("records",
                            "expected a haystack of at least {} tokens for {} items at modulus {}, "
                            "got {}; use fewer items per haystack",
                            least + o.modulus - 1, o.per_haystack, o.modulus, o.haystack);
  }
  // Between two targets up to width-1 tokens hold no record.
  const std::int64_t width = record_tokens();
  const std::int64_t most =
      (list_tokens() - o.per_haystack * width - (o.per_haystack + 1) * (width - 1)) / width +
      o.per_haystack;
  if (o.records > most) {
    throw base::usage_error("records",
                            "expected at most {} records of {} tokens in a haystack of {} with {} "
                            "items, got {}; use a longer haystack or fewer records",
                            most, width, o.haystack, o.per_haystack, o.records);
  }
  if (o.pad_at == PadAt::kTwoFactor && std::ssize(residues_) < o.modulus) {
    throw base::usage_error("records",
                            "expected every residue of the modulus {} with two factors, got {}; "
                            "ask for every residue or move one at a time",
                            o.modulus, residues_.size());
  }
}

std::int64_t RecordsTask::list_tokens() const { return options_.haystack - (options_.modulus - 1); }

std::int64_t RecordsTask::key_count() const {
  const std::int64_t n = std::ssize(keys_);
  return options_.key_words == 1 ? n : n * (n - 1);
}

std::string RecordsTask::key_text(std::int64_t key) const {
  const std::int64_t n = std::ssize(keys_);
  if (options_.key_words == 1) return " " + keys_[at(key)];
  const std::int64_t first = key / (n - 1);
  const std::int64_t second = key % (n - 1);
  return " " + keys_[at(first)] + " " + keys_[at(second + (second >= first ? 1 : 0))];
}

std::string RecordsTask::record_text(std::int64_t key, std::int64_t value) const {
  return key_text(key) + " " + kConnector + " " + values_[at(value)];
}

std::int64_t RecordsTask::class_of(std::int64_t item) const {
  const std::int64_t classes = options_.modulus / class_step_;
  const std::int64_t block = item / classes;
  const std::int64_t i = item % classes;
  return ((block % 2 == 0 ? i : classes - 1 - i) + block / 2) % classes;
}

std::int64_t RecordsTask::base_of(std::int64_t item) const {
  const std::int64_t R = options_.modulus;
  const std::int64_t K = options_.per_haystack;
  const std::int64_t classes = R / class_step_;
  const std::int64_t cells = base_cells(list_tokens(), record_tokens(), R);
  const std::int64_t q = (2 * (item % K) + 1) * cells / (2 * K);
  return R * q + class_offset({.modulus = R, .step = class_step_}, item / classes, class_of(item));
}

PadPlace RecordsTask::place_of(std::int64_t item) const {
  PadPlace place{.target = base_of(item), .query = list_tokens() + question_tokens() - 1};
  const ItemEnd end = item_end({.modulus = options_.modulus, .step = class_step_}, item);
  place.extra = end.extra;
  place.between = end.between;
  return place;
}

std::int64_t RecordsTask::question_tokens() const {
  return options_.demonstrations * record_tokens() + options_.key_words + 1;
}

std::int64_t RecordsTask::longest_prompt() const {
  return list_tokens() + most_padding(options_.pad_at, options_.modulus) + question_tokens();
}

std::string RecordsTask::filler(std::uint64_t part, std::int64_t haystack,
                                std::int64_t count) const {
  base::Random random(base::derive_seed(options_.seed, "records.pad",
                                        {static_cast<std::uint64_t>(haystack), part}));
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) {
    text += " " + fillers_[random.uniform_index(fillers_.size())];
  }
  return text;
}

std::shared_ptr<const RecordsTask::Haystack> RecordsTask::make_haystack(std::int64_t index) const {
  const std::int64_t K = options_.per_haystack;
  const std::int64_t width = record_tokens();
  base::Random random(
      base::derive_seed(options_.seed, "records", {static_cast<std::uint64_t>(index)}));
  auto made = std::make_shared<Haystack>();
  Haystack& hay = *made;
  hay.index = index;

  // The targets in their places, the other records evenly between them.
  std::vector<std::int64_t> gaps;  // tokens between targets
  std::int64_t end = 0;
  for (std::int64_t k = 0; k < K; ++k) {
    const std::int64_t base = base_of(index * K + k);
    assert(base >= end);
    gaps.push_back(base - end);
    end = base + width;
  }
  gaps.push_back(list_tokens() - end);
  std::int64_t room = 0;
  for (const std::int64_t gap : gaps) room += gap / width;
  const std::int64_t others = options_.records - K;
  assert(others <= room);
  std::int64_t seen = 0;
  std::int64_t start = 0;
  for (std::size_t g = 0; g < gaps.size(); ++g) {
    const std::int64_t before = room > 0 ? others * seen / room : 0;
    seen += gaps[g] / width;
    const std::int64_t count = room > 0 ? others * seen / room - before : 0;
    for (const std::int64_t s : place(gaps[g], count, width, random)) {
      hay.starts.push_back(start + s);
    }
    start += gaps[g];
    if (g + 1 < gaps.size()) {
      hay.targets.push_back(hay.starts.size());
      hay.starts.push_back(start);
      start += width;
    }
  }

  for (const std::size_t key :
       random.sample_without_replacement(at(key_count()), at(options_.records))) {
    hay.keys.push_back(static_cast<std::int64_t>(key));
    hay.values.push_back(static_cast<std::int64_t>(random.uniform_index(values_.size())));
  }
  std::vector<bool> is_target(hay.starts.size());
  for (const std::size_t t : hay.targets) is_target[t] = true;
  std::int64_t position = 0;
  for (std::size_t n = 0; n <= hay.starts.size(); ++n) {
    const std::int64_t until = n < hay.starts.size() ? hay.starts[n] : list_tokens();
    for (; position < until; ++position) {
      hay.text += " " + fillers_[random.uniform_index(fillers_.size())];
    }
    if (n == hay.starts.size()) break;
    if (is_target[n]) hay.bytes.push_back(hay.text.size());
    hay.text += record_text(hay.keys[n], hay.values[n]);
    position += width;
  }
  std::int64_t shown = 0;
  for (const std::size_t n :
       random.sample_without_replacement(hay.starts.size(), hay.starts.size())) {
    if (shown == options_.demonstrations) break;
    if (is_target[n]) continue;
    hay.demonstrations += record_text(hay.keys[n], hay.values[n]) + "\n";
    ++shown;
  }
  for (const std::int64_t value : std::set<std::int64_t>(hay.values.begin(), hay.values.end())) {
    hay.answers.push_back(values_[at(value)]);
  }
  return made;
}

std::shared_ptr<const RecordsTask::Haystack> RecordsTask::haystack_of(std::int64_t item) const {
  const std::int64_t index = item / options_.per_haystack;
  {
    const std::lock_guard lock(mutex_);
    if (last_ && last_->index == index) return last_;
  }
  auto made = make_haystack(index);
  const std::lock_guard lock(mutex_);
  last_ = made;
  return made;
}

Prompt RecordsTask::prompt(std::int64_t item, std::int64_t residue) const {
  assert(item >= 0 && item < options_.items && residue >= 0 && residue < options_.modulus);
  const auto hay = haystack_of(item);
  const std::int64_t k = item % options_.per_haystack;
  const std::size_t record = hay->targets[at(k)];
  const PadPlace place = place_of(item);
  const PadAmounts pad = pad_amounts(options_.pad_at, place, residue, options_.modulus);

  Prompt prompt{.item = item,
                .residue = residue,
                .target_position = place.target + pad.front,
                .query_position = place.query + pad.front + pad.back,
                .haystack = haystack(item, residue)};
  prompt.length = prompt.query_position + 1;
  prompt.expected = values_[at(hay->values[record])];
  for (const std::string& value : hay->answers) {
    if (value != prompt.expected) prompt.other_texts.push_back(value);
  }

  lm::AnswerRequest words{.max_tokens = options_.max_tokens, .stop = {"\n"}};
  if (options_.constant_tokens) words.tokens = prompt.length + *options_.constant_tokens;
  const std::string front = filler(0, hay->index, pad.front);
  std::string question =
      kQuestion + hay->demonstrations + key_text(hay->keys[record]) + " " + kConnector;
  if (options_.pad_at == PadAt::kBeforeNeedle) {
    const std::size_t cut = hay->bytes[at(k)];
    words.pieces = {kPreamble, hay->text.substr(0, cut), front + hay->text.substr(cut), question};
    words.shared = 2;
  } else {
    // The back filler differs between items of one version where the end moves by itself.
    const bool shared_back = options_.pad_at == PadAt::kSplit;
    const std::string back = filler(1, hay->index, pad.back);
    words.pieces = {kPreamble, front + hay->text + (shared_back ? back : "")};
    words.shared = 2;
    if (!shared_back && !back.empty()) words.pieces.push_back(back);
    words.pieces.push_back(std::move(question));
  }
  prompt.words = std::move(words);
  return prompt;
}

std::int64_t RecordsTask::haystack(std::int64_t item, std::int64_t residue) const {
  const std::int64_t index = item / options_.per_haystack;
  switch (options_.pad_at) {
    case PadAt::kBeforeNeedle:
      return item;
    case PadAt::kAfterNeedle:
      return index;
    default:
      return index * options_.modulus + mod(residue - base_of(item), options_.modulus);
  }
}

std::string RecordsTask::token_name(lm::TokenId) const { return ""; }

std::string RecordsTask::preamble() const { return kPreamble; }

std::vector<std::string> RecordsTask::one_token_words() const {
  std::vector<std::string> words = {kConnector};
  words.insert(words.end(), options_.words.begin(), options_.words.end());
  return words;
}

std::int64_t RecordsTask::recount(const Prompt& prompt) const {
  std::string text;
  for (const std::string& piece : prompt.words->pieces) text += piece;
  // The constant texts stand for 0.
  if (!text.starts_with(kPreamble)) return -1;
  const std::size_t question = text.find(kQuestion);
  if (question == std::string::npos) return -1;
  const std::string_view all = text;
  const std::size_t list = std::string_view(kPreamble).size();
  return count_words(all.substr(list, question - list)) +
         count_words(all.substr(question + std::string_view(kQuestion).size()));
}

CostShape RecordsTask::cost_shape() const {
  const std::int64_t R = options_.modulus;
  CostShape shape{.prompt_tokens = longest_prompt(), .completion_tokens = options_.max_tokens};
  std::set<std::int64_t> versions;
  std::int64_t shared = 0;
  for (std::int64_t item = 0; item < options_.items; ++item) {
    for (const std::int64_t residue : residues_) versions.insert(haystack(item, residue));
    shared += options_.pad_at == PadAt::kBeforeNeedle ? base_of(item) : 0;
  }
  shape.haystacks = std::ssize(versions);
  switch (options_.pad_at) {
    case PadAt::kSplit:
      shape.shared_tokens = list_tokens() + R - 1;
      break;
    case PadAt::kBeforeNeedle:
      shape.shared_tokens = shared / options_.items;
      break;
    default:
      shape.shared_tokens = list_tokens();
  }
  return shape;
}

// The key facts are the records that the items of the haystack ask for: who has these questions
// knows that these records matter.
Anatomy RecordsTask::anatomy(const Prompt& prompt) const {
  const auto hay = haystack_of(prompt.item);
  const std::size_t asked = hay->targets[at(prompt.item % options_.per_haystack)];
  const std::vector<std::string>& pieces = prompt.words->pieces;
  Anatomy anatomy{.context_begin = 1, .context_end = pieces.size() - 1, .help = pieces.size() - 1};
  for (const std::size_t record : hay->targets) {
    const std::int64_t key = hay->keys[record];
    anatomy.facts.push_back({.ids = {},
                             .text = record_text(key, hay->values[record]),
                             .key = key_text(key),
                             .value = " " + values_[at(hay->values[record])],
                             .tokens = record_tokens(),
                             .pair_tokens = options_.key_words + 1,
                             .asked = record == asked});
  }
  anatomy.ask_text = anatomy.lead = key_text(hay->keys[asked]);
  anatomy.lead_tokens = options_.key_words;
  anatomy.intro = kKeyFirst;
  anatomy.passages = 3;
  anatomy.filler_words = fillers_;
  return anatomy;
}

base::Json RecordsTask::options() const {
  base::Json json = {{"haystack", options_.haystack},
                     {"records", options_.records},
                     {"key_words", options_.key_words},
                     {"per_haystack", options_.per_haystack},
                     {"demonstrations", options_.demonstrations},
                     {"pad_at", padding()},
                     {"modulus", options_.modulus},
                     {"items", options_.items},
                     {"max_tokens", options_.max_tokens},
                     {"seed", options_.seed},
                     {"words", options_.words}};
  if (std::ssize(residues_) < options_.modulus) json["residues"] = residues_;
  return json;
}

}  // namespace kvphase::task
