// A server that answers a retest: finds filler of one token, proves that filler moves the prompt's
// tokens by one each, keeps within the caps, asks.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "audit/position_check.h"
#include "base/error.h"
#include "cli/endpoint_notes.h"
#include "cli/endpoint_task.h"
#include "cli/retest_sender.h"
#include "cli/retest_target.h"
#include "endpoint/client.h"
#include "endpoint/positions.h"

namespace kvphase::cli {
namespace {

using endpoint::Client;
using endpoint::CompletionRequest;
using endpoint::Outcome;
using endpoint::PositionProof;
using endpoint::PromptForm;

constexpr std::int64_t kAnswerTokens = 256;
constexpr std::int64_t kGiveUpAfter = 20;  // replies in a row of which none came from the model
constexpr const char* kScope = "retest";

// A chat goes as a chat. A text goes as a user's message where the server has chats, as its users
// send it; our own server's models know none.
std::vector<PromptForm> forms_for(const EndpointChoices& choices, const Client& client,
                                  const guard::UserPrompt& prompt) {
  std::vector<PromptForm> forms = prompt_forms(choices, client, false);
  const bool chat = prompt.kind == guard::PromptKind::kChat;
  if (chat) std::erase_if(forms, [](PromptForm form) { return form != PromptForm::kChat; });
  if (forms.empty()) {
    throw base::usage_error(kScope, "expected --form chat for a chat, got {}", choices.form);
  }
  if (!chat && client.info().kind != endpoint::ServerKind::kKvphase) {
    std::ranges::stable_partition(forms, [](PromptForm form) { return form == PromptForm::kChat; });
  }
  return forms;
}

[[noreturn]] void throw_no_proof(const std::string& failed, std::optional<Outcome> outcome,
                                 PromptForm form, const std::string& refused) {
  audit::refuse_stopped();
  if (!refused.empty()) {
    throw base::usage_error(kScope, "expected caps that leave room for the position proof, got {}",
                            refused);
  }
  const bool environment = outcome && endpoint::server_failed(*outcome);
  throw base::Error(
      environment ? base::ErrorKind::kEnvironment : base::ErrorKind::kPhaseControl, kScope,
      fmt::format(
          "expected filler that moves the prompt by one token each (prompts as {}), got: "
          "{}; {}",
          name_of(form), failed,
          environment ? "see what the server says of it" : "try another --filler or --form"));
}

// Tokens of the prompt without filler: the server's count, or an estimate.
std::int64_t prompt_tokens(Client& client, const std::string& text) {
  std::string why;
  if (client.api().capabilities().tokenizer) {
    if (const auto ids = client.tokenize(text, false, why)) return std::ssize(*ids);
  }
  return static_cast<std::int64_t>(text.size() / 3);
}

struct Plan {
  std::int64_t proof = 0;
  std::int64_t first = 0;   // replies of the first look
  std::int64_t most = 0;    // replies in all
  std::int64_t tokens = 0;  // of a prompt
  endpoint::Spent spent;    // at most
};

Plan plan_of(const RetestTarget& target, const Sender& sender, std::int64_t tokens) {
  const std::int64_t k = target.design.agreement.offsets;
  Plan plan{.proof = proof_requests(sender, k, tokens),
            .first = std::ssize(guard::first_trials(target.design)),
            .tokens = tokens};
  plan.most = plan.first + std::ssize(guard::further_trials(target.design));
  plan.spent = {.requests = plan.proof + plan.most,
                .prompt_tokens = (plan.proof + plan.most) * (tokens + k),
                .completion_tokens = plan.proof + plan.most * target.max_tokens};
  return plan;
}

std::string plan_text(const Plan& plan, const RetestTarget& target, const Sender& sender,
                      const EndpointChoices& choices) {
  const endpoint::ServerInfo& info = sender.client->info();
  std::string text = fmt::format("Plan: retest on {} at {} ({}), prompts as {}\n",
                                 info.model.empty() ? "the server's model" : info.model,
                                 info.address, endpoint::name_of(info.kind), name_of(sender.form));
  const auto row = [&](std::string_view what, const std::string& value) {
    text += fmt::format("  {:<18}{}\n", what, value);
  };
  row("offsets", fmt::format("{}: {}", target.design.agreement.offsets,
                             guard::describe(guard::moved_by(sender.prompt))));
  row("replies", fmt::format("{}, up to {} where they differ", plan.first, plan.most));
  row("requests", fmt::format("{} at most without retries ({} of them prove positions)",
                              plan.spent.requests, plan.proof));
  row("prompt tokens",
      fmt::format("{} at most, about {} each", plan.spent.prompt_tokens, plan.tokens));
  row("completion tokens", fmt::format("{} at most", plan.spent.completion_tokens));
  row("money", choices.priced
                   ? fmt::format("{:.4g} at most", endpoint::cost_of(plan.spent, choices.prices))
                   : "unknown; give --price-in and --price-out");
  const std::string broken = endpoint::broken_cap(plan.spent, choices.prices, choices.caps);
  if (!broken.empty()) row("caps", "would be refused: " + broken);
  return text;
}

void check_plan(const Plan& plan, const EndpointChoices& choices, const Client& client,
                std::int64_t max_tokens, std::int64_t offsets) {
  const std::string broken = endpoint::broken_cap(plan.spent, choices.prices, choices.caps);
  if (!broken.empty()) {
    throw base::usage_error(kScope,
                            "expected a plan within the caps, got {}; ask at fewer --offsets or "
                            "raise the cap (--dry-run shows the plan)",
                            broken);
  }
  const std::int64_t context = client.info().context_length;
  const std::int64_t needed = plan.tokens + offsets - 1 + max_tokens;
  if (context > 0 && client.api().capabilities().tokenizer && needed > context) {
    throw base::usage_error(kScope,
                            "expected a prompt and an answer of at most {} tokens (the context of "
                            "{}), got {} ({} + {} of filler + {} of answer); --answer-tokens asks "
                            "for less",
                            context, client.info().address, needed, plan.tokens, offsets - 1,
                            max_tokens);
  }
}

// Empty where the model spoke and it was no answer: what it did then is an answer like another.
guard::Reply reply_of(const endpoint::Reply& reply, const guard::Trial& trial) {
  guard::Reply read{.offset = trial.offset,
                    .repeat = trial.repeat,
                    .answer = reply.text,
                    .cut = reply.finish_reason == "length"};
  switch (reply.outcome) {
    case Outcome::kOk:
    case Outcome::kErrorText:
      break;
    case Outcome::kEmpty:
    case Outcome::kRefused:
    case Outcome::kReasoningOnly:
      read.answer = fmt::format("[{}]", endpoint::name_of(reply.outcome));
      break;
    default:
      read.missing = endpoint::name_of(reply.outcome);
  }
  return read;
}

// `base`: tokens of the prompt without filler as the server counts them.
guard::AskTrials asking(const Sender& sender, std::int64_t offsets,
                        std::optional<std::int64_t> base) {
  return [sender, offsets, base](std::span<const guard::Trial> trials,
                                 const guard::OnReply& on_reply) {
    std::vector<CompletionRequest> requests;
    for (const guard::Trial& trial : trials) {
      const guard::Fillers fillers = guard::fillers_at(sender.prompt, trial.offset, offsets);
      requests.push_back(sender.request(fillers));
      if (base) {
        requests.back().expected_prompt_tokens = *base + fillers.before + fillers.after;
      }
    }
    bool complete = true;
    std::int64_t failed = 0;
    sender.client->complete_all(requests, [&](std::size_t index, const endpoint::Reply& reply) {
      if (reply.outcome == Outcome::kStopped) {
        complete = false;
        return;
      }
      on_reply(reply_of(reply, trials[index]));
      failed = endpoint::server_failed(reply.outcome) ? failed + 1 : 0;
      if (failed < kGiveUpAfter) return;
      throw base::environment_error(
          kScope, "expected replies from {}, got {} failures in a row, the last: {} ({})",
          sender.client->info().address, failed, endpoint::name_of(reply.outcome), reply.detail);
    });
    return complete;
  };
}

std::vector<std::string> late_notes(const Client& client, const EndpointChoices& choices) {
  std::vector<std::string> notes;
  for (const std::string& line : error_lines(client)) notes.push_back("Failures: " + line + ".");
  const endpoint::Spent spent = client.spent();
  notes.push_back(fmt::format(
      "This session sent {} requests with {} prompt tokens ({} of them cached) and got {} "
      "tokens{}.",
      spent.requests, spent.prompt_tokens, spent.cached_tokens, spent.completion_tokens,
      choices.priced ? fmt::format(", for {:.4g}", endpoint::cost_of(spent, choices.prices)) : ""));
  if (spent.cached_tokens > 0) {
    notes.push_back(
        "Some prompts came from the server's cache; warm and cold replies may differ for reasons "
        "of the cache.");
  }
  return notes;
}

record::RunContext context_of(const Client& client, const RetestChoices& choices,
                              const Session& session) {
  record::RunContext context = record::make_context();
  const endpoint::ServerInfo& info = client.info();
  context.command = client.redact(session.command_line);
  context.seed = choices.seed;
  context.model_name = info.model.empty() ? info.address : info.model;
  context.model_kind = "endpoint";
  context.model_config = {{"server", endpoint::name_of(info.kind)},
                          {"server_version", info.version},
                          {"address", info.address},
                          {"context_length", info.context_length}};
  return context;
}

// The server as proven: adds the proof's findings to the target.
void fill_target(RetestTarget& target, const Sender& sender, const PositionProof& proof,
                 const EndpointChoices& choices) {
  const std::int64_t k = target.design.agreement.offsets;
  target.filler = sender.filler;
  target.position = position_of(sender, proof);
  target.positions = fmt::format(
      "Positions ({}): {}.{}", endpoint::name_of(proof.route), proof.note,
      target.position ? "" : " Residues here count from offset 0: right up to one rotation.");
  const endpoint::ServerInfo& info = sender.client->info();
  target.server = {{"kind", endpoint::name_of(info.kind)},
                   {"address", info.address},
                   {"model", info.model},
                   {"form", name_of(sender.form)},
                   {"cold", sender.like.cold},
                   {"stream", sender.like.stream},
                   {"reasoning", choices.reasoning}};
  if (choices.context > 0) target.server["context"] = choices.context;
  if (!choices.extra.empty()) target.server["extra"] = sender.client->redact(choices.extra);
  std::optional<std::int64_t> base = proof.measurements.front().counted;
  if (sender.form == PromptForm::kTokens) {  // its first prompt has filler behind the fact
    const guard::Fillers fillers = guard::fillers_at(sender.prompt, 0, k);
    *base -= fillers.before + fillers.after;
  }
  target.ask = asking(sender, k, base);
}

}  // namespace

RetestTarget open_server_target(const std::string& url, const EndpointChoices& choices,
                                const RetestChoices& retest, const Session& session) {
  const auto client = std::make_shared<Client>(url, client_options(choices, retest.seed));
  const endpoint::ServerInfo& info = client->info();
  for (const std::string& note : info.notes) session.console.warning(note);
  session.console.progress(fmt::format("{}: {} ({}), model {}", info.address,
                                       endpoint::name_of(info.kind), info.evidence,
                                       info.model.empty() ? "unknown" : info.model));
  RetestTarget target;
  const base::Json& card = info.card;
  const bool lookup = card.is_object() && card.contains("language");
  set_design(target, retest, said_stride(info), lookup ? 1 : kAnswerTokens);
  if (choices.answer_tokens > 0) target.max_tokens = choices.answer_tokens;
  const std::int64_t k = target.design.agreement.offsets;
  Sender sender{.client = client,
                .prompt = retest.prompt,
                .like = {.max_tokens = target.max_tokens,
                         .temperature = target.temperature,
                         .stop = retest.stop,
                         .cold = !choices.warm,
                         .stream = choices.stream}};
  std::string text;
  for (const guard::FilledMessage& message : guard::fill(retest.prompt, "", {})) {
    text += message.text();
  }
  const std::int64_t tokens = prompt_tokens(*client, text);
  const std::vector<PromptForm> forms = forms_for(choices, *client, retest.prompt);
  PositionProof why;  // of the failure to report
  PromptForm why_form = forms.front();
  for (std::size_t i = 0;; ++i) {
    sender.form = forms[i];
    const Plan plan = plan_of(target, sender, tokens);
    if (choices.dry_run) {
      target.dry_run = plan_text(plan, target, sender, choices);
      return target;
    }
    check_plan(plan, choices, *client, target.max_tokens, k);
    PositionProof proof;
    sender.filler = find_filler(sender, retest.filler, proof);
    if (!sender.filler.empty()) proof = prove(sender, k, tokens);
    if (!sender.filler.empty() && proof.ok) {
      session.console.progress("positions: " + proof.note);
      fill_target(target, sender, proof, choices);
      break;
    }
    // A form that the server does not have says nothing about one whose counts were wrong.
    const bool refused = proof.failed_outcome && endpoint::server_failed(*proof.failed_outcome);
    if (i == 0 || !refused) {
      why = proof;
      why_form = sender.form;
    }
    const bool stop = proof.failed_outcome && must_stop(*proof.failed_outcome);
    if (i + 1 == forms.size() || stop || !client->spending_refused().empty()) {
      throw_no_proof(why.failed, why.failed_outcome, why_form, client->spending_refused());
    }
    session.console.warning(fmt::format("prompts as {}: {}; trying {}", name_of(sender.form),
                                        proof.failed, name_of(forms[i + 1])));
  }
  if (sender.like.cold && !client->api().capabilities().cold_switch) {
    session.console.warning("requests cannot be kept out of this server's prompt cache: " +
                            client->api().capabilities().cache_note);
  }
  target.context = context_of(*client, retest, session);
  target.late_notes = [client, choices] { return late_notes(*client, choices); };
  target.warn_errors = [client, &session] {
    for (const std::string& line : error_lines(*client)) session.console.warning(line);
  };
  return target;
}

}  // namespace kvphase::cli
