#include "endpoint/positions.h"

#include <algorithm>

#include <fmt/format.h>

namespace kvphase::endpoint {
namespace {

// A completion that only counts the prompt.
Reply count_prompt(Client& client, CompletionRequest request, PositionProof& proof) {
  request.max_tokens = 1;
  request.return_prompt_ids = true;
  request.expected_prompt_tokens.reset();
  ++proof.requests;
  return client.complete(request);
}

// The server read the prompt, whatever it answered.
bool was_read(const Reply& reply) {
  switch (reply.outcome) {
    case Outcome::kOk:
    case Outcome::kEmpty:
    case Outcome::kReasoningOnly:
    case Outcome::kTruncated:
    case Outcome::kErrorText:
    case Outcome::kRefused:
      return true;
    default:
      return false;
  }
}

std::string describe(const Reply& reply) {
  return fmt::format("{} ({})", name_of(reply.outcome), reply.detail);
}

// Where `part` stands in `whole`; empty: nowhere.
std::optional<std::int64_t> position_of(std::span<const lm::TokenId> part,
                                        std::span<const lm::TokenId> whole) {
  const auto found = std::search(whole.begin(), whole.end(), part.begin(), part.end());
  if (found == whole.end()) return std::nullopt;
  return found - whole.begin();
}

PositionProof fail(PositionProof proof, std::string why) {
  proof.ok = false;
  proof.failed = std::move(why);
  proof.note = "positions are not proven: " + proof.failed;
  return proof;
}

std::string relative_note(std::int64_t overhead) {
  return fmt::format(
      "the server adds {} tokens at unknown places: phases are relative, right up to one rotation",
      overhead);
}

// One measurement's proof that the counts of all others follow it.
std::string check_constant(PositionProof& proof) {
  for (const PositionMeasurement& m : proof.measurements) {
    const std::int64_t overhead = *m.counted - *m.sent;
    if (overhead < 0) {
      return fmt::format("the server read {} of {} tokens: the prompt was truncated", *m.counted,
                         *m.sent);
    }
    if (!proof.overhead) proof.overhead = overhead;
    if (overhead != *proof.overhead) {
      return fmt::format(
          "the server adds {} tokens to one prompt and {} to another (item {}, {} fillers): the "
          "overhead is not constant",
          *proof.overhead, overhead, m.item, m.fillers);
    }
  }
  return "";
}

// Fillers move each item by exactly one each, by what was counted.
std::string check_steps(const PositionProof& proof, std::int64_t items, std::int64_t fillers) {
  for (std::int64_t item = 0; item < items; ++item) {
    for (std::int64_t n = 1; n <= fillers; ++n) {
      const auto at = [&](std::int64_t k) {
        return *proof.measurements[static_cast<std::size_t>(item * (fillers + 1) + k)].counted;
      };
      const std::int64_t step = at(n) - at(n - 1);
      if (step == 1) continue;
      return step == 0 ? fmt::format(
                             "the count stays at {} from {} to {} fillers (item {}): the prompt "
                             "is truncated, or the filler joins its neighbour",
                             at(n), n - 1, n, item)
                       : fmt::format(
                             "filler {} of item {} moves the count by {} instead of 1 (from {} "
                             "to {})",
                             n, item, step, at(n - 1), at(n));
    }
  }
  return "";
}

}  // namespace

std::string_view name_of(PositionRoute route) {
  switch (route) {
    case PositionRoute::kTokenPrompts:
      return "token-id prompts";
    case PositionRoute::kReturnedIds:
      return "returned token ids";
    case PositionRoute::kTokenizer:
      return "the server's tokenizer";
    case PositionRoute::kUsageCounts:
      return "usage counts";
    case PositionRoute::kNone:
      return "none";
  }
  return "none";
}

PositionProof prove_token_prompts(Client& client, std::span<const std::vector<lm::TokenId>> prompts,
                                  const CompletionRequest& like) {
  PositionProof proof{.route = PositionRoute::kTokenPrompts};
  if (!client.api().capabilities().token_prompts) {
    return fail(std::move(proof),
                fmt::format("{} takes no token-id prompts", name_of(client.info().kind)));
  }
  bool placed = !prompts.empty();  // every reply said where our tokens stand
  std::optional<std::int64_t> offset;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    CompletionRequest request = like;
    request.tokens = prompts[i];
    const Reply reply = count_prompt(client, std::move(request), proof);
    if (!was_read(reply)) {
      proof.failed_outcome = reply.outcome;
      return fail(std::move(proof),
                  fmt::format("prompt {} of {} tokens: {}", i, prompts[i].size(), describe(reply)));
    }
    PositionMeasurement m{.item = static_cast<std::int64_t>(i),
                          .sent = static_cast<std::int64_t>(prompts[i].size()),
                          .counted = reply.usage.prompt_tokens};
    if (!reply.prompt_ids.empty()) {
      m.counted = static_cast<std::int64_t>(reply.prompt_ids.size());
      const auto at = position_of(prompts[i], reply.prompt_ids);
      if (!at) {
        proof.measurements.push_back(m);
        return fail(std::move(proof),
                    fmt::format("the ids that the server says it read do not hold the {} sent",
                                prompts[i].size()));
      }
      if (offset && *offset != *at) {
        return fail(std::move(proof), "what the server puts in front differs between prompts");
      }
      offset = at;
    } else {
      placed = false;
    }
    if (!m.counted) {
      return fail(std::move(proof), "the server reports neither usage nor the ids it read");
    }
    proof.measurements.push_back(m);
  }
  if (prompts.empty()) return fail(std::move(proof), "no prompt was given");
  if (std::string why = check_constant(proof); !why.empty()) return fail(std::move(proof), why);
  proof.ok = true;
  if (placed) proof.offset = offset;
  if (*proof.overhead == 0) proof.offset = 0;
  proof.note = proof.offset
                   ? fmt::format("token ids are read as sent, {} in front; phases are absolute",
                                 *proof.offset)
                   : relative_note(*proof.overhead);
  return proof;
}

