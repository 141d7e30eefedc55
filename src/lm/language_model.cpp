#include "lm/language_model.h"

#include "base/error.h"

namespace kvphase::lm {

void LanguageModel::answer_each(std::span<const AnswerRequest>, const OnAnswer&) {
  throw base::usage_error("model",
                          "expected a model with a tokenizer of its own for a task in words, got "
                          "{}, which reads token ids; use --task lookup",
                          identity().name);
}

}  // namespace kvphase::lm
