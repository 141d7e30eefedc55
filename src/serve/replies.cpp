#include "serve/replies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvphase::serve {
namespace {

using base::Json;

// JSON has no -inf; OpenAI and vLLM write this for "impossible".
constexpr double kImpossible = -9999.0;

double finite(double logprob) { return std::isfinite(logprob) ? logprob : kImpossible; }

std::string shown_token(const TextRequest& request, lm::TokenId token, const std::string& text) {
  return request.return_tokens_as_token_ids ? fmt::format("token_id:{}", token) : text;
}

Json bytes_of(const std::string& text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

// {tokens, token_logprobs, top_logprobs, text_offset}; top_logprobs holds the chosen token too.
Json completion_logprobs(const TextRequest& request, std::span<const Piece> pieces,
                         std::int64_t text_offset) {
  Json tokens = Json::array(), logprobs = Json::array(), tops = Json::array(),
       offsets = Json::array();
  for (const Piece& piece : pieces) {
    tokens.push_back(shown_token(request, piece.token, piece.text));
    logprobs.push_back(finite(piece.logprob));
    Json top = Json::object();
    for (const PieceAlternative& one : piece.top) {
      top.emplace(shown_token(request, one.token, one.text), finite(one.logprob));
    }
    top.emplace(tokens.back().get<std::string>(), finite(piece.logprob));
    tops.push_back(std::move(top));
    offsets.push_back(text_offset);
    text_offset += static_cast<std::int64_t>(piece.text.size());
  }
  return {{"text_offset", std::move(offsets)},
          {"token_logprobs", std::move(logprobs)},
          {"tokens", std::move(tokens)},
          {"top_logprobs", std::move(tops)}};
}

Json chat_logprobs(const TextRequest& request, std::span<const Piece> pieces) {
  const auto entry = [&](lm::TokenId token, const std::string& text, double logprob) {
    return Json{{"token", shown_token(request, token, text)},
                {"logprob", finite(logprob)},
                {"bytes", bytes_of(text)}};
  };
  Json content = Json::array();
  for (const Piece& piece : pieces) {
    Json one = entry(piece.token, piece.text, piece.logprob);
    one["top_logprobs"] = Json::array();
    for (const PieceAlternative& other : piece.top) {
      one["top_logprobs"].push_back(entry(other.token, other.text, other.logprob));
    }
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json logprobs_of(const TextRequest& request, std::span<const Piece> pieces,
                 std::int64_t text_offset) {
  if (!request.top_logprobs) return nullptr;
  if (request.route == Route::kChat) return chat_logprobs(request, pieces);
  return completion_logprobs(request, pieces, text_offset);
}

Json token_ids(std::span<const Piece> pieces) {
  Json ids = Json::array();
  for (const Piece& piece : pieces) ids.push_back(piece.token);
  return ids;
}

Json object(const TextRequest& request, const ReplyHead& head) {
  const bool chat = request.route == Route::kChat;
  const char* chat_kind = request.stream ? "chat.completion.chunk" : "chat.completion";
  return {{"id", head.id},
          {"object", chat ? chat_kind : "text_completion"},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", head.fingerprint.empty() ? Json() : Json(head.fingerprint)}};
}

Json chunk(const TextRequest& request, const ReplyHead& head, Json choices, Json usage) {
  Json reply = object(request, head);
  reply["choices"] = std::move(choices);
  if (request.include_usage) reply["usage"] = std::move(usage);
  return reply;
}

// A streamed choice with `text` as its news.
Json streamed_choice(const TextRequest& request, std::size_t index, Json delta,
                     const std::string& text, Json logprobs, Json reason) {
  Json choice = {{"index", index}};
  if (request.route == Route::kChat) {
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(reason);
  return choice;
}

}  // namespace

Json to_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json whole_reply(const TextRequest& request, const ReplyHead& head, std::span<const Choice> choices,
                 const Usage& usage) {
  Json list = Json::array();
  for (const Choice& choice : choices) {
    std::string text;
    for (const Piece& piece : choice.pieces) text += piece.text;
    Json one = {{"index", list.size()}};
    if (request.route == Route::kChat) {
      one["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
    } else {
      one["text"] = text;
    }
    one["logprobs"] = logprobs_of(request, choice.pieces, 0);
    one["finish_reason"] = to_text(choice.reason);
    if (request.return_token_ids) {
      one["prompt_token_ids"] = choice.prompt;
      one["token_ids"] = token_ids(choice.pieces);
    }
    list.push_back(std::move(one));
  }
  Json reply = object(request, head);
  reply["choices"] = std::move(list);
  reply["usage"] = to_json(usage);
  return reply;
}

Json opening_chunk(const TextRequest& request, const ReplyHead& head, std::size_t index,
                   std::span<const lm::TokenId> prompt) {
  Json choice = streamed_choice(request, index, {{"role", "assistant"}, {"content", ""}}, "",
                                nullptr, nullptr);
  if (request.return_token_ids)
    choice["prompt_token_ids"] = std::vector<lm::TokenId>(prompt.begin(), prompt.end());
  return chunk(request, head, Json::array({std::move(choice)}), nullptr);
}

Json piece_chunk(const TextRequest& request, const ReplyHead& head, std::size_t index,
                 const Piece& piece, std::int64_t text_offset) {
  const std::span<const Piece> one(&piece, 1);
  Json choice = streamed_choice(request, index, {{"content", piece.text}}, piece.text,
                                logprobs_of(request, one, text_offset), nullptr);
  if (request.return_token_ids) choice["token_ids"] = token_ids(one);
  return chunk(request, head, Json::array({std::move(choice)}), nullptr);
}

Json closing_chunk(const TextRequest& request, const ReplyHead& head, std::size_t index,
                   FinishReason reason) {
  Json choice = streamed_choice(request, index, Json::object(), "", nullptr, to_text(reason));
  return chunk(request, head, Json::array({std::move(choice)}), nullptr);
}

Json usage_chunk(const TextRequest& request, const ReplyHead& head, const Usage& usage) {
  return chunk(request, head, Json::array(), to_json(usage));
}

}  // namespace kvphase::serve
