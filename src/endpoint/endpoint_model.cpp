#include "endpoint/endpoint_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/random.h"

namespace kvphase::endpoint {
namespace {

// The model spoke a token, even when its text is empty or looks odd: an end-of-text token answers
// nothing, and that is an answer.
bool spoke(const Reply& reply) {
  switch (reply.outcome) {
    case Outcome::kOk:
    case Outcome::kEmpty:
    case Outcome::kReasoningOnly:
    case Outcome::kErrorText:
      return reply.first.has_value() || !reply.generated_ids.empty() ||
             reply.outcome == Outcome::kOk;
    default:
      return false;
  }
}

// `ids`: by id where known, as prompts in ids have the same ids everywhere; else by text where it
// tells tokens apart, as other servers have other ids.
std::vector<lm::NamedLogprob> named(const std::vector<TopToken>& top, bool ids) {
  std::vector<lm::NamedLogprob> all;
  for (const TopToken& token : top) {
    const bool text = token.text_is_exact && !token.text.empty();
    if (!text && !token.id) continue;
    const bool by_id = token.id && (ids || !text);
    all.push_back(
        {.token = by_id ? fmt::format("#{}", *token.id) : token.text, .logprob = token.logprob});
  }
  return all;
}

std::optional<lm::TokenId> spoken_id(const Reply& reply) {
  if (!reply.generated_ids.empty()) return reply.generated_ids.front();
  if (reply.first && reply.first->id) return reply.first->id;
  return std::nullopt;
}

std::optional<std::int64_t> card_number(const base::Json& card, const char* key) {
  if (!card.is_object() || !card.contains(key) || !card[key].is_number_integer()) {
    return std::nullopt;
  }
  return card[key].get<std::int64_t>();
}

}  // namespace

EndpointModel::EndpointModel(std::shared_ptr<Client> client, EndpointModelOptions options)
    : client_(std::move(client)), options_(options) {
  const Capabilities can = client_->api().capabilities();
  const char* lacks = options_.form == PromptForm::kTokens && !can.token_prompts
                          ? "token-id prompts (kvphase serve, vLLM, SGLang, llama.cpp)"
                      : options_.form == PromptForm::kText && !can.text_prompts ? "raw text prompts"
                      : options_.form == PromptForm::kChat && !can.chat         ? "chat messages"
                                                                                : nullptr;
  if (lacks != nullptr) {
    throw base::usage_error("endpoint", "expected a server that takes {}, got {}", lacks,
                            name_of(client_->info().kind));
  }
  std::int64_t most = can.max_top_logprobs;
  for (const char* limit : {"max_logprobs", "vocab_size"}) {  // `kvphase serve` says them
    const auto number = card_number(client_->info().card, limit);
    if (number && *number >= 0) most = std::min(most, *number);
  }
  options_.top_logprobs = options_.top_logprobs < 0 ? most : std::min(options_.top_logprobs, most);
}

lm::ModelIdentity EndpointModel::identity() const {
  const ServerInfo& info = client_->info();
  return {.name = info.model,
          .kind = "endpoint",
          .sha256 = "",
          .config = {{"server", name_of(info.kind)},
                     {"server_version", info.version},
                     {"address", info.address},
                     {"model", info.model},
                     {"context_length", info.context_length}}};
}

lm::ModelTraits EndpointModel::traits() const {
  lm::ModelTraits traits{.context_length = client_->info().context_length};
  const base::Json& card = client_->info().card;
  const auto is = [&](const char* key) {
    return card.is_object() && card.contains(key) && card[key] == true;
  };
  traits.vocab_size = card_number(card, "vocab_size").value_or(0);
  traits.window = card_number(card, "window");
  traits.stride = card_number(card, "stride");
  traits.local_window = card_number(card, "local_window");
  traits.full_attention = is("full_attention");
  traits.staggered_grid = is("staggered_grid");
  return traits;
}

std::vector<lm::TokenId> EndpointModel::tokenize(std::string_view text) {
  std::string why;
  auto tokens = client_->tokenize(text, false, why);
  if (!tokens) throw base::environment_error("endpoint", "expected token ids, got: {}", why);
  return *tokens;
}

std::string EndpointModel::detokenize(std::span<const lm::TokenId> tokens) {
  std::string why;
  auto text = client_->detokenize(tokens, why);
  if (!text) throw base::environment_error("endpoint", "expected text of tokens, got: {}", why);
  return *text;
}

CompletionRequest EndpointModel::make_request(const std::vector<lm::TokenId>& prompt,
                                              std::int64_t top) const {
  CompletionRequest request{.tokens = prompt,
                            .max_tokens = 1,
                            .temperature = 0,
                            .top_logprobs = top,
                            // Brings the generated token's id too, at the cost of the prompt's: for
                            // when no log-probability names it.
                            .return_prompt_ids = top == 0,
                            .cold = options_.cold,
                            .stream = options_.stream};
  if (options_.overhead) {
    request.expected_prompt_tokens = static_cast<std::int64_t>(prompt.size()) + *options_.overhead;
  }
  return request;
}

const std::vector<lm::TokenId>& EndpointModel::ids_of(const std::string& piece) {
  constexpr std::size_t kMostBytes = 64U << 20U;
  if (const auto found = piece_ids_.find(piece); found != piece_ids_.end()) return found->second;
  if (piece_bytes_ + piece.size() > kMostBytes) {
    piece_ids_.clear();
    piece_bytes_ = 0;
  }
  piece_bytes_ += piece.size();
  return piece_ids_.emplace(piece, tokenize(piece)).first->second;
}

CompletionRequest EndpointModel::completion(const lm::AnswerRequest& request, bool shared_only) {
  CompletionRequest asked{.max_tokens = std::max(request.max_tokens, options_.answer_tokens),
                          .temperature = 0,
                          .stop = request.stop,
                          .cold = options_.cold,
                          .stream = options_.stream};
  const std::size_t count = shared_only ? request.shared : request.pieces.size();
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    if (options_.form == PromptForm::kTokens) {
      const std::vector<lm::TokenId>& ids = ids_of(request.pieces[i]);
      asked.tokens.insert(asked.tokens.end(), ids.begin(), ids.end());
    } else {
      text += request.pieces[i];
    }
  }
  if (options_.form == PromptForm::kText) asked.text = std::move(text);
  if (options_.form == PromptForm::kChat) {
    asked.messages = {{.role = "user", .content = std::move(text)}};
  }
  if (shared_only) {
    asked.max_tokens = 1;
    return asked;
  }
  if (!request.candidates.empty() || options_.always_top) {
    asked.top_logprobs = options_.top_logprobs;
  }
  std::optional<std::int64_t> tokens = request.tokens;
  if (options_.form == PromptForm::kTokens) tokens = std::ssize(asked.tokens);
  if (tokens && options_.overhead) asked.expected_prompt_tokens = *tokens + *options_.overhead;
  return asked;
}