PositionProof prove_text_prompts(Client& client, const TextPrompt& prompt, std::int64_t items,
                                 std::int64_t max_fillers) {
  PositionProof proof{.route = PositionRoute::kUsageCounts};
  bool all_ids = true;        // every reply returned the ids it read
  bool all_tokenized = true;  // the tokenizer knows every text
  std::vector<std::vector<lm::TokenId>> ids;
  for (std::int64_t item = 0; item < items; ++item) {
    for (std::int64_t n = 0; n <= max_fillers; ++n) {
      const CompletionRequest request = prompt(item, n);
      const Reply reply = count_prompt(client, request, proof);
      if (!was_read(reply)) {
        proof.failed_outcome = reply.outcome;
        return fail(std::move(proof),
                    fmt::format("item {} with {} fillers: {}", item, n, describe(reply)));
      }
      PositionMeasurement m{.item = item, .fillers = n, .counted = reply.usage.prompt_tokens};
      if (!reply.prompt_ids.empty()) {
        m.counted = static_cast<std::int64_t>(reply.prompt_ids.size());
        ids.push_back(reply.prompt_ids);
      } else {
        all_ids = false;
      }
      if (!m.counted) {
        return fail(std::move(proof), "the server reports neither usage nor the ids it read");
      }
      if (all_tokenized) {
        std::string text = request.text;
        for (const ChatMessage& message : request.messages) text += message.content;
        std::string why;
        // Raw text gets its BOS counted; in chats the template adds what it adds.
        const auto tokens = client.tokenize(text, request.messages.empty(), why);
        if (tokens) {
          m.sent = static_cast<std::int64_t>(tokens->size());
        } else {
          all_tokenized = false;
        }
      }
      proof.measurements.push_back(m);
    }
  }
  if (items < 1) return fail(std::move(proof), "no item was given");
  if (std::string why = check_steps(proof, items, max_fillers); !why.empty()) {
    return fail(std::move(proof), why);
  }
  if (all_tokenized) {
    proof.route = PositionRoute::kTokenizer;
    if (std::string why = check_constant(proof); !why.empty()) return fail(std::move(proof), why);
  }
  if (all_ids) proof.route = PositionRoute::kReturnedIds;
  proof.ok = true;
  const bool raw = prompt(0, 0).messages.empty();
  if (all_ids || (all_tokenized && raw && *proof.overhead == 0)) {
    // Every token's place can be looked up in the ids themselves.
    proof.offset = 0;
    proof.note =
        fmt::format("{} give every token's place; phases are absolute", name_of(proof.route));
  } else if (proof.overhead) {
    proof.note = relative_note(*proof.overhead);
  } else {
    proof.note = fmt::format(
        "{} fillers move the prompt by one token each; phases are relative, right up to one "
        "rotation",
        max_fillers);
  }
  return proof;
}

SingleTokenWords find_single_token_words(
    Client& client, std::span<const std::string> candidates, std::size_t wanted,
    const std::function<CompletionRequest(std::string_view text)>& base_prompt) {
  constexpr int kCopies = 4;  // a word that merges with itself or its neighbour shows
  SingleTokenWords found{.route = client.api().capabilities().tokenizer
                                      ? PositionRoute::kTokenizer
                                      : PositionRoute::kUsageCounts};
  const bool tokenizer = found.route == PositionRoute::kTokenizer;
  const std::string start = "The list:";
  PositionProof cost;
  std::string why;
  std::vector<lm::TokenId> start_ids;
  const auto count = [&](const std::string& text) -> std::optional<std::int64_t> {
    if (tokenizer) {
      const auto ids = client.tokenize(text, false, why);
      if (!ids) return std::nullopt;
      start_ids = *ids;
      return static_cast<std::int64_t>(ids->size());
    }
    const Reply reply = count_prompt(client, base_prompt(text), cost);
    if (!was_read(reply)) {
      why = describe(reply);
      found.failed_outcome = reply.outcome;
    }
    if (was_read(reply) && !reply.usage.prompt_tokens) why = "the server reports no usage";
    return was_read(reply) ? reply.usage.prompt_tokens : std::nullopt;
  };
  const auto before = count(start);
  if (!before) {
    found.failed = why;
    return found;
  }
  for (const std::string& word : candidates) {
    if (found.words.size() == wanted) break;
    std::string text = start;
    for (int i = 0; i < kCopies; ++i) text += " " + word;
    const auto after = count(text);
    if (!after) {
      found.failed = why;
      return found;
    }
    const bool same =
        !tokenizer || (start_ids.size() >= kCopies &&
                       std::all_of(start_ids.end() - kCopies, start_ids.end(),
                                   [&](lm::TokenId id) { return id == start_ids.back(); }));
    if (*after - *before == kCopies && same) {
      found.words.push_back(word);
      if (tokenizer) found.ids.push_back(start_ids.back());
    } else {
      found.rejected.push_back(word);
    }
  }
  if (found.words.size() < wanted) {
    found.failed = fmt::format("{} of {} words are one token each, {} were wanted",
                               found.words.size(), candidates.size(), wanted);
  }
  return found;
}

}  // namespace kvphase::endpoint
