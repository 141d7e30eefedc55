#include "cli/audit_endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"
#include "cli/checkpoint_language.h"
#include "cli/endpoint_notes.h"
#include "cli/endpoint_plan.h"
#include "endpoint/positions.h"
#include "record/journal.h"

namespace kvphase::cli {
namespace {

using endpoint::Client;
using endpoint::PositionProof;
using endpoint::PromptForm;

constexpr std::int64_t kProofPrompts = 3;

// The task to audit with, and what must be known of how it is asked.
struct Prepared {
  std::unique_ptr<task::Task> task;
  PromptForm form = PromptForm::kTokens;
  bool cold = true;
  PositionProof proof;
  std::int64_t position_offset = 0;
};

task::LookupLanguage language_of(const EndpointAudit& audit, const endpoint::ServerInfo& server) {
  if (!audit.language.empty()) return trained_language(audit.language);
  if (server.card.is_object() && server.card.contains("language")) {
    return task::lookup_language_from_json(server.card["language"],
                                           server.address + "/v1/models: kvphase.language");
  }
  throw base::usage_error("audit",
                          "expected the language of the lookup task from {} (kvphase serve says "
                          "it), got none; --language FOLDER names the checkpoint that it serves",
                          server.address);
}

// The shortest, a middle and the longest prompt of a sample spread over the plan.
std::vector<task::Prompt> proof_prompts(const task::Task& task) {
  constexpr std::int64_t kSample = 32;
  std::vector<task::Prompt> prompts;
  const std::int64_t all = task.items() * task.modulus();
  for (std::int64_t i = 0; i < std::min(all, kSample); ++i) {
    const std::int64_t at = i * (all - 1) / std::max<std::int64_t>(1, std::min(all, kSample) - 1);
    prompts.push_back(task.prompt(at / task.modulus(), at % task.modulus()));
  }
  std::stable_sort(prompts.begin(), prompts.end(),
                   [](const auto& a, const auto& b) { return a.length < b.length; });
  const std::size_t last = prompts.size() - 1;
  std::vector<task::Prompt> chosen;
  for (const std::size_t i : {std::size_t{0}, last / 2, last}) chosen.push_back(prompts[i]);
  return chosen;
}

endpoint::EndpointModelOptions model_options(const EndpointChoices& choices, PromptForm form,
                                             bool cold) {
  return {.form = form,
          .top_logprobs = choices.top_logprobs,
          .cold = cold,
          .answer_tokens = choices.answer_tokens,
          .stream = choices.stream};
}

// What the run will ask for beside the prompt, so that its refusal shows in the proof.
endpoint::CompletionRequest like_a_run(const EndpointChoices& choices,
                                       const std::shared_ptr<Client>& client, bool cold) {
  endpoint::CompletionRequest like{.cold = cold, .stream = choices.stream};
  const endpoint::EndpointModel model(client, model_options(choices, PromptForm::kTokens, cold));
  like.top_logprobs = model.top_logprobs();
  return like;
}

[[noreturn]] void throw_unproven(const PositionProof& proof, PromptForm form,
                                 const std::string& stopped) {
  if (!stopped.empty()) {
    throw base::usage_error("audit", "expected caps that leave room for the position proof, got {}",
                            stopped);
  }
  // A server that does not answer has proven nothing about positions.
  const bool environment = proof.failed_outcome && endpoint::server_failed(*proof.failed_outcome);
  const std::string text = fmt::format(
      "expected every token at a known position (prompts as {}, proven by {}), got: {}; {}",
      name_of(form), endpoint::name_of(proof.route), proof.failed,
      environment ? "see what the server says of it"
                  : "try another --form, a longer --context, or no template or gateway in between");
  throw base::Error(environment ? base::ErrorKind::kEnvironment : base::ErrorKind::kPhaseControl,
                    "audit", text);
}

Prepared prepare_lookup(const EndpointAudit& audit, const AuditSettings& settings,
                        const std::shared_ptr<Client>& client) {
  Prepared prepared{.form = prompt_forms(audit.choices, *client, true).front(),
                    .cold = !audit.choices.warm};
  prepared.task = std::make_unique<task::LookupTask>(
      lookup_options(audit.lookup, language_of(audit, client->info()), settings.seed));
  return prepared;
}

void prove_positions(Prepared& prepared, const EndpointChoices& choices,
                     const std::shared_ptr<Client>& client) {
  std::vector<std::vector<lm::TokenId>> prompts;
  for (const task::Prompt& prompt : proof_prompts(*prepared.task)) {
    prompts.push_back(prompt.request.prompt);
  }
  prepared.proof =
      endpoint::prove_token_prompts(*client, prompts, like_a_run(choices, client, prepared.cold));
  if (!prepared.proof.ok) {
    throw_unproven(prepared.proof, prepared.form, client->spending_refused());
  }
  prepared.position_offset = prepared.proof.offset.value_or(0);
}

void check_context(const task::Task& task, const endpoint::ServerInfo& server,
                   std::int64_t overhead, std::int64_t answer) {
  const std::int64_t needed = task.longest_prompt() + overhead + answer;
  if (server.context_length == 0 || needed <= server.context_length) return;
  throw base::usage_error(
      "audit",
      "expected prompts and answers of at most {} tokens (the context of {}), got {} ({} + {} "
      "added by the server + {} of answer); ask for a shorter haystack{}",
      server.context_length, server.address, needed, task.longest_prompt(), overhead, answer,
      server.kind == endpoint::ServerKind::kOllama ? " or a longer --context" : "");
}

// How the server is asked, for the manifest: what must be the same when a run goes on.
base::Json server_json(const Prepared& prepared, const EndpointChoices& choices,
                       const Client& client) {
  const endpoint::ServerInfo& info = client.info();
  base::Json json = {
      {"kind", endpoint::name_of(info.kind)},
      {"version", info.version},
      {"address", info.address},
      {"model", info.model},
      {"form", name_of(prepared.form)},
      {"overhead", prepared.proof.overhead ? base::Json(*prepared.proof.overhead) : base::Json()},
      {"phases", prepared.proof.absolute() ? "absolute" : "relative"},
      {"cold", prepared.cold},
      {"top_logprobs", choices.top_logprobs},
      {"answer_tokens", choices.answer_tokens},
      {"stream", choices.stream},
      {"reasoning", choices.reasoning}};
  if (choices.context > 0) json["context"] = choices.context;
  if (!choices.extra.empty()) json["extra"] = client.redact(choices.extra);
  return json;
}

// Prompts that the journal of the run to resume holds.
std::int64_t journalled(const AuditSettings& settings, const EndpointChoices& choices) {
  const std::filesystem::path path = settings.out / "journal.jsonl";
  if (!settings.resume || !std::filesystem::exists(path)) return 0;
  std::map<std::pair<std::int64_t, std::int64_t>, bool> done;
  record::read_journal(path, [&](record::Observation&& o) {
    done[{o.item, o.residue}] =
        o.correct.has_value() || !choices.retry_errors || !endpoint::may_ask_again(o.reply_class);
  });
  return std::count_if(done.begin(), done.end(), [](const auto& entry) { return entry.second; });
}

// Items per model call: their prompts and bodies are in memory at once.
std::int64_t items_at_once(const task::Task& task) {
  constexpr std::int64_t kTokens = std::int64_t{4} << 20;
  const std::int64_t per_item = task.modulus() * std::max<std::int64_t>(1, task.longest_prompt());
  return std::clamp<std::int64_t>(kTokens / per_item, 1, 24);
}

}  // namespace

EndpointOutcome audit_endpoint(const EndpointAudit& audit, const AuditSettings& settings,
                               const Session& session) {
  check_settings(settings);
  const EndpointChoices& choices = audit.choices;
  if (choices.retry_errors && (!settings.resume || settings.sequential)) {
    throw base::usage_error("audit", "expected --retry-errors with --resume {}, got it {}",
                            "of an audit without --sequential",
                            settings.sequential ? "with --sequential" : "alone");
  }
  const auto client = std::make_shared<Client>(audit.url, client_options(choices, settings.seed));
  for (const std::string& note : client->info().notes) session.console.warning(note);
  session.console.progress(fmt::format(
      "{}: {} ({}), model {}", client->info().address, endpoint::name_of(client->info().kind),
      client->info().evidence, client->info().model.empty() ? "unknown" : client->info().model));

  Prepared prepared = prepare_lookup(audit, settings, client);
  const task::Task& task = *prepared.task;
  lm::ModelTraits traits;
  {
    const endpoint::EndpointModel model(client,
                                        model_options(choices, prepared.form, prepared.cold));
    traits = model.traits();
  }
  check_stride(traits, settings, task.modulus());
  const auto stride = traits.stride ? traits.stride : settings.stride;
  const double share = settings.sequential && stride
                           ? static_cast<double>(*stride) / static_cast<double>(task.modulus())
                           : 1;
  const EndpointPlan plan = plan_endpoint(task, prepared.cold, share, journalled(settings, choices),
                                          kProofPrompts, choices);
  if (choices.dry_run) {
    return {.dry_run = plan_text(plan, choices, client->info(), task, name_of(prepared.form),
                                 prepared.cold)};
  }
  check_caps(plan, choices);
  check_context(task, client->info(), 0, std::max<std::int64_t>(1, choices.answer_tokens));
  prove_positions(prepared, choices, client);
  session.console.progress("positions: " + prepared.proof.note);
  check_context(task, client->info(), prepared.proof.overhead.value_or(0),
                std::max<std::int64_t>(1, choices.answer_tokens));

  endpoint::EndpointModelOptions options = model_options(choices, prepared.form, prepared.cold);
  options.overhead = prepared.proof.overhead;
  endpoint::EndpointModel model(client, options);
  if (prepared.cold && !client->api().capabilities().cold_switch) {
    session.console.warning("requests cannot be kept out of this server's prompt cache: " +
                            client->api().capabilities().cache_note);
  }
  EndpointOutcome outcome;
  const auto annotate = [&](const audit::AuditRun& run, record::Result& result) {
    result.context.command = client->redact(result.context.command);
    add_endpoint_notes(run, prepared.proof, *client, choices, result);
    outcome.too_much_missing =
        static_cast<double>(result.design.missing) >
        choices.max_missing * static_cast<double>(result.design.observations);
  };
  AuditSubject subject{.model = model,
                       .task = task,
                       .threads = choices.concurrency,
                       .position_offset = prepared.position_offset,
                       .relative = !prepared.proof.absolute(),
                       .items_at_once = items_at_once(task),
                       .sync_each = true,
                       .server = server_json(prepared, choices, *client),
                       .ask_again = {},
                       .annotate = annotate};
  if (choices.retry_errors) subject.ask_again = endpoint::may_ask_again;
  try {
    outcome.audit = run_and_report(subject, settings, session);
  } catch (...) {
    for (const std::string& line : error_lines(*client)) session.console.warning(line);
    throw;
  }
  for (const std::string& line : error_lines(*client)) session.console.warning(line);
  return outcome;
}

}  // namespace kvphase::cli
