// One prompt's continuation as pieces of text: every new token with the text it adds, ended by
// max_tokens, the context or a stop text. Must not know JSON or HTTP.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lm/language_model.h"

namespace kvphase::serve {

struct PieceAlternative {
  lm::TokenId token = 0;
  std::string text;
  double logprob = 0;  // nats
};

struct Piece {
  lm::TokenId token = 0;
  std::string text;                   // what it adds: the pieces' texts in order are the whole text
  double logprob = 0;                 // before temperature, nats
  std::vector<PieceAlternative> top;  // likeliest first
};

enum class FinishReason { kLength, kStop, kAborted };

const char* to_text(FinishReason reason);  // "length", "stop", "abort"

struct GenerationOutcome {
  FinishReason reason = FinishReason::kLength;
  std::int64_t tokens = 0;  // that the model made, those a stop text cut off included
};

// Holds back the pieces that may be the beginning of a stop text.
class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  std::vector<Piece> push(Piece piece);  // the pieces now certain
  std::vector<Piece> finish();           // those still held, when the text ends without a stop
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::vector<Piece> held_;
  bool stopped_ = false;
};

// Generates and calls on_piece for every certain piece; false from it aborts. The text a token
// adds is what detokenize gives for it behind the token before it.
GenerationOutcome generate_pieces(lm::LanguageModel& model, const lm::GenerateRequest& request,
                                  const std::vector<std::string>& stops,
                                  const std::function<bool(const Piece&)>& on_piece);

}  // namespace kvphase::serve