bool EndpointModel::is_token(const TopToken& token, lm::TokenId id) {
  if (token.id) return *token.id == id;
  if (!token.text_is_exact) return false;
  auto found = texts_.find(id);
  if (found == texts_.end()) {
    std::string why;
    const std::vector<lm::TokenId> one{id};
    found = texts_.emplace(id, client_->detokenize(one, why).value_or("")).first;
  }
  return !found->second.empty() && found->second == token.text;
}

lm::ScoreReply EndpointModel::score(const Reply& reply, lm::TokenId target) {
  lm::ScoreReply score{.top = -1, .cached_tokens = reply.usage.cached_tokens.value_or(0)};
  if (!spoke(reply)) {
    score.missing = name_of(reply.outcome);
    return score;
  }
  if (const auto id = spoken_id(reply)) {
    score.top = *id;
  } else {
    const TopToken said{.text = reply.first ? reply.first->text : reply.text,
                        .text_is_exact = reply.first ? reply.first->text_is_exact : true};
    if (is_token(said, target)) {
      score.top = target;
    } else {
      score.answer_text = reply.text;
    }
  }
  if (!reply.first) return score;
  score.top_tokens = named(reply.first->top, true);
  std::optional<double> best_other;
  for (const TopToken& token : reply.first->top) {
    if (is_token(token, target)) {
      score.target_logprob = token.logprob;
    } else {
      best_other = std::max(best_other.value_or(token.logprob), token.logprob);
    }
  }
  if (!score.target_logprob && score.top == target) score.target_logprob = reply.first->logprob;
  // The likeliest token counts, the smallest id of equals, whatever was picked among equals.
  const std::vector<TopToken>& top = reply.first->top;
  if (!top.empty() && top.front().id) {
    lm::TokenId best = *top.front().id;
    for (const TopToken& token : top) {
      if (token.id && token.logprob == top.front().logprob) best = std::min(best, *token.id);
    }
    score.top = best;
  }
  if (score.target_logprob && best_other) score.margin = *score.target_logprob - *best_other;
  return score;
}

