// What the replies to one prompt at several offsets say: which answers there are, at which offsets,
// whether they follow the offset or are merely random, and a verdict. Knows no model and no prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "guard/normalise.h"
#include "stats/answer_groups.h"

namespace kvphase::guard {

struct Reply {
  std::int64_t offset = 0;  // tokens that the prompt (or its fact) is moved by
  std::int64_t repeat = 0;  // 0 for the first time at this offset
  std::string answer;       // as the model gave it
  std::string missing;      // why there is none; empty: answered
  bool cut = false;         // ended by the limit of tokens
  bool answered() const { return missing.empty(); }
};

enum class VerdictKind {
  kAgree,      // one answer, and every offset has given it
  kDepends,    // the answer follows the offset, at the level
  kRandom,     // the same prompt gets different answers, and no more than that is shown
  kUndecided,  // too few replies to tell these apart
};
std::string_view name_of(VerdictKind kind);  // "agree", "depends_on_offset", "random", "undecided"

struct AgreementOptions {
  std::int64_t offsets = 4;  // k: 0..k-1 were to be asked
  double level = 0.01;       // chance that a merely random model is said to depend on the offset
  NormaliseOptions normalise;
  std::uint64_t seed = 1;  // of the test where it is sampled
};

struct AnswerGroup {
  std::string answer;    // normalised
  std::string as_given;  // the first of its replies
  std::int64_t replies = 0;
  std::vector<std::int64_t> offsets;  // at which it was given, increasing
};

struct OffsetAnswers {
  std::int64_t answered = 0;
  std::int64_t missing = 0;
  std::vector<std::int64_t> replies;         // of each group, in the order of the groups
  std::optional<std::size_t> most_frequent;  // group; empty: a tie, or no reply
  bool steady = true;                        // its replies are all the same
};

struct Agreement {
  VerdictKind verdict = VerdictKind::kUndecided;
  std::vector<AnswerGroup> groups;     // most replies first, of equals the lowest offset's
  std::vector<OffsetAnswers> offsets;  // k of them
  std::int64_t answered = 0;
  std::int64_t missing = 0;
  std::int64_t cut = 0;              // replies ended by the limit of tokens
  std::optional<double> share;       // the first group's, of the answered; empty: none is
  std::vector<std::int64_t> differ;  // offsets whose most frequent answer is not the first group's
  std::int64_t unsteady = 0;         // offsets at which the same prompt got different answers
  std::vector<std::int64_t> unanswered;  // offsets without any reply
  stats::AnswerTest test;
  // One answer only: the share of replies that may be otherwise all the same, 95% (exact one-sided
  // bound, were the replies alike). Empty: several answers, or none.
  std::optional<double> may_differ;
};

// Replies of offsets outside 0..k-1 are a caller's bug.
Agreement find_agreement(std::span<const Reply> replies, const AgreementOptions& options);

// One sentence for people.
std::string sentence_of(const Agreement& agreement, const AgreementOptions& options);

}  // namespace kvphase::guard
