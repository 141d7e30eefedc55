// vLLM, and our own `kvphase serve`, which speaks the same: token-id prompts on /v1/completions,
// token ids in place of texts in log-probabilities, /tokenize and /detokenize.
#include "endpoint/kinds.h"
#include "endpoint/openai_style.h"

namespace kvphase::endpoint {
namespace {

using base::Json;

class Vllm : public OpenAiStyle {
 public:
  using OpenAiStyle::OpenAiStyle;

  Capabilities capabilities() const override {
    return {.token_prompts = true,
            .text_prompts = true,
            .chat = true,
            .tokenizer = true,
            .returned_prompt_ids = true,
            .max_top_logprobs = 1'000'000,  // the server's --max-logprobs decides: 20 unless set
            .ids_in_logprobs = true,
            .cold_switch = true,
            .cache_note = kind_ == ServerKind::kKvphase
                              ? "no cache is kept between requests"
                              : "a fresh cache_salt per request; best started with "
                                "--no-enable-prefix-caching"};
  }

  std::optional<WireRequest> tokenize(std::string_view text, bool add_special) const override {
    Json body = {{"prompt", std::string(text)}, {"add_special_tokens", add_special}};
    if (!settings_.model.empty()) body["model"] = settings_.model;
    return json_request("/tokenize", body);
  }

  std::optional<WireRequest> detokenize(std::span<const lm::TokenId> tokens) const override {
    Json body = {{"tokens", tokens}};
    if (!settings_.model.empty()) body["model"] = settings_.model;
    return json_request("/detokenize", body);
  }

 protected:
  void add_members(Json& body, const CompletionRequest& request) const override {
    if (request.top_logprobs > 0) body["return_tokens_as_token_ids"] = true;
    if (request.return_prompt_ids) body["return_token_ids"] = true;
    if (!request.messages.empty() && settings_.reasoning_off) {
      body["chat_template_kwargs"] = {{"enable_thinking", false}};
    }
    if (kind_ == ServerKind::kVllm && !request.cache_salt.empty()) {
      body["cache_salt"] = request.cache_salt;
    }
  }
};

}  // namespace

std::unique_ptr<ServerApi> make_vllm(ServerKind kind, ServerSettings settings) {
  return std::make_unique<Vllm>(kind, std::move(settings));
}

}  // namespace kvphase::endpoint
