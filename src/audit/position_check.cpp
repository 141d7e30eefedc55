#include "audit/position_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/stop.h"
#include "task/prompt_set.h"

namespace kvphase::audit {
namespace {

using task::PadAt;

std::int64_t mod(std::int64_t x, std::int64_t modulus) { return (x % modulus + modulus) % modulus; }

// Mean and variance of a position at every residue that has one.
class Moments {
 public:
  explicit Moments(std::int64_t modulus) : cells_(static_cast<std::size_t>(modulus)) {}

  void add(std::int64_t residue, std::int64_t position) {
    Cell& cell = cells_[static_cast<std::size_t>(residue)];
    const auto x = static_cast<double>(position);
    ++cell.n;
    const double delta = x - cell.mean;
    cell.mean += delta / static_cast<double>(cell.n);
    cell.squares += delta * (x - cell.mean);
  }

  struct Range {
    double mean_low = 0;
    double mean_high = 0;
    double variance_low = 0;
    double variance_high = 0;
  };
  Range range() const {
    std::optional<Range> range;
    for (const Cell& cell : cells_) {
      if (cell.n == 0) continue;
      const double variance = cell.squares / static_cast<double>(cell.n);
      if (!range) range = Range{cell.mean, cell.mean, variance, variance};
      range->mean_low = std::min(range->mean_low, cell.mean);
      range->mean_high = std::max(range->mean_high, cell.mean);
      range->variance_low = std::min(range->variance_low, variance);
      range->variance_high = std::max(range->variance_high, variance);
    }
    return range.value_or(Range{});
  }

 private:
  struct Cell {
    std::int64_t n = 0;
    double mean = 0;
    double squares = 0;  // sum of squared deviations
  };
  std::vector<Cell> cells_;
};

bool balanced(const Moments::Range& range, double means_apart) {
  return range.mean_high - range.mean_low <= means_apart + 1e-6 &&
         range.variance_high - range.variance_low <=
             kVarianceTolerance * range.variance_high + 1e-6;
}

// What an item's prompts have to share, and what failed so far, in words.
class Rules {
 public:
  Rules(const task::Task& task, std::size_t residues)
      : at_(task.pad_at()),
        modulus_(task.modulus()),
        residues_(residues),
        differences_(static_cast<std::size_t>(modulus_)) {}

  void begin_item() {
    first_.reset();
    ends_.assign(static_cast<std::size_t>(modulus_), 0);
  }

  void add(const task::Prompt& p, std::int64_t recount) {
    if (!first_) first_ = Place{p.target_position, p.query_position, p.length};
    if (recount != p.length || p.length <= 0) {
      fail(fmt::format("a prompt of {} tokens says that it has {}", recount, p.length));
    }
    const std::int64_t moved = task::moves_end_only(at_) ? p.query_position : p.target_position;
    if (mod(moved, modulus_) != p.residue) fail("a position is not at its residue");
    query_fixed &= p.query_position == first_->query;
    length_fixed &= p.length == first_->length;
    switch (at_) {
      case PadAt::kSplit:
        if (p.query_position != first_->query) fail("the query position moves within an item");
        if (p.length != first_->length) fail("the length changes within an item");
        break;
      case PadAt::kStart:
      case PadAt::kBeforeNeedle:
        if (p.query_position - p.target_position != first_->query - first_->target) {
          fail("the distance from the target to the end changes within an item");
        }
        break;
      case PadAt::kAfterNeedle:
        if (p.target_position != first_->target) fail("the target moves within an item");
        break;
      case PadAt::kTwoFactor: {
        const std::int64_t end = mod(p.query_position, modulus_);
        if (++ends_[static_cast<std::size_t>(end)] > 1) {
          fail("an item has two prompts with the same residue of the end");
        }
        if (p.residue == 0) ++differences_[static_cast<std::size_t>(end)];
        break;
      }
    }
  }

  void finish() {
    if (at_ != PadAt::kTwoFactor) return;
    const auto [low, high] = std::minmax_element(differences_.begin(), differences_.end());
    if (*high - *low > 1) fail("the two residues do not meet in all ways equally often");
    if (std::ssize(differences_) != static_cast<std::ptrdiff_t>(residues_)) {
      fail("two factors need every residue");
    }
  }

  void fail(std::string what) {
    if (failed.empty()) failed = std::move(what);
  }

  std::string failed;  // the first
  bool query_fixed = true;
  bool length_fixed = true;

