#include "task/prompt_set.h"

#include <span>
#include <string_view>

namespace kvphase::task {
namespace {

template <typename T>
std::string_view bytes_of(std::span<const T> data) {
  return {reinterpret_cast<const char*>(data.data()), data.size_bytes()};
}

}  // namespace

void PromptSetHash::add(const Prompt& prompt) {
  const std::int64_t place[2] = {prompt.item, prompt.residue};
  hash_.update(bytes_of(std::span<const std::int64_t>(place)));
  hash_.update(bytes_of(std::span<const lm::TokenId>(prompt.request.prompt)));
  hash_.update(bytes_of(std::span<const lm::TokenId>(&prompt.request.target, 1)));
  if (!prompt.words) return;
  for (const std::string& piece : prompt.words->pieces) hash_.update(piece);
  hash_.update(prompt.expected);
}

}  // namespace kvphase::task
