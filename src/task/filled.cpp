#include "task/filled.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"
#include "base/random.h"
#include "task/position_design.h"
#include "task/residue_set.h"

namespace kvphase::task {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// The first `count` words of an endless stream, from word `begin` on.
std::string words(const FillerFamily& family, std::uint64_t seed, std::int64_t begin,
                  std::int64_t end) {
  base::Random random(seed);
  std::string text;
  for (std::int64_t i = 0; i < end; ++i) {
    const std::string& word = family.words[random.uniform_index(family.words.size())];
    if (i >= begin) text += " " + word;
  }
  return text;
}

std::int64_t mod(std::int64_t x, std::int64_t modulus) { return (x % modulus + modulus) % modulus; }

std::int64_t count_blanks(std::string_view text) { return std::ranges::count(text, ' '); }

}  // namespace

FilledTask::FilledTask(const FilledOptions& options) : options_(options) {
  FilledOptions& o = options_;
  const std::int64_t R = o.modulus;
  residues_ = audited_residues(R, o.every_residue);
  class_step_ = class_step(R, o.every_residue);
  if (o.items < 1) throw base::usage_error(o.name, "expected at least 1 item, got {}", o.items);
  const std::int64_t classes = R / class_step_;
  o.items = (o.items + classes - 1) / classes * classes;
  if (o.entries.empty()) throw base::usage_error(o.name, "expected at least one item, got none");
  if (o.families.empty() || std::ranges::any_of(o.families, [](const FillerFamily& family) {
        return family.words.empty();
      })) {
    throw base::usage_error(o.name, "expected words of one token to fill with, got none");
  }
  if (!(o.depth >= 0 && o.depth <= 1)) {
    throw base::usage_error(o.name, "expected a depth of 0 to 1, got {}", o.depth);
  }
  if (o.max_tokens < 1) {
    throw base::usage_error(o.name, "expected max_tokens of at least 1, got {}", o.max_tokens);
  }
  bool before = false;
  for (const Segment& segment : o.segments) {
    before |= segment.slot == Slot::kFillerBefore;
    has_after_ |= segment.slot == Slot::kFillerAfter;
    if (!before && !has_after_) preamble_ += segment.text;
  }
  const bool front = o.pad_at != PadAt::kAfterNeedle;
  const bool back =
      o.pad_at == PadAt::kSplit || o.pad_at == PadAt::kAfterNeedle || o.pad_at == PadAt::kTwoFactor;
  if ((front && !before) || (back && !has_after_)) {
    throw base::usage_error(o.name,
                            "expected a prompt with {} for --pad-at {}, got one without; add the "
                            "slot or use --pad-at {}",
                            front && !before ? "{filler_before}" : "{filler_after}",
                            name_of(o.pad_at), before ? "start" : "after-needle");
  }
  if (stream_tokens() < 4 * R) {
    throw base::usage_error(o.name, "expected at least {} filler tokens for modulus {}, got {}",
                            5 * R - 1, R, o.haystack);
  }
  if (o.pad_at == PadAt::kTwoFactor && std::ssize(residues_) < R) {
    throw base::usage_error(o.name,
                            "expected every residue of the modulus {} with two factors, got {}; "
                            "ask for every residue or move one at a time",
                            R, residues_.size());
  }
  for (const FilledItem& entry : o.entries) filled_.push_back(fill(entry));
  const bool one_text = std::ranges::all_of(filled_, [&](const Filled& filled) {
    return filled.middle == filled_[0].middle && filled.tail == filled_[0].tail;
  });
  if (!o.count_tokens && !one_text &&
      (o.pad_at == PadAt::kAfterNeedle || o.pad_at == PadAt::kTwoFactor)) {
    throw base::Error(
        base::ErrorKind::kPhaseControl, o.name,
        fmt::format("expected a server whose tokenizer counts tokens for --pad-at {}, because the "
                    "items' texts may differ in length, got none; use the task records, whose "
                    "items are all equally long, or --pad-at start",
                    name_of(o.pad_at)));
  }
}

FilledTask::Filled FilledTask::fill(const FilledItem& entry) const {
  Filled filled;
  std::string* part = nullptr;
  std::optional<std::size_t> needle;
  for (const Segment& segment : options_.segments) {
    switch (segment.slot) {
      case Slot::kFillerBefore:
        part = &filled.middle;
        break;
      case Slot::kFillerAfter:
        part = &filled.tail;
        break;
      case Slot::kText:
        if (part != nullptr) *part += segment.text;
        break;
      case Slot::kNeedle:
        if (part == &filled.middle) needle = part->size();
        if (part != nullptr) *part += entry.needle;
        break;
      case Slot::kQuestion:
        if (part != nullptr) *part += entry.question;
        break;
    }
  }
  if (options_.count_tokens) {
    const CountTokens& count = options_.count_tokens;
    if (needle.value_or(0) > 0) filled.lead = count(filled.middle.substr(0, *needle));
    if (!filled.middle.empty()) filled.middle_tokens = count(filled.middle);
    if (!filled.tail.empty()) filled.tail_tokens = count(filled.tail);
  }
  return filled;
}

