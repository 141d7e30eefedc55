#include "cli/endpoint_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "audit/position_check.h"
#include "base/error.h"
#include "cli/checkpoint_language.h"
#include "task/words.h"

namespace kvphase::cli {
namespace {

using endpoint::Client;
using endpoint::CompletionRequest;
using endpoint::PositionProof;
using endpoint::PromptForm;

constexpr std::int64_t kLookupProof = 3;    // requests: shortest, middle and longest prompt
constexpr std::int64_t kLongPrompt = 4096;  // tokens, from which on fewer fillers are tried
constexpr std::int64_t kFillersOfLong = 2;

bool says_language(const EndpointTaskChoices& choices, const Client& client) {
  const base::Json& card = client.info().card;
  return !choices.language.empty() || (card.is_object() && card.contains("language"));
}

task::LookupLanguage language_of(const EndpointTaskChoices& choices, const Client& client) {
  if (!choices.language.empty()) return trained_language(choices.language);
  if (says_language(choices, client)) {
    return task::lookup_language_from_json(client.info().card["language"],
                                           client.info().address + "/v1/models: kvphase.language");
  }
  throw base::usage_error("audit",
                          "expected the language of the lookup task from {} (kvphase serve says "
                          "it), got none; --language FOLDER names the checkpoint that it serves",
                          client.info().address);
}

// The shortest, a middle and the longest prompt of a sample spread over the plan.
std::vector<task::Prompt> proof_prompts(const task::Task& task) {
  constexpr std::int64_t kSample = 32;
  const std::vector<std::int64_t> residues = task.residues();
  const std::int64_t R = std::ssize(residues);
  const std::int64_t all = task.items() * R;
  const std::int64_t sample = std::min(all, kSample);
  std::vector<task::Prompt> prompts;
  for (std::int64_t i = 0; i < sample; ++i) {
    const std::int64_t at = i * (all - 1) / std::max<std::int64_t>(1, sample - 1);
    prompts.push_back(task.prompt(at / R, residues[static_cast<std::size_t>(at % R)]));
  }
  std::stable_sort(prompts.begin(), prompts.end(),
                   [](const auto& a, const auto& b) { return a.length < b.length; });
  const std::size_t last = prompts.size() - 1;
  std::vector<task::Prompt> chosen;
  for (const std::size_t i : {std::size_t{0}, last / 2, last}) chosen.push_back(prompts[i]);
  return chosen;
}

std::int64_t fillers_to_try(const task::Task& task) {
  return task.longest_prompt() < kLongPrompt ? task.modulus() : kFillersOfLong;
}

// Tokens of a text that follows other text.
std::int64_t count_tokens(Client& client, std::string_view text) {
  std::string why;
  const auto ids = client.tokenize(text, false, why);
  if (!ids) {
    throw base::environment_error("audit", "expected the server to count tokens, got: {}", why);
  }
  return std::ssize(*ids);
}

// The request that ends in a text, to count its tokens.
CompletionRequest counting(PromptForm form, std::string_view text) {
  CompletionRequest request;
  if (form == PromptForm::kChat) {
    request.messages = {{.role = "user", .content = std::string(text)}};
  } else {
    request.text = text;
  }
  return request;
}

// `wanted` of the candidates that are one token each, found through the server.
std::vector<std::string> verified(const std::vector<std::string>& candidates, std::size_t wanted,
                                  const std::string& task, PromptForm form, Client& client) {
  const auto found = endpoint::find_single_token_words(
      client, candidates, wanted, [form](std::string_view text) { return counting(form, text); });
  if (found.failed.empty()) return found.words;
  audit::refuse_stopped();
  if (found.failed_outcome && must_stop(*found.failed_outcome)) {
    throw base::environment_error("audit", "expected the server to count words' tokens, got: {}",
                                  found.failed);
  }
  throw base::Error(base::ErrorKind::kPhaseControl, "audit",
                    fmt::format("expected words of one token each for the filler of {}, got: {}",
                                task, found.failed));
}

// What may become filler of a task: `words` or our own list, less what the task needs anyway.
std::vector<std::string> candidates_for(const task::WordNeed& need,
                                        const std::vector<std::string>& words) {
  const std::set<std::string> required(need.required.begin(), need.required.end());
  const auto own = task::candidate_words();
  std::vector<std::string> candidates =
      words.empty() ? std::vector<std::string>(own.begin(), own.end()) : words;
  std::erase_if(candidates, [&](const std::string& word) { return required.contains(word); });
  return candidates;
}

// Words that are one token each: verified through the server, or assumed where that would cost.
std::vector<std::string> find_words(const EndpointTaskChoices& choices,
                                    const task::TaskSettings& settings, PromptForm form,
                                    Client& client, bool free_only) {
  const task::WordNeed need = task::words_needed(choices.name, settings);
  std::vector<std::string> candidates = candidates_for(need, choices.words);
  if (free_only && !client.api().capabilities().tokenizer) {
    candidates.resize(std::min(candidates.size(), need.wanted));
    return candidates;
  }
  if (!need.required.empty()) {
    verified(need.required, need.required.size(), choices.name, form, client);
  }
  if (need.wanted == 0) return {};
  return verified(candidates, need.wanted, choices.name, form, client);
}

// A tokenizer's count, or an estimate where none is free.
std::int64_t estimate_tokens(Client& client, const std::string& text) {
  if (client.api().capabilities().tokenizer) return count_tokens(client, text);
  return static_cast<std::int64_t>(text.size() / 4);
}

void estimate_constants(EndpointTask& made, Client& client) {
  const task::Prompt prompt = made.task->prompt(0, made.task->residues().front());
  std::string text;
  for (const std::string& piece : prompt.words->pieces) text += piece;
  made.shared_constant = estimate_tokens(client, made.task->preamble());
  made.constant_tokens =
      std::max(made.shared_constant, estimate_tokens(client, text) - prompt.length);
}

EndpointTask make_lookup(const EndpointTaskChoices& choices, const EndpointChoices& how,
                         const Client& client) {
  std::unique_ptr<task::Task> task = std::make_unique<task::LookupTask>(
      lookup_options(choices.task, language_of(choices, client), choices.seed));
  if (choices.mitigation) task = task::mitigate(std::move(task), *choices.mitigation);
  return {.task = std::move(task), .cold = !how.warm, .proof_requests = kLookupProof};
}

// Whether the preamble's tokens end where the filler begins, so that its count is a position.
std::optional<std::int64_t> preamble_tokens(const EndpointTask& made, Client& client) {
  if (!client.api().capabilities().tokenizer || made.form == PromptForm::kChat) return std::nullopt;
  const bool raw = made.form == PromptForm::kText;
  const std::string preamble = made.task->preamble();
  const std::vector<std::string> words = made.task->one_token_words();
  std::string why;
  const auto alone = client.tokenize(preamble, raw, why);
  if (!alone) return std::nullopt;
  if (!raw || words.empty()) return std::ssize(*alone);
  const auto longer = client.tokenize(preamble + " " + words[0] + " " + words[0], true, why);
  if (!longer || std::ssize(*longer) != std::ssize(*alone) + 2) return std::nullopt;
  return std::ssize(*alone);
}

PositionProof prove_ids(const EndpointTask& made, const EndpointChoices& how,
                        const std::shared_ptr<Client>& client, endpoint::EndpointModel& model) {
  std::vector<std::vector<lm::TokenId>> prompts;
  for (const task::Prompt& prompt : proof_prompts(*made.task)) {
    prompts.push_back(made.in_ids ? prompt.request.prompt : model.completion(*prompt.words).tokens);
  }
  CompletionRequest like{.cold = made.cold, .stream = how.stream};
  if (made.in_ids) like.top_logprobs = model.top_logprobs();
  return endpoint::prove_token_prompts(*client, prompts, like);
}

// As prove_ids() for text and chats: each prompt with filler before its last piece, where a cache
// can keep what stands in front.
PositionProof prove_words(const EndpointTask& made, const std::shared_ptr<Client>& client,
                          endpoint::EndpointModel& model) {
  const std::vector<task::Prompt> prompts = proof_prompts(*made.task);
  const std::vector<std::string> words = made.task->one_token_words();
  const std::string filler =
      " " + (made.settings.words.empty() ? words.at(0) : made.settings.words.front());
  const auto with_fillers = [&](std::int64_t item, std::int64_t fillers) {
    lm::AnswerRequest request = *prompts[static_cast<std::size_t>(item)].words;
    std::string padding;
    for (std::int64_t i = 0; i < fillers; ++i) padding += filler;
    const std::ptrdiff_t at = std::max<std::ptrdiff_t>(0, std::ssize(request.pieces) - 1);
    request.pieces.insert(request.pieces.begin() + at, padding);
    request.shared = std::min<std::size_t>(request.shared, static_cast<std::size_t>(at));
    request.tokens.reset();
    return model.completion(request);
  };
  return endpoint::prove_text_prompts(*client, with_fillers, std::ssize(prompts),
                                      fillers_to_try(*made.task));
}

// Tokens that a prompt has beyond what the task counts and the server adds, the same for all;
// empty: they differ.
std::optional<std::int64_t> constant_of(const EndpointTask& made, const PositionProof& proof) {
  std::optional<std::int64_t> constant;
  const std::vector<task::Prompt> prompts = proof_prompts(*made.task);
  for (const endpoint::PositionMeasurement& m : proof.measurements) {
    const std::int64_t here = *m.counted - m.fillers - proof.overhead.value_or(0) -
                              prompts[static_cast<std::size_t>(m.item)].length;
    if (constant && *constant != here) return std::nullopt;
    constant = here;
  }
  return constant;
}

}  // namespace

bool must_stop(endpoint::Outcome outcome) {
  switch (outcome) {
    case endpoint::Outcome::kBadRequest:
    case endpoint::Outcome::kNotFound:
    case endpoint::Outcome::kOtherStatus:
      return false;
    default:
      return endpoint::server_failed(outcome);
  }
}

std::optional<std::int64_t> said_stride(const endpoint::ServerInfo& server) {
  const base::Json& card = server.card;
  if (!card.is_object() || !card.contains("stride") || !card["stride"].is_number_integer()) {
    return std::nullopt;
  }
  return card["stride"].get<std::int64_t>();
}

std::string default_task(const EndpointTaskChoices& choices, const Client& client) {
  if (!choices.name.empty()) return choices.name;
  return says_language(choices, client) ? "lookup" : "records";
}

std::vector<std::string> shared_words(const std::vector<std::string>& urls,
                                      const EndpointTaskChoices& given, const EndpointChoices& how,
                                      std::uint64_t seed) {
  EndpointTaskChoices choices = given;
  for (std::size_t i = 0; i < urls.size(); ++i) {
    Client client(urls[i], client_options(how, seed));
    choices.name = default_task(choices, client);
    if (choices.name == "lookup") return {};
    const task::WordNeed need = task::words_needed(choices.name, task_settings(choices.task, seed));
    if (need.wanted == 0) return {};
    const std::vector<std::string> candidates = candidates_for(need, choices.words);
    // A tenth to spare on all but the last, for words that another server splits.
    const std::size_t wanted =
        i + 1 == urls.size() ? need.wanted
                             : std::min(candidates.size(), need.wanted + 1 + need.wanted / 10);
    const std::vector<PromptForm> forms = prompt_forms(how, client, false);
    for (std::size_t form = 0;; ++form) {
      try {
        choices.words = verified(candidates, wanted, choices.name, forms[form], client);
        break;
      } catch (const base::Error& error) {
        if (error.kind() != base::ErrorKind::kPhaseControl || form + 1 == forms.size()) throw;
      }
    }
  }
  return choices.words;
}

endpoint::EndpointModelOptions model_options(const EndpointTask& made, const EndpointChoices& how) {
  return {.form = made.form,
          .top_logprobs = how.top_logprobs,
          .cold = made.cold,
          .answer_tokens = how.answer_tokens,
          .stream = how.stream};
}

EndpointTask make_endpoint_task(const EndpointTaskChoices& choices, const EndpointChoices& how,
                                PromptForm form, const std::shared_ptr<Client>& client,
                                bool free_only) {
  if (choices.name == "lookup") return make_lookup(choices, how, *client);
  EndpointTask made{.form = form, .in_ids = false};
  made.settings = task_settings(choices.task, choices.seed);
  made.settings.mitigation = choices.mitigation;
  made.settings.words = find_words(choices, made.settings, form, *client, free_only);
  if (client->api().capabilities().tokenizer) {
    made.settings.count_tokens = [client](std::string_view text) {
      return count_tokens(*client, text);
    };
  }
  made.task = task::make_task(choices.name, made.settings);
  const task::CostShape shape = made.task->cost_shape();
  made.cold = how.cold || (!how.warm && (shape.haystacks == 0 || shape.shared_tokens == 0));
  estimate_constants(made, *client);
  made.proof_requests =
      form == PromptForm::kTokens ? kLookupProof : kLookupProof * (1 + fillers_to_try(*made.task));
  if (!client->api().capabilities().tokenizer) {  // a completion per word, and two to compare with
    const task::WordNeed need = task::words_needed(choices.name, made.settings);
    made.proof_requests += static_cast<std::int64_t>(need.wanted + need.required.size()) + 2;
  }
  return made;
}

ProvenPositions prove_positions(EndpointTask& made, const EndpointChoices& how,
                                const std::string& task_name,
                                const std::shared_ptr<Client>& client) {
  endpoint::EndpointModel model(client, model_options(made, how));
  ProvenPositions proven;
  if (made.in_ids || made.form == PromptForm::kTokens) {
    proven.proof = prove_ids(made, how, client, model);
  } else {
    proven.proof = prove_words(made, client, model);
  }
  if (!proven.proof.ok) return proven;
  proven.relative = !proven.proof.absolute();
  proven.offset = proven.proof.offset.value_or(0);
  if (made.in_ids) {
    proven.behind = 0;
    return proven;
  }
  const auto constant = constant_of(made, proven.proof);
  if (constant) {
    made.constant_tokens = *constant;
    if (!made.settings.count_tokens || task_name == "records") {
      made.settings.constant_tokens = *constant;
      made.task = task::make_task(task_name, made.settings);
    }
  }
  const auto in_front = preamble_tokens(made, *client);
  if (in_front && !proven.relative) {
    proven.offset += *in_front;
    if (constant) proven.behind = *constant - *in_front;
  } else if (!proven.relative) {
    proven.relative = true;
    proven.relative_reason = "the tokens of the text in front of the filler are not known";
  }
  return proven;
}

}  // namespace kvphase::cli
