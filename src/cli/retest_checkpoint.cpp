// A checkpoint that answers a retest: every version of the prompt in ids, so that positions are
// what is sent.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "base/stop.h"
#include "cli/checkpoint_language.h"
#include "cli/lab_api.h"
#include "cli/retest_target.h"
#include "lm/byte_tokens.h"

namespace kvphase::cli {
namespace {

using lm::TokenId;

constexpr std::int64_t kAnswerTokens = 32;

// Each piece by itself, so that the moved one begins at a token of its own.
std::vector<TokenId> tokens_of(lm::LanguageModel& model, const guard::UserPrompt& prompt,
                               const std::string& filler, const guard::Fillers& fillers) {
  std::vector<TokenId> tokens;
  for (const guard::FilledMessage& message : guard::fill(prompt, filler, fillers)) {
    for (const std::string& piece : message.pieces) {
      const std::vector<TokenId> part = model.tokenize(piece);
      tokens.insert(tokens.end(), part.begin(), part.end());
    }
  }
  return tokens;
}

guard::Reply answer(lm::LanguageModel& model, const lm::GenerateRequest& request, bool bytes,
                    const std::vector<std::string>& stop, const guard::Trial& trial) {
  std::vector<TokenId> tokens;
  guard::Reply reply{.offset = trial.offset, .repeat = trial.repeat, .cut = true};
  model.generate(request, [&](const lm::GeneratedToken& next) {
    if (bytes && next.token == lm::kDocumentEnd) {
      reply.cut = false;
      return false;
    }
    tokens.push_back(next.token);
    reply.answer = model.detokenize(tokens);
    for (const std::string& end : stop) {
      const std::size_t at = reply.answer.find(end);
      if (at == std::string::npos) continue;
      reply.answer.resize(at);
      reply.cut = false;
      return false;
    }
    return true;
  });
  return reply;
}

// Lookup models answer with one token: its limit cuts nothing off.
bool answers_in_one_token(const std::filesystem::path& checkpoint) {
  return !language_of_card(checkpoint).is_null();
}

std::string filler_of(lm::LanguageModel& model, bool bytes, const std::string& wanted) {
  const std::string unit =
      bytes ? (wanted.empty() ? " " : wanted) : fmt::format(" {}", wanted.empty() ? "f0" : wanted);
  const auto tokens = std::ssize(model.tokenize(unit));
  if (tokens != 1) {
    throw base::usage_error("retest", "expected a --filler of one token, got '{}' of {}", wanted,
                            tokens);
  }
  return unit;
}

}  // namespace

RetestTarget open_checkpoint_target(const std::filesystem::path& checkpoint, std::int64_t threads,
                                    const RetestChoices& choices, const Session& session) {
  if (!std::filesystem::is_directory(checkpoint)) {
    throw base::usage_error("retest",
                            "expected a checkpoint folder of `kvphase train` or a server's address "
                            "(http://HOST:PORT), got {}",
                            checkpoint.string());
  }
  if (choices.prompt.kind == guard::PromptKind::kChat) {
    throw base::usage_error("retest",
                            "expected a text or a template for a checkpoint, which has no chat "
                            "template, got a chat");
  }
  const std::shared_ptr<lm::LanguageModel> model =
      load_lab().open_checkpoint(checkpoint, threads > 0 ? threads : 1);
  const lm::ModelTraits traits = model->traits();
  const bool bytes = traits.vocab_size == lm::kByteVocabulary;
  const bool one_token = answers_in_one_token(checkpoint);
  RetestTarget target;
  set_design(target, choices, traits.stride, one_token ? 1 : kAnswerTokens);
  target.filler = filler_of(*model, bytes, choices.filler);
  const guard::UserPrompt prompt = choices.prompt;
  // Without filler, up to the piece that moves.
  std::int64_t in_front = 0;
  if (guard::moved_by(prompt) != guard::Moves::kEverything) {
    const auto pieces = guard::fill(prompt, target.filler, {.before = 1})[0].pieces;
    for (const std::string& piece : pieces) {
      if (piece == target.filler) break;
      in_front += std::ssize(model->tokenize(piece));
    }
  }
  target.position = in_front;
  // What cannot be read or is too long is refused before a folder is made.
  const std::int64_t k = target.design.agreement.offsets;
  const auto longest =
      std::ssize(tokens_of(*model, prompt, target.filler, guard::fillers_at(prompt, k - 1, k)));
  if (traits.context_length > 0 && longest > traits.context_length) {
    throw base::usage_error("retest",
                            "expected a prompt of at most {} tokens with its filler (the model's "
                            "context), got {}",
                            traits.context_length, longest);
  }
  target.positions = "Prompts are sent as token ids: positions are exact.";
  target.context = record::make_context();
  target.context.command = session.command_line;
  target.context.seed = choices.seed;
  target.context.threads = threads > 0 ? threads : 1;
  const lm::ModelIdentity identity = model->identity();
  target.context.model_name = identity.name;
  target.context.model_kind = identity.kind;
  target.context.model_sha256 = identity.sha256;
  target.context.model_config = identity.config;
  target.ask = [=, stop = choices.stop, filler = target.filler, offsets = k,
                temperature = target.temperature, max_tokens = target.max_tokens,
                seed = choices.seed](std::span<const guard::Trial> trials,
                                     const guard::OnReply& on_reply) {
    for (const guard::Trial& trial : trials) {
      if (base::stop_requested()) return false;
      lm::GenerateRequest request{
          .prompt =
              tokens_of(*model, prompt, filler, guard::fillers_at(prompt, trial.offset, offsets)),
          .max_tokens = max_tokens,
          .temperature = temperature,
          .seed = base::derive_seed(seed, "retest answer",
                                    {static_cast<std::uint64_t>(trial.offset),
                                     static_cast<std::uint64_t>(trial.repeat)})};
      guard::Reply reply = answer(*model, request, bytes, stop, trial);
      reply.cut = reply.cut && !one_token;
      on_reply(reply);
    }
    return true;
  };
  return target;
}

}  // namespace kvphase::cli
