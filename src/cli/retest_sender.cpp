#include "cli/retest_sender.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "task/words.h"

namespace kvphase::cli {

using endpoint::CompletionRequest;
using endpoint::PositionProof;
using endpoint::PromptForm;

namespace {

constexpr std::size_t kWordsTried = 24;

std::int64_t most_fillers(std::int64_t offsets, std::int64_t tokens) {
  return tokens < kLongPrompt ? offsets - 1 : std::min(offsets - 1, kFillersOfLong);
}

std::int64_t places(const Sender& sender) {
  return guard::moved_by(sender.prompt) == guard::Moves::kFact ? 2 : 1;
}

}  // namespace

std::vector<lm::TokenId> Sender::ids(const std::string& piece) const {
  std::string why;
  const auto tokens = client->tokenize(piece, false, why);
  if (!tokens) {
    throw base::environment_error("retest", "expected token ids from the server, got: {}", why);
  }
  return *tokens;
}

CompletionRequest Sender::request(const guard::Fillers& fillers) const {
  CompletionRequest request = like;
  for (const guard::FilledMessage& message : guard::fill(prompt, filler, fillers)) {
    if (form == PromptForm::kChat) {
      request.messages.push_back({.role = message.role, .content = message.text()});
    } else if (form == PromptForm::kText) {
      request.text += message.text();
    } else {
      for (const std::string& piece : message.pieces) {
        const auto part = ids(piece);
        request.tokens.insert(request.tokens.end(), part.begin(), part.end());
      }
    }
  }
  return request;
}

std::string Sender::in_front() const {
  if (guard::moved_by(prompt) == guard::Moves::kEverything) return "";
  std::string text;
  const guard::Pieces pieces = guard::fill(prompt, filler, {.before = 1})[0].pieces;
  for (const std::string& piece : pieces) {
    if (piece == filler) break;
    text += piece;
  }
  return text;
}

std::string find_filler(const Sender& sender, const std::string& wanted, PositionProof& proof) {
  std::vector<std::string> words = {wanted};
  if (wanted.empty()) {
    const auto own = task::candidate_words();
    words.assign(own.begin(), own.begin() + kWordsTried);
    const base::Json& card = sender.client->info().card;
    if (card.is_object() && card.contains("language")) words = {"f0"};
  }
  if (sender.form == PromptForm::kTokens) {
    std::vector<std::string> units;
    for (const std::string& word : words) units.push_back(fmt::format(" {}", word));
    units.push_back(wanted.empty() ? " " : wanted);  // a server that reads bytes
    for (const std::string& unit : units) {
      if (sender.ids(unit).size() == 1) return unit;
    }
    proof.failed = fmt::format("none of {} words is one token", words.size());
    return "";
  }
  const auto counting = [&](std::string_view text) {
    CompletionRequest request{.cold = sender.like.cold, .stream = sender.like.stream};
    if (sender.form == PromptForm::kChat) {
      request.messages = {{.role = "user", .content = std::string(text)}};
    } else {
      request.text = text;
    }
    return request;
  };
  const auto found = endpoint::find_single_token_words(*sender.client, words, 1, counting);
  proof.failed = found.failed;
  proof.failed_outcome = found.failed_outcome;
  return found.failed.empty() ? fmt::format(" {}", found.words.front()) : "";
}

PositionProof prove(const Sender& sender, std::int64_t offsets, std::int64_t tokens) {
  if (sender.form == PromptForm::kTokens) {
    std::vector<std::vector<lm::TokenId>> prompts;
    for (const std::int64_t offset : {std::int64_t{0}, offsets / 2, offsets - 1}) {
      const auto fillers = guard::fillers_at(sender.prompt, offset, offsets);
      prompts.push_back(sender.request(fillers).tokens);
    }
    return endpoint::prove_token_prompts(*sender.client, prompts, sender.like);
  }
  const auto with = [&](std::int64_t place, std::int64_t n) {
    return sender.request(place == 0 ? guard::Fillers{.before = n} : guard::Fillers{.after = n});
  };
  return endpoint::prove_text_prompts(*sender.client, with, places(sender),
                                      most_fillers(offsets, tokens));
}

std::int64_t proof_requests(const Sender& sender, std::int64_t offsets, std::int64_t tokens) {
  if (sender.form == PromptForm::kTokens) return 3;
  const std::int64_t words = sender.client->api().capabilities().tokenizer ? 0 : 2;
  return places(sender) * (1 + most_fillers(offsets, tokens)) + words;
}

std::optional<std::int64_t> position_of(const Sender& sender, const PositionProof& proof) {
  if (!proof.absolute() || sender.form == PromptForm::kChat) return std::nullopt;
  const std::string text = sender.in_front();
  if (sender.form == PromptForm::kTokens) {
    return *proof.offset + (text.empty() ? 0 : std::ssize(sender.ids(text)));
  }
  if (!sender.client->api().capabilities().tokenizer) return std::nullopt;
  std::string why;
  const auto alone = sender.client->tokenize(text, true, why);
  const auto longer = sender.client->tokenize(text + sender.filler + sender.filler, true, why);
  if (!alone || !longer || std::ssize(*longer) != std::ssize(*alone) + 2) return std::nullopt;
  return std::ssize(*alone);
}

}  // namespace kvphase::cli