 private:
  struct Place {
    std::int64_t target = 0;
    std::int64_t query = 0;
    std::int64_t length = 0;
  };
  PadAt at_;
  std::int64_t modulus_;
  std::size_t residues_;
  std::optional<Place> first_;             // of the item
  std::vector<std::int64_t> ends_;         // prompts of the item by the end's residue
  std::vector<std::int64_t> differences_;  // items by the end's residue where the target's is 0
};

std::string_view what_moves(PadAt at) {
  switch (at) {
    case PadAt::kStart:
      return "everything moves together";
    case PadAt::kBeforeNeedle:
      return "the target and the end move together";
    case PadAt::kAfterNeedle:
      return "only the end moves";
    case PadAt::kTwoFactor:
      return "target and end move apart, each over every residue in every item";
    case PadAt::kSplit:
      break;
  }
  return "only the target moves, query position and length stay";
}

}  // namespace

std::vector<std::int64_t> asked_residues(const task::Task& task, std::int64_t position_offset) {
  std::vector<std::int64_t> residues = task.residues();
  for (std::int64_t& r : residues) r = mod(r - position_offset, task.modulus());
  std::ranges::sort(residues);
  return residues;
}

PlanCheck check_plan(const task::Task& task, std::int64_t position_offset) {
  const std::int64_t R = task.modulus();
  const std::vector<std::int64_t> residues = asked_residues(task, position_offset);
  const bool ends_only = task::moves_end_only(task.pad_at());
  const bool two_factor = task.pad_at() == PadAt::kTwoFactor;
  Rules rules(task, residues.size());
  Moments moved(R);
  Moments ends(R);            // of the end by its own residue
  Moments ends_by_target(R);  // and by the target's
  task::PromptSetHash hash;
  for (std::int64_t item = 0; item < task.items() && !base::stop_requested(); ++item) {
    rules.begin_item();
    for (const std::int64_t residue : residues) {
      const task::Prompt prompt = task.prompt(item, residue);
      rules.add(prompt, task.recount(prompt));
      moved.add(residue, ends_only ? prompt.query_position : prompt.target_position);
      if (two_factor) {
        ends.add(mod(prompt.query_position, R), prompt.query_position);
        ends_by_target.add(residue, prompt.query_position);
      }
      hash.add(prompt);
    }
  }
  rules.finish();
  PlanCheck check{.positions = {}, .prompt_set_sha256 = hash.finish_hex()};

  const Moments::Range range = moved.range();
  const bool all = std::ssize(residues) == R;
  const double means_apart = all ? 0 : static_cast<double>(R) / 8;
  if (!balanced(range, means_apart)) rules.fail("its mean or variance differs over residues");
  if (two_factor) {
    const Moments::Range by_target = ends_by_target.range();
    if (!balanced(ends.range(), 0)) rules.fail("the end's mean or variance differs over residues");
    if (by_target.mean_high - by_target.mean_low > static_cast<double>(R)) {
      rules.fail("the end's mean differs over the target's residues");
    }
  }
  record::PositionCheck& positions = check.positions;
  positions.checked = true;
  positions.query_position_fixed = rules.query_fixed;
  positions.length_fixed = rules.length_fixed;
  positions.mean_low = range.mean_low;
  positions.mean_high = range.mean_high;
  positions.variance_low = range.variance_low;
  positions.variance_high = range.variance_high;
  positions.ok = rules.failed.empty();
  positions.note = fmt::format(
      "checked on all {} prompts: {}; mean of the {} position {:.2f} to {:.2f} tokens, variance "
      "{:.1f} to {:.1f} tokens^2 over {} residues (allowed: {}, variances within {:.0f}%){}",
      task.items() * std::ssize(residues), what_moves(task.pad_at()),
      ends_only ? "end's" : "target", positions.mean_low, positions.mean_high,
      positions.variance_low, positions.variance_high, residues.size(),
      all ? std::string("equal means") : fmt::format("means within {:g} tokens", means_apart),
      100 * kVarianceTolerance, positions.ok ? "" : fmt::format("; failed: {}", rules.failed));
  return check;
}

void refuse_stopped() {
  if (!base::stop_requested()) return;
  throw base::Error(base::ErrorKind::kInterrupted, "audit", "stopped before the first prompt");
}

void require_controlled(const PlanCheck& plan, const task::Task& task) {
  refuse_stopped();
  if (!plan.positions.ok) {
    throw base::Error(
        base::ErrorKind::kPhaseControl, "audit",
        fmt::format("expected residues that differ in phase only, got: {}; use at least {} items "
                    "({} balance "
                    "them exactly)",
                    plan.positions.note, 2 * task.modulus(), task.modulus() * task.modulus()));
  }
}

}  // namespace kvphase::audit