const FilledTask::Filled& FilledTask::filled_of(std::int64_t item) const {
  return filled_[at(item) % filled_.size()];
}

const FillerFamily& FilledTask::family_of(std::int64_t item) const {
  const std::int64_t block = item / (options_.modulus / class_step_);
  return options_.families[at(block) % options_.families.size()];
}

std::int64_t FilledTask::stream_tokens() const {
  return options_.haystack - (options_.modulus - 1);
}

std::int64_t FilledTask::base_of(std::int64_t item) const {
  const std::int64_t R = options_.modulus;
  // Bases take 2R tokens around the depth; whole multiples of R keep the classes.
  const double wanted = has_after_ ? options_.depth * static_cast<double>(stream_tokens())
                                   : static_cast<double>(stream_tokens());
  const std::int64_t most = (stream_tokens() - 2 * R) / R;
  const std::int64_t q =
      std::clamp<std::int64_t>(std::llround(wanted / static_cast<double>(R)) - 1, 0, most);
  const ClassDesign design{.modulus = R, .step = class_step_};
  return R * q + class_offset(design, item / design.classes(), item % design.classes());
}

PadPlace FilledTask::place_of(std::int64_t item) const {
  const Filled& filled = filled_of(item);
  const ItemEnd end = item_end({.modulus = options_.modulus, .step = class_step_}, item);
  const std::int64_t base = base_of(item);
  // Where the end moves with the needle, it keeps its distance over all items.
  const bool together = options_.pad_at == PadAt::kStart || options_.pad_at == PadAt::kBeforeNeedle;
  std::int64_t filler = stream_tokens();
  if (!has_after_) filler = base;
  if (has_after_ && together) filler += base - base_of(0);
  PadPlace place{.target = base + filled.lead,
                 .query = filler + filled.middle_tokens + filled.tail_tokens - 1,
                 .between = end.between};
  // Items of different length end in the classes of the design all the same.
  place.extra = end.extra + mod(-place.query, options_.modulus);
  return place;
}

std::int64_t FilledTask::longest_prompt() const {
  std::int64_t most = 0;
  for (const Filled& filled : filled_) {
    most = std::max(most, filled.middle_tokens + filled.tail_tokens);
  }
  return most + stream_tokens() + 2 * options_.modulus +
         most_padding(options_.pad_at, options_.modulus);
}

std::int64_t FilledTask::haystack(std::int64_t item, std::int64_t) const {
  return options_.pad_at == PadAt::kStart ? -1 : item;
}

Prompt FilledTask::prompt(std::int64_t item, std::int64_t residue) const {
  assert(item >= 0 && item < options_.items && residue >= 0 && residue < options_.modulus);
  const Filled& filled = filled_of(item);
  const FilledItem& entry = options_.entries[at(item) % options_.entries.size()];
  const PadPlace place = place_of(item);
  const PadAmounts pad = pad_amounts(options_.pad_at, place, residue, options_.modulus);
  Prompt prompt{.item = item,
                .residue = residue,
                .target_position = place.target + pad.front,
                .query_position = place.query + pad.front + pad.back,
                .haystack = haystack(item, residue)};
  prompt.length = prompt.query_position + 1;
  prompt.expected = entry.answer;
  prompt.other_texts = entry.others;

  const auto seed = [&](std::uint64_t part) {
    return base::derive_seed(options_.seed, "filled", {at(item), part});
  };
  const FillerFamily& family = family_of(item);
  const std::int64_t base = base_of(item);
  const std::int64_t end = prompt.length - filled.middle_tokens - filled.tail_tokens;
  lm::AnswerRequest request{
      .max_tokens = options_.max_tokens, .stop = options_.stop, .candidates = options_.candidates};
  if (options_.count_tokens == nullptr && options_.constant_tokens) {
    request.tokens = prompt.length + *options_.constant_tokens;
  }
  std::vector<std::string>& pieces = request.pieces;
  const auto add = [&](std::string text) {
    if (!text.empty()) pieces.push_back(std::move(text));
  };
  add(preamble_);
  const auto stream = [&](std::int64_t from, std::int64_t to) {
    return words(family, seed(0), from, to);
  };
  const std::string padding = words(family, seed(1), 0, pad.front);
  switch (options_.pad_at) {
    case PadAt::kStart:
      add(padding + stream(0, base));
      add(filled.middle);
      add(stream(base, end - pad.front));
      break;
    case PadAt::kBeforeNeedle:
      add(stream(0, base));
      request.shared = pieces.size();
      add(padding);
      add(filled.middle);
      add(stream(base, end - pad.front));
      break;
    default:
      add(stream(0, base));
      request.shared = pieces.size();
      add(stream(base, base + pad.front));
      add(filled.middle);
      add(stream(base + pad.front, end));
  }
  add(filled.tail);
  prompt.words = std::move(request);
  return prompt;
}

