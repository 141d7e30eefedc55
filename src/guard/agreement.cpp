#include "guard/agreement.h"

#include <algorithm>
#include <cassert>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stats/interval.h"

namespace kvphase::guard {
namespace {

std::vector<AnswerGroup> groups_of(std::span<const Reply> replies,
                                   const NormaliseOptions& options) {
  std::map<std::string, AnswerGroup> by_answer;
  for (const Reply& reply : replies) {
    if (!reply.answered()) continue;
    std::string answer = normalised(reply.answer, options);
    AnswerGroup& group = by_answer[answer];
    if (group.replies++ == 0) {
      group.answer = std::move(answer);
      group.as_given = reply.answer;
    }
    group.offsets.push_back(reply.offset);
  }
  std::vector<AnswerGroup> groups;
  for (auto& [answer, group] : by_answer) {
    std::ranges::sort(group.offsets);
    const auto repeated = std::ranges::unique(group.offsets);
    group.offsets.erase(repeated.begin(), repeated.end());
    groups.push_back(std::move(group));
  }
  std::ranges::stable_sort(groups, [](const AnswerGroup& a, const AnswerGroup& b) {
    return a.replies != b.replies ? a.replies > b.replies : a.offsets[0] < b.offsets[0];
  });
  return groups;
}

void finish(OffsetAnswers& offset) {
  std::size_t kinds = 0;
  std::int64_t most = 0;
  for (std::size_t g = 0; g < offset.replies.size(); ++g) {
    const std::int64_t count = offset.replies[g];
    kinds += count > 0 ? 1 : 0;
    if (count == most) offset.most_frequent.reset();
    if (count > most) {
      most = count;
      offset.most_frequent = g;
    }
  }
  offset.steady = kinds <= 1;
}

VerdictKind verdict_of(const Agreement& a, double level) {
  if (a.groups.size() > 1) {
    if (a.test.p && *a.test.p <= level) return VerdictKind::kDepends;
    return a.unsteady > 0 ? VerdictKind::kRandom : VerdictKind::kUndecided;
  }
  return a.groups.size() == 1 && a.unanswered.empty() ? VerdictKind::kAgree
                                                      : VerdictKind::kUndecided;
}

std::string list(const std::vector<std::int64_t>& offsets) {
  return fmt::format("offset{} {}", offsets.size() == 1 ? "" : "s", fmt::join(offsets, ", "));
}

std::string percent(double share) { return fmt::format("{:.0f}%", 100 * share); }

}  // namespace

std::string_view name_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kAgree:
      return "agree";
    case VerdictKind::kDepends:
      return "depends_on_offset";
    case VerdictKind::kRandom:
      return "random";
    case VerdictKind::kUndecided:
      return "undecided";
  }
  return "undecided";
}

Agreement find_agreement(std::span<const Reply> replies, const AgreementOptions& options) {
  Agreement a;
  a.groups = groups_of(replies, options.normalise);
  a.offsets.resize(static_cast<std::size_t>(options.offsets));
  std::map<std::string, std::size_t, std::less<>> number;
  for (std::size_t g = 0; g < a.groups.size(); ++g) number[a.groups[g].answer] = g;
  for (OffsetAnswers& offset : a.offsets) offset.replies.resize(a.groups.size());
  std::vector<std::vector<std::int64_t>> answers(a.offsets.size());
  for (const Reply& reply : replies) {
    assert(reply.offset >= 0 && reply.offset < options.offsets);
    const auto at = static_cast<std::size_t>(reply.offset);
    if (!reply.answered()) {
      ++a.offsets[at].missing;
      ++a.missing;
      continue;
    }
    const std::size_t group = number.at(normalised(reply.answer, options.normalise));
    ++a.offsets[at].answered;
    ++a.offsets[at].replies[group];
    answers[at].push_back(static_cast<std::int64_t>(group));
    ++a.answered;
    a.cut += reply.cut ? 1 : 0;
  }
  for (std::size_t o = 0; o < a.offsets.size(); ++o) {
    OffsetAnswers& offset = a.offsets[o];
    finish(offset);
    const auto name = static_cast<std::int64_t>(o);
    a.unsteady += offset.steady ? 0 : 1;
    if (offset.answered == 0) a.unanswered.push_back(name);
    if (offset.answered > 0 && offset.most_frequent != std::size_t{0}) a.differ.push_back(name);
  }
  if (a.answered > 0) {
    a.share = static_cast<double>(a.groups[0].replies) / static_cast<double>(a.answered);
  }
  a.test = stats::test_answers(answers, options.seed);
  if (a.groups.size() == 1) {
    a.may_differ = stats::clopper_pearson_upper(0, a.answered, 0.05).high;
  }
  a.verdict = verdict_of(a, options.level);
  return a;
}

std::string sentence_of(const Agreement& a, const AgreementOptions& options) {
  const std::string p = a.test.p ? fmt::format("p = {:.2g}", *a.test.p) : a.test.reason;
  switch (a.verdict) {
    case VerdictKind::kAgree:
      return fmt::format("All {} replies at {} offsets give one answer.", a.answered,
                         options.offsets);
    case VerdictKind::kDepends:
      return fmt::format(
          "The answer depends on where the prompt's tokens stand: {} give{} another answer than "
          "the others ({}{}).",
          list(a.differ), a.differ.size() == 1 ? "s" : "", p,
          a.unsteady > 0
              ? fmt::format("; the same prompt is not answered alike at {} of {} offsets",
                            a.unsteady, options.offsets)
              : "");
    case VerdictKind::kRandom:
      return fmt::format(
          "The same prompt gets different answers at {} of {} offsets, and no more than that is "
          "shown ({}): the model or its server is random, not sensitive to the offset as far as {} "
          "replies tell.",
          a.unsteady, options.offsets, p, a.answered);
    case VerdictKind::kUndecided:
      break;
  }
  if (a.answered == 0) return "No reply came: nothing is known.";
  if (a.groups.size() == 1) {
    return fmt::format("Undecided: {} replies give one answer, but {} gave none.", a.answered,
                       list(a.unanswered));
  }
  return fmt::format(
      "Undecided: {} replies give {} answers (the first {} of them), too few to tell an answer "
      "that follows the offset from a random one ({}).",
      a.answered, a.groups.size(), percent(*a.share), p);
}

}  // namespace kvphase::guard
