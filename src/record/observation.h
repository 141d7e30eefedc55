// One scored prompt: the atom that statistics read. Positions are zero-based token positions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace kvphase::record {

// One of the likeliest first tokens of an answer: its text, or "#id" where only the id is known.
struct AnswerProbability {
  std::string token;
  double logprob = 0;  // nats
  bool operator==(const AnswerProbability&) const = default;
};

struct Observation {
  std::int64_t item = 0;             // the cluster: one haystack, key, value and its distractors
  std::int64_t residue = 0;          // target_position mod R
  std::int64_t target_position = 0;  // position of the target key's first token
  std::int64_t query_position = 0;   // position whose next token is the answer
  std::int64_t length = 0;           // prompt length in tokens
  std::int64_t repeat = 0;      // > 0: an A/A repetition of the same prompt, kept out of estimates
  std::string expected;         // the right answer
  std::string answer;           // what the model said; empty when missing
  std::string reply_class;      // "exact" | "other_record" | "wrong" | ... ; the cause when missing
  std::optional<bool> correct;  // empty: no usable reply (never counted as wrong, never dropped)
  std::optional<double> logprob;       // log P(right first token), nats
  std::optional<double> margin;        // log P(right) - log P(best wrong), nats
  std::int64_t cached = 0;             // prompt tokens that the server took from its cache
  std::vector<AnswerProbability> top;  // likeliest first; only where a comparison wants them

  bool operator==(const Observation&) const = default;
};

// One journal line, without the newline; parse(format(x)) == x. parse throws a usage error naming
// scope.
std::string format_observation(const Observation& observation);
Observation parse_observation(std::string_view line, std::string_view scope);

}  // namespace kvphase::record
