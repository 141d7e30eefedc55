#include "serve/api_error.h"

#include <fmt/format.h>

#include <utility>

namespace kvphase::serve {
namespace {

constexpr std::size_t kShownCharacters = 60;

base::Json text_or_null(const std::string& text) {
  if (text.empty()) return nullptr;
  return text;
}

}  // namespace

ApiError::ApiError(int status, std::string type, std::string message, std::string param,
                   std::string code)
    : std::runtime_error(std::move(message)),
      status_(status),
      type_(std::move(type)),
      param_(std::move(param)),
      code_(std::move(code)) {}

base::Json ApiError::envelope() const {
  base::Json error = {{"message", what()},
                      {"type", type_},
                      {"param", text_or_null(param_)},
                      {"code", text_or_null(code_)}};
  if (extra.is_object()) error.update(extra);
  return {{"error", std::move(error)}};
}

ApiError invalid_request(std::string message, std::string param, std::string code) {
  return {400, "invalid_request_error", std::move(message), std::move(param), std::move(code)};
}

ApiError context_exceeded(std::int64_t prompt_tokens, std::int64_t context_length) {
  ApiError error = invalid_request(
      fmt::format("This model's maximum context length is {} tokens, but the prompt has {} tokens; "
                  "shorten the prompt",
                  context_length, prompt_tokens),
      "prompt", "context_length_exceeded");
  error.extra = {{"n_prompt_tokens", prompt_tokens}, {"n_ctx", context_length}};
  return error;
}

std::string dump(const base::Json& json) {
  return json.dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

std::string shown(const base::Json& value) {
  std::string text = value.dump(-1, ' ', true, base::Json::error_handler_t::replace);
  if (text.size() > kShownCharacters) text = text.substr(0, kShownCharacters) + "...";
  return text;
}

}  // namespace kvphase::serve
