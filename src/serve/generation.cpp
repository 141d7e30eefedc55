#include "serve/generation.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace kvphase::serve {
namespace {

// The text `token` adds behind `previous`: nothing but its own where there is none before it.
std::string added_text(lm::LanguageModel& model, std::optional<lm::TokenId> previous,
                       lm::TokenId token) {
  if (previous) {
    const std::string before = model.detokenize(std::array{*previous});
    const std::string both = model.detokenize(std::array{*previous, token});
    if (both.starts_with(before)) return both.substr(before.size());
  }
  return model.detokenize(std::array{token});
}

// How many last bytes of `text` are the beginning of a stop text.
std::size_t held_bytes(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t n = std::min(stop.size() - 1, text.size()); n > longest; --n) {
      if (text.ends_with(std::string_view(stop).substr(0, n))) longest = n;
    }
  }
  return longest;
}

}  // namespace

const char* to_text(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
      return "length";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kAborted:
      return "abort";
  }
  return "abort";
}

std::vector<Piece> StopFilter::push(Piece piece) {
  held_.push_back(std::move(piece));
  std::string text;
  for (const Piece& one : held_) text += one.text;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, text.find(stop));
  stopped_ = first != std::string::npos;
  const std::size_t certain = stopped_ ? first : text.size() - held_bytes(text, stops_);
  std::vector<Piece> released;
  std::size_t begin = 0;
  auto next = held_.begin();
  for (; next != held_.end(); ++next) {
    const std::size_t end = begin + next->text.size();
    if (stopped_ ? begin >= certain : end > certain) break;
    if (end > certain) next->text.resize(certain - begin);
    released.push_back(std::move(*next));
    begin = end;
  }
  held_.erase(held_.begin(), next);
  return released;
}

std::vector<Piece> StopFilter::finish() { return std::exchange(held_, {}); }

GenerationOutcome generate_pieces(lm::LanguageModel& model, const lm::GenerateRequest& request,
                                  const std::vector<std::string>& stops,
                                  const std::function<bool(const Piece&)>& on_piece) {
  GenerationOutcome outcome;
  if (request.max_tokens <= 0) return outcome;
  StopFilter filter(stops);
  bool aborted = false;
  const auto release = [&](const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) aborted = aborted || !on_piece(piece);
  };
  std::optional<lm::TokenId> previous;
  model.generate(request, [&](const lm::GeneratedToken& token) {
    Piece piece{.token = token.token,
                .text = added_text(model, previous, token.token),
                .logprob = token.logprob};
    for (const lm::TokenLogprob& one : token.top) {
      piece.top.push_back({one.token, added_text(model, previous, one.token), one.logprob});
    }
    previous = token.token;
    ++outcome.tokens;
    release(filter.push(std::move(piece)));
    return !aborted && !filter.stopped();
  });
  if (!filter.stopped() && !aborted) release(filter.finish());
  if (aborted) {
    outcome.reason = FinishReason::kAborted;
  } else if (filter.stopped()) {
    outcome.reason = FinishReason::kStop;
  }
  return outcome;
}

}  // namespace kvphase::serve
