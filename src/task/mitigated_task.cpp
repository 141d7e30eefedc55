#include "task/mitigated_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "base/random.h"
#include "task/mitigate_prompt.h"

namespace kvphase::task {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::int64_t mod(std::int64_t x, std::int64_t modulus) { return (x % modulus + modulus) % modulus; }

std::int64_t moved_position(const Task& task, const Prompt& prompt) {
  return moves_end_only(task.pad_at()) ? prompt.query_position : prompt.target_position;
}

// An item's base: its R prompts stand at base .. base+R-1, so the residues below the base's are one
// modulus further on than the others.
std::int64_t base_of(const Task& task, std::int64_t item) {
  const std::int64_t R = task.modulus();
  const auto turn = [&](std::int64_t r) { return moved_position(task, task.prompt(item, r)) - r; };
  const std::int64_t last = turn(R - 1);
  std::int64_t low = 0;  // smallest residue in the last one's turn
  for (std::int64_t high = R - 1; low < high;) {
    const std::int64_t middle = (low + high) / 2;
    if (turn(middle) == last) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return last + low;
}

// How far the variances of the position at the R residues lie apart, relative to the largest, with
// `fronts` tokens in front of items with these bases.
double variance_spread(std::span<const std::int64_t> bases, std::span<const std::int64_t> fronts,
                       std::int64_t R) {
  double low = 0, high = 0;
  const auto n = static_cast<double>(bases.size());
  for (std::int64_t s = 0; s < R; ++s) {
    double sum = 0, squares = 0;
    for (std::size_t item = 0; item < bases.size(); ++item) {
      const std::int64_t base = bases[item] + fronts[item];
      const auto x = static_cast<double>(base + mod(s - base, R));
      sum += x;
      squares += x * x;
    }
    const double variance = squares / n - sum / n * (sum / n);
    low = s == 0 ? variance : std::min(low, variance);
    high = std::max(high, variance);
  }
  return high > 0 ? (high - low) / high : 0;
}

[[noreturn]] void refuse(const MitigationOptions& options, const Task& task,
                         const std::string& why) {
  throw base::usage_error("mitigate", "expected a task that can {} ({}), got {}: {}",
                          info_of(options.mitigation).name, info_of(options.mitigation).tasks,
                          task.name(), why);
}

}  // namespace

MitigatedTask::MitigatedTask(std::unique_ptr<Task> plain, const MitigationOptions& options)
    : plain_(std::move(plain)), options_(options) {
  refuse_impossible();
  const auto items = at(plain_->items());
  if (options_.mitigation == Mitigation::kMajority) {
    most_extra_ = options_.votes - 1;
    return;
  }
  if (options_.mitigation == Mitigation::kRandomPadding) {
    for (const std::int64_t front : random_fronts()) extras_.push_back({front, front});
  } else {
    const std::int64_t residue = plain_->residues().front();
    for (std::size_t item = 0; item < items; ++item) {
      const Prompt before = plain_->prompt(static_cast<std::int64_t>(item), residue);
      const Prompt after = transform(before, 0);
      extras_.push_back({.front = after.target_position - before.target_position,
                         .all = after.length - before.length});
    }
    if (options_.mitigation == Mitigation::kQueryFirst) {
      intro_ = plain_->anatomy(plain_->prompt(0, residue)).intro;
    }
  }
  for (const Extra& extra : extras_) most_extra_ = std::max(most_extra_, extra.all);
}

void MitigatedTask::refuse_impossible() const {
  const std::vector<std::int64_t> residues = plain_->residues();
  const Anatomy anatomy = plain_->anatomy(plain_->prompt(0, residues.front()));
  const bool some_residues = std::ssize(residues) < plain_->modulus();
  const auto positive = [&](std::optional<std::int64_t> n, const char* what) {
    if (n && *n < 1)
      throw base::usage_error("mitigate", "expected {} of 1 or more, got {}", what, *n);
  };
  positive(options_.facts, "--key-facts");
  positive(options_.passages, "--passages");
  positive(options_.passage_tokens, "--passage-tokens");
  switch (options_.mitigation) {
    case Mitigation::kRestate:
    case Mitigation::kList:
      if (anatomy.facts.empty()) refuse(options_, *plain_, anatomy.why_no_facts);
      if (!anatomy.help) refuse(options_, *plain_, anatomy.why_no_help);
      if (options_.facts && *options_.facts > std::ssize(anatomy.facts)) {
        throw base::usage_error("mitigate", "expected at most the {} key facts of {}, got {}",
                                anatomy.facts.size(), plain_->name(), *options_.facts);
      }
      break;
    case Mitigation::kRetrieve:
      if (!anatomy.help) refuse(options_, *plain_, anatomy.why_no_help);
      if (anatomy.ask_text.empty() && anatomy.ask_ids.empty()) {
        refuse(options_, *plain_, anatomy.why_no_query_first);
      }
      break;
    case Mitigation::kQueryFirst:
      if (!anatomy.why_no_query_first.empty()) {
        refuse(options_, *plain_, anatomy.why_no_query_first);
      }
      break;
    case Mitigation::kRandomPadding:
    case Mitigation::kMajority: {
      if (anatomy.filler_ids.empty() && anatomy.filler_words.empty()) {
        refuse(options_, *plain_, "it has no filler");
      }
      if (some_residues) {
        refuse(options_, *plain_,
               fmt::format("only {} of {} residues are asked, and filler in front reaches others; "
                           "give --every-residue or a smaller --modulus",
                           residues.size(), plain_->modulus()));
      }
      if (options_.mitigation == Mitigation::kMajority &&
          (options_.votes < 2 || options_.votes > plain_->modulus())) {
        throw base::usage_error("mitigate", "expected 2 to {} --votes (the modulus), got {}",
                                plain_->modulus(), options_.votes);
      }
      const bool end_moves =
          plain_->pad_at() == PadAt::kAfterNeedle || plain_->pad_at() == PadAt::kTwoFactor;
      if (options_.mitigation == Mitigation::kRandomPadding && end_moves) {
        refuse(options_, *plain_,
               fmt::format("with --pad-at {} the end's positions would no longer balance; use "
                           "--pad-at split",
                           name_of(plain_->pad_at())));
      }
      break;
    }
  }
}

// An item's class c becomes p(c) by p(c) - c mod R tokens in front, p a permutation of the classes
// for each R items that follow one another: every number of tokens is equally likely, and the
// items' classes stay all different, so that means over residues stay equal (position_design.h).
// Variances are equal on average; of a few items the first draw is taken whose variances are close.
std::vector<std::int64_t> MitigatedTask::random_fronts() const {
  constexpr std::uint64_t kMostDraws = 200;
  constexpr double kClose = 0.15;  // of the largest variance; the plan check allows more
  const std::int64_t R = plain_->modulus();
  std::vector<std::int64_t> bases;
  for (std::int64_t item = 0; item < plain_->items(); ++item)
    bases.push_back(base_of(*plain_, item));
  std::vector<std::int64_t> best;
  double least = 0;
  for (std::uint64_t draw = 0; draw < kMostDraws && (best.empty() || least > kClose); ++draw) {
    std::vector<std::int64_t> fronts;
    std::vector<std::size_t> to;
    for (std::size_t item = 0; item < bases.size(); ++item) {
      if (item % at(R) == 0) {
        base::Random random(
            base::derive_seed(options_.seed, "mitigate.random-padding", {draw, item / at(R)}));
        to = random.sample_without_replacement(at(R), at(R));
      }
      const std::int64_t c = mod(bases[item], R);
      fronts.push_back(mod(static_cast<std::int64_t>(to[at(c)]) - c, R));
    }
    const double spread = variance_spread(bases, fronts, R);
    if (best.empty() || spread < least) {
      best = std::move(fronts);
      least = spread;
    }
  }
  return best;
}

std::int64_t MitigatedTask::votes() const {
  return options_.mitigation == Mitigation::kMajority ? options_.votes : 1;
}

MitigatedTask::Extra MitigatedTask::extra_of(std::int64_t item) const {
  if (options_.mitigation != Mitigation::kMajority) return extras_[at(item)];
  const std::int64_t front = item % options_.votes;
  return {.front = front, .all = front};
}

std::int64_t MitigatedTask::plain_residue(std::int64_t item, std::int64_t residue) const {
  const Extra extra = extra_of(item);
  return mod(residue - (moves_end_only(pad_at()) ? extra.all : extra.front), modulus());
}

Prompt MitigatedTask::transform(Prompt plain, std::int64_t front) const {
  const Anatomy anatomy = plain_->anatomy(plain);
  switch (options_.mitigation) {
    case Mitigation::kRestate:
    case Mitigation::kList:
    case Mitigation::kRetrieve:
      return with_help(std::move(plain), anatomy, options_);
    case Mitigation::kQueryFirst:
      return with_query_first(std::move(plain), anatomy);
    case Mitigation::kRandomPadding: {
      Prompt prompt = with_front(std::move(plain), anatomy, front, options_.seed);
      if (prompt.words) prompt.words->shared = 0;
      return prompt;
    }
    case Mitigation::kMajority:
      return with_front(std::move(plain), anatomy, front, options_.seed);
  }
  assert(false);
  return plain;
}

Prompt MitigatedTask::prompt(std::int64_t item, std::int64_t residue) const {
  Prompt prompt =
      transform(plain_->prompt(item / votes(), plain_residue(item, residue)), extra_of(item).front);
  prompt.item = item;
  prompt.residue = residue;
  prompt.haystack = haystack(item, residue);
  return prompt;
}

std::int64_t MitigatedTask::haystack(std::int64_t item, std::int64_t residue) const {
  if (options_.mitigation == Mitigation::kQueryFirst ||
      options_.mitigation == Mitigation::kRandomPadding) {
    return -1;
  }
  const std::int64_t k = votes();
  const std::int64_t plain = plain_->haystack(item / k, plain_residue(item, residue));
  return plain < 0 ? plain : plain * k + item % k;
}

std::string MitigatedTask::preamble() const { return plain_->preamble() + intro_; }

std::int64_t MitigatedTask::recount(const Prompt& prompt) const {
  if (!prompt.words) return plain_->recount(prompt);
  Prompt copy = prompt;
  copy.item = prompt.item / votes();
  const bool front = options_.mitigation == Mitigation::kRandomPadding ||
                     options_.mitigation == Mitigation::kMajority;
  if (front && extra_of(prompt.item).front == 0) return plain_->recount(copy);
  const Anatomy anatomy =
      plain_->anatomy(plain_->prompt(copy.item, plain_residue(prompt.item, prompt.residue)));
  const Undone undone = undo(std::move(copy), anatomy, options_.mitigation);
  const std::int64_t plain = plain_->recount(undone.plain);
  return plain < 0 ? plain : plain + undone.tokens;
}

CostShape MitigatedTask::cost_shape() const {
  CostShape shape = plain_->cost_shape();
  const std::int64_t k = votes();
  shape.prompt_tokens += most_extra_;
  switch (options_.mitigation) {
    case Mitigation::kQueryFirst:
    case Mitigation::kRandomPadding:
      shape.haystacks = shape.shared_tokens = 0;
      break;
    case Mitigation::kMajority:
      shape.haystacks *= k;
      shape.shared_tokens += shape.shared_tokens > 0 ? (k - 1) / 2 : 0;
      break;
    default:
      break;
  }
  return shape;
}

Grade MitigatedTask::grade(const Prompt& prompt, const lm::AnswerReply& reply) const {
  return plain_->grade(prompt, reply);
}

double MitigatedTask::mean_extra_tokens() const {
  if (options_.mitigation == Mitigation::kMajority) {
    return static_cast<double>(options_.votes - 1) / 2;
  }
  double sum = 0;
  for (const Extra& extra : extras_) sum += static_cast<double>(extra.all);
  return sum / static_cast<double>(extras_.size());
}

std::string MitigatedTask::mitigation() const {
  const std::string name(info_of(options_.mitigation).name);
  switch (options_.mitigation) {
    case Mitigation::kRestate:
    case Mitigation::kList:
      return options_.facts ? fmt::format("{} ({} facts)", name, *options_.facts) : name;
    case Mitigation::kMajority:
      return fmt::format("{} of {}", name, options_.votes);
    case Mitigation::kRetrieve: {
      const base::Json json = options()["mitigation"];
      return fmt::format("{} ({} x {})", name, json["passages"].get<std::int64_t>(),
                         json["passage_tokens"].get<std::int64_t>());
    }
    default:
      return name;
  }
}

base::Json MitigatedTask::options() const {
  base::Json json = {{"name", info_of(options_.mitigation).name}};
  switch (options_.mitigation) {
    case Mitigation::kRestate:
    case Mitigation::kList:
      json["facts"] = options_.facts ? base::Json(*options_.facts) : base::Json("all");
      break;
    case Mitigation::kRetrieve: {
      const Anatomy anatomy = plain_->anatomy(plain_->prompt(0, plain_->residues().front()));
      json["passages"] = options_.passages.value_or(anatomy.passages);
      json["passage_tokens"] = options_.passage_tokens.value_or(anatomy.passage_tokens);
      break;
    }
    case Mitigation::kMajority:
      json["votes"] = options_.votes;
      break;
    default:
      break;
  }
  base::Json all = plain_->options();
  all["mitigation"] = std::move(json);
  return all;
}

}  // namespace kvphase::task