void EndpointModel::count(const Reply& reply) {
  const std::lock_guard lock(mutex_);
  ++totals_.replies;
  totals_.attempts += reply.attempts;
  if (!spoke(reply)) ++totals_.missing;
  totals_.prompt_tokens += reply.usage.prompt_tokens.value_or(0);
  totals_.completion_tokens += reply.usage.completion_tokens.value_or(0);
  totals_.cached_tokens += reply.usage.cached_tokens.value_or(0);
  if (reply.usage.cached_tokens.value_or(0) > 0) ++totals_.warm_replies;
}

EndpointTotals EndpointModel::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

void EndpointModel::complete(const std::vector<CompletionRequest>& requests,
                             const OnIndex& on_reply) {
  std::string stopped;
  client_->complete_all(requests, [&](std::size_t index, const Reply& reply) {
    // What the user's stop cut off is not missing, it was not asked: the caller resumes there.
    if (reply.outcome == Outcome::kStopped) {
      stopped = reply.detail;
      return;
    }
    count(reply);
    on_reply(index, reply);
    failed_in_a_row_ = server_failed(reply.outcome) ? failed_in_a_row_ + 1 : 0;
    if (failed_in_a_row_ < options_.give_up_after) return;
    throw base::environment_error(
        "endpoint", "expected replies from {}, got {} failures in a row, the last: {} ({})",
        client_->info().address, failed_in_a_row_, name_of(reply.outcome), reply.detail);
  });
  if (!stopped.empty()) {
    throw base::Error(base::ErrorKind::kInterrupted, "endpoint", stopped + "; resume to go on");
  }
}

void EndpointModel::score_each(std::span<const lm::ScoreRequest> requests,
                               const OnScore& on_reply) {
  std::vector<CompletionRequest> asked;
  asked.reserve(requests.size());
  for (const lm::ScoreRequest& request : requests) {
    asked.push_back(make_request(request.prompt, options_.top_logprobs));
  }
  complete(asked, [&](std::size_t index, const Reply& reply) {
    on_reply(index, score(reply, requests[index].target));
  });
}

void EndpointModel::fill_cache(const lm::AnswerRequest& request) {
  const auto shared = std::span(request.pieces).first(request.shared);
  if (options_.cold || shared.empty() || std::ranges::equal(shared, cached_)) return;
  const Reply reply = client_->complete(completion(request, true));
  cached_.assign(shared.begin(), shared.end());
  const std::lock_guard lock(mutex_);
  ++totals_.primers;
  totals_.attempts += reply.attempts;
  totals_.prompt_tokens += reply.usage.prompt_tokens.value_or(0);
  totals_.completion_tokens += reply.usage.completion_tokens.value_or(0);
  totals_.cached_tokens += reply.usage.cached_tokens.value_or(0);
}