std::vector<std::string> FilledTask::one_token_words() const {
  std::vector<std::string> all;
  for (const FillerFamily& family : options_.families) {
    for (const std::string& word : family.words) {
      if (std::ranges::find(all, word) == all.end()) all.push_back(word);
    }
  }
  return all;
}

std::int64_t FilledTask::recount(const Prompt& prompt) const {
  std::string text;
  for (const std::string& piece : prompt.words->pieces) text += piece;
  const Filled& filled = filled_of(prompt.item);
  if (!text.starts_with(preamble_) || !text.ends_with(filled.tail)) return -1;
  std::string_view fillers = text;
  fillers.remove_prefix(preamble_.size());
  fillers.remove_suffix(filled.tail.size());
  const std::size_t middle = fillers.find(filled.middle);
  if (middle == std::string_view::npos) return -1;
  return count_blanks(fillers.substr(0, middle)) +
         count_blanks(fillers.substr(middle + filled.middle.size())) + filled.middle_tokens +
         filled.tail_tokens;
}

CostShape FilledTask::cost_shape() const {
  CostShape shape{.prompt_tokens = longest_prompt(), .completion_tokens = options_.max_tokens};
  if (options_.pad_at == PadAt::kStart) return shape;
  shape.haystacks = options_.items;
  shape.shared_tokens = base_of(0);
  return shape;
}

Grade FilledTask::grade(const Prompt& prompt, const lm::AnswerReply& reply) const {
  if (!options_.candidates.empty()) return grade_candidates(options_.candidates, reply);
  return grade_text(reply.text, prompt.expected, prompt.other_texts,
                    {.grading = options_.grading, .cut = reply.cut});
}

Anatomy FilledTask::anatomy(const Prompt& prompt) const {
  const Filled& filled = filled_of(prompt.item);
  const FilledItem& entry = options_.entries[at(prompt.item) % options_.entries.size()];
  const std::vector<std::string>& pieces = prompt.words->pieces;
  Anatomy anatomy{.context_begin = preamble_.empty() ? std::size_t{0} : 1,
                  .context_end = pieces.size()};
  if (has_after_ && !filled.tail.empty()) {
    anatomy.help = anatomy.context_end = pieces.size() - 1;
  } else {
    anatomy.why_no_help = fmt::format(
        "the prompt of {} has no place between its context and its question; write a "
        "template with {{filler_after}} in front of {{question}}",
        options_.name);
  }
  if (!entry.needle.empty()) {
    anatomy.facts = {{.ids = {},
                      .text = filled.middle,
                      .key = {},
                      .value = {},
                      .tokens = filled.middle_tokens,
                      .asked = true}};
  } else {
    anatomy.why_no_facts = fmt::format(
        "{} does not know which facts are key; write a template with {{needle}}", options_.name);
  }
  anatomy.whole = filled.middle;
  anatomy.whole_tokens = filled.middle_tokens;
  anatomy.ask_text = entry.question;
  const bool one_question = std::ranges::all_of(
      options_.entries, [&](const FilledItem& other) { return other.question == entry.question; });
  if (entry.question.empty()) {
    anatomy.why_no_query_first = fmt::format(
        "{} has no question of its own; write a template with {{question}}", options_.name);
  } else if (one_question) {
    anatomy.intro = entry.question + "\n\n";
  } else if (options_.count_tokens) {
    anatomy.lead = entry.question + "\n\n";
    anatomy.lead_tokens = options_.count_tokens(anatomy.lead);
  } else {
    anatomy.why_no_query_first =
        "the items' questions may differ in tokens and no tokenizer counts them; ask one question "
        "of all items, or a server with a tokenizer";
  }
  anatomy.filler_words = family_of(prompt.item).words;
  return anatomy;
}

base::Json FilledTask::options() const {
  base::Json prompt = base::Json::array();
  for (const Segment& segment : options_.segments) {
    constexpr const char* kSlots[] = {"", "{filler_before}", "{filler_after}", "{needle}",
                                      "{question}"};
    prompt.push_back(segment.slot == Slot::kText ? segment.text
                                                 : kSlots[static_cast<int>(segment.slot)]);
  }
  base::Json entries = base::Json::array();
  for (const FilledItem& entry : options_.entries) {
    entries.push_back({{"needle", entry.needle},
                       {"question", entry.question},
                       {"answer", entry.answer},
                       {"others", entry.others}});
  }
  base::Json families = base::Json::object();
  for (const FillerFamily& family : options_.families) families[family.name] = family.words;
  base::Json json = {{"prompt", prompt},
                     {"entries", entries},
                     {"fillers", families},
                     {"haystack", options_.haystack},
                     {"depth", options_.depth},
                     {"pad_at", padding()},
                     {"modulus", options_.modulus},
                     {"items", options_.items},
                     {"max_tokens", options_.max_tokens},
                     {"stop", options_.stop},
                     {"grading", name_of(options_.grading)},
                     {"seed", options_.seed}};
  if (!options_.candidates.empty()) json["candidates"] = options_.candidates;
  if (std::ssize(residues_) < options_.modulus) json["residues"] = residues_;
  return json;
}

}  // namespace kvphase::task
