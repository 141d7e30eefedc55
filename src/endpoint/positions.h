// Proves, before anything is paid for, at which token positions a server reads what we send: n more
// tokens must move the prompt by n, nothing may be cut off, and what the server adds (BOS, chat
// template) must be the same every time. Must not know tasks or statistics.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "endpoint/client.h"

namespace kvphase::endpoint {

// In the order in which they are tried; each is weaker than the one before.
enum class PositionRoute {
  kTokenPrompts,  // ids are sent and used as they are
  kReturnedIds,   // the server says which ids it read
  kTokenizer,     // the server's tokenizer gives the ids of raw text, usage confirms their number
  kUsageCounts,   // only the number of prompt tokens is known
  kNone,
};
std::string_view name_of(PositionRoute route);

struct PositionMeasurement {
  std::int64_t item = 0;
  std::int64_t fillers = 0;             // of a text prompt
  std::optional<std::int64_t> sent;     // tokens by our count or the server's tokenizer
  std::optional<std::int64_t> counted;  // usage's prompt tokens, or the number of returned ids
};

struct PositionProof {
  PositionRoute route = PositionRoute::kNone;
  bool ok = false;
  std::string failed;  // the check that failed, in words; empty when ok
  std::optional<Outcome>
      failed_outcome;  // of the reply that did not come, where that was the check
  // Tokens that the server adds to what is sent; empty: not to be known from counts alone.
  std::optional<std::int64_t> overhead;
  // Tokens in front of the first that we sent; empty: unknown, then phases are relative: they are
  // right up to one common rotation.
  std::optional<std::int64_t> offset;
  bool absolute() const { return ok && offset.has_value(); }
  std::int64_t requests = 0;  // completions that the proof cost
  std::vector<PositionMeasurement> measurements;
  std::string note;  // one sentence for people
};

// Token-id prompts, e.g. the shortest, a middle and the longest of the plan: usage (or returned
// ids) must agree with the number sent, up to one constant. Asked like `like` but for the prompt
// and what counting needs, so that what the server refuses in a run shows here.
PositionProof prove_token_prompts(Client& client, std::span<const std::vector<lm::TokenId>> prompts,
                                  const CompletionRequest& like = {});

// The prompt of an item with `fillers` filler words in front of it.
using TextPrompt = std::function<CompletionRequest(std::int64_t item, std::int64_t fillers)>;

// Text or chat prompts: every item (at least one; the longest of the plan among them) with
// 0..max_fillers fillers. The items show that the overhead does not depend on the text.
PositionProof prove_text_prompts(Client& client, const TextPrompt& prompt, std::int64_t items,
                                 std::int64_t max_fillers = 8);

// Candidates that are one token after a space wherever they stand, e.g. as filler.
struct SingleTokenWords {
  std::vector<std::string> words;  // without the space
  std::vector<lm::TokenId> ids;    // of " word", where the server has a tokenizer; else empty
  std::vector<std::string> rejected;
  PositionRoute route = PositionRoute::kNone;
  std::string failed;                     // why fewer than wanted were found; empty otherwise
  std::optional<Outcome> failed_outcome;  // of the reply that did not come, where that was why
};

// Asks until `wanted` words are found or the candidates end. Without a tokenizer each candidate
// costs a completion: `base_prompt(text)` makes the request whose prompt ends in `text`.
SingleTokenWords find_single_token_words(
    Client& client, std::span<const std::string> candidates, std::size_t wanted,
    const std::function<CompletionRequest(std::string_view text)>& base_prompt);

}  // namespace kvphase::endpoint