lm::AnswerReply EndpointModel::answer(const Reply& reply, const lm::AnswerRequest& request) {
  lm::AnswerReply answer{.text = reply.text,
                         .cut = reply.finish_reason == "length",
                         .cached_tokens = reply.usage.cached_tokens.value_or(0)};
  if (!reply.answered()) answer.missing = name_of(reply.outcome);
  answer.candidate_logprobs.resize(request.candidates.size());
  if (!reply.first) return answer;
  answer.top_tokens = named(reply.first->top, false);
  if (request.candidates.empty()) return answer;
  const auto trimmed = [](std::string_view text) {
    return text.substr(std::min(text.find_first_not_of(' '), text.size()));
  };
  // By text, as the answer may start with or without a blank; a token that starts several
  // candidates tells none of them.
  const auto candidate_of = [&](const TopToken& token) -> std::optional<std::size_t> {
    std::optional<std::size_t> found;
    const std::string_view said = trimmed(token.text);
    if (said.empty() || !token.text_is_exact) return std::nullopt;
    for (std::size_t i = 0; i < request.candidates.size(); ++i) {
      if (!trimmed(request.candidates[i]).starts_with(said)) continue;
      if (found) return std::nullopt;
      found = i;
    }
    return found;
  };
  std::optional<double> best_other;
  for (const TopToken& token : reply.first->top) {  // likeliest first
    const auto candidate = candidate_of(token);
    if (candidate && !answer.candidate_logprobs[*candidate]) {
      answer.candidate_logprobs[*candidate] = token.logprob;
    }
    if (candidate != std::size_t{0} && !best_other) best_other = token.logprob;
  }
  if (answer.candidate_logprobs[0] && best_other) {
    answer.margin = *answer.candidate_logprobs[0] - *best_other;
  }
  return answer;
}

void EndpointModel::answer_each(std::span<const lm::AnswerRequest> requests,
                                const OnAnswer& on_reply) {
  for (std::size_t begin = 0; begin < requests.size();) {
    const auto shared = [&](std::size_t i) {
      return std::span(requests[i].pieces).first(requests[i].shared);
    };
    std::size_t end = begin + 1;
    while (end < requests.size() && std::ranges::equal(shared(begin), shared(end))) ++end;
    fill_cache(requests[begin]);
    std::vector<CompletionRequest> asked;
    for (std::size_t i = begin; i < end; ++i) asked.push_back(completion(requests[i]));
    complete(asked, [&](std::size_t index, const Reply& reply) {
      on_reply(begin + index, answer(reply, requests[begin + index]));
    });
    begin = end;
  }
}

void EndpointModel::generate(const lm::GenerateRequest& request,
                             const std::function<bool(const lm::GeneratedToken&)>& on_token) {
  std::vector<lm::TokenId> prompt = request.prompt;
  for (std::int64_t step = 0; step < request.max_tokens; ++step) {
    CompletionRequest asked = make_request(prompt, std::max<std::int64_t>(1, request.top_logprobs));
    asked.temperature = request.temperature;
    asked.seed = base::derive_seed(request.seed, "generate", {static_cast<std::uint64_t>(step)});
    const Reply reply = client_->complete(asked);
    if (reply.outcome == Outcome::kOverContext && step > 0) return;
    count(reply);
    const auto id = spoke(reply) ? spoken_id(reply) : std::nullopt;
    if (!id || !reply.first || !reply.first->logprob) {
      throw base::environment_error("endpoint",
                                    "expected a token with its log-probability, got: {} {}",
                                    name_of(reply.outcome), reply.detail);
    }
    lm::GeneratedToken token{.token = *id, .logprob = *reply.first->logprob};
    for (const TopToken& rival : reply.first->top) {
      if (rival.id && static_cast<std::int64_t>(token.top.size()) < request.top_logprobs) {
        token.top.push_back({.token = *rival.id, .logprob = rival.logprob});
      }
    }
    if (!on_token(token) || reply.finish_reason == "stop") return;
    prompt.push_back(*id);
  }
}

}  // namespace kvphase::endpoint
