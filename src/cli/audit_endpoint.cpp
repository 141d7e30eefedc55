#include "cli/audit_endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "audit/position_check.h"
#include "base/error.h"
#include "cli/endpoint_notes.h"
#include "cli/endpoint_plan.h"
#include "record/journal.h"

namespace kvphase::cli {
namespace {

using endpoint::Client;
using endpoint::PositionProof;
using endpoint::PromptForm;

bool no_answer(const PositionProof& proof) {
  return proof.failed_outcome && endpoint::server_failed(*proof.failed_outcome);
}

[[noreturn]] void throw_unproven(const PositionProof& proof, PromptForm form,
                                 const std::string& stopped) {
  audit::refuse_stopped();
  if (!stopped.empty()) {
    throw base::usage_error("audit", "expected caps that leave room for the position proof, got {}",
                            stopped);
  }
  const bool environment = no_answer(proof);
  const std::string text = fmt::format(
      "expected every token at a known position (prompts as {}, proven by {}), got: {}; {}",
      name_of(form), endpoint::name_of(proof.route), proof.failed,
      environment ? "see what the server says of it"
                  : "try another --form, a longer --context, or no template or gateway in between");
  throw base::Error(environment ? base::ErrorKind::kEnvironment : base::ErrorKind::kPhaseControl,
                    "audit", text);
}

void check_context(const EndpointTask& made, const endpoint::ServerInfo& server,
                   std::int64_t overhead, const EndpointChoices& choices) {
  const std::int64_t answer =
      std::max(made.task->cost_shape().completion_tokens, choices.answer_tokens);
  const std::int64_t prompt = made.task->longest_prompt() + made.constant_tokens;
  const std::int64_t needed = prompt + overhead + answer;
  if (server.context_length == 0 || needed <= server.context_length) return;
  throw base::usage_error(
      "audit",
      "expected prompts and answers of at most {} tokens (the context of {}), got {} ({} + {} "
      "added by the server + {} of answer); ask for a shorter haystack{}",
      server.context_length, server.address, needed, prompt, overhead, answer,
      server.kind == endpoint::ServerKind::kOllama ? " or a longer --context" : "");
}

// How the server is asked, for the manifest: what must be the same when a run goes on.
base::Json server_json(const EndpointTask& made, const ProvenPositions& proven,
                       const EndpointChoices& choices, const Client& client) {
  const endpoint::ServerInfo& info = client.info();
  base::Json json = {
      {"kind", endpoint::name_of(info.kind)},
      {"version", info.version},
      {"address", info.address},
      {"model", info.model},
      {"form", name_of(made.form)},
      {"overhead", proven.proof.overhead ? base::Json(*proven.proof.overhead) : base::Json()},
      {"phases", proven.relative ? "relative" : "absolute"},
      {"cold", made.cold},
      {"top_logprobs", choices.top_logprobs},
      {"answer_tokens", choices.answer_tokens},
      {"stream", choices.stream},
      {"reasoning", choices.reasoning}};
  if (choices.context > 0) json["context"] = choices.context;
  if (!choices.extra.empty()) json["extra"] = client.redact(choices.extra);
  return json;
}

// Prompts that the journal of the run to resume holds.
std::int64_t journalled(const AuditSettings& settings, const EndpointChoices& choices,
                        const task::Task& task) {
  const std::filesystem::path path = settings.out / audit::journal_name(task);
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
  const std::int64_t per_item =
      std::ssize(task.residues()) * std::max<std::int64_t>(1, task.longest_prompt());
  return std::clamp<std::int64_t>(kTokens / per_item, 1, 24);
}

// The first form of the server in which the task's positions are proven.
struct Proven {
  EndpointTask made;
  ProvenPositions positions;
};

// Makes the task in the first of the forms, from `form` on, in which it can be made.
EndpointTask make_in_a_form(std::size_t& form, const std::vector<PromptForm>& forms,
                            const EndpointTaskChoices& task, const EndpointChoices& choices,
                            const std::shared_ptr<Client>& client, const Session& session) {
  for (;; ++form) {
    try {
      return make_endpoint_task(task, choices, forms[form], client, false);
    } catch (const base::Error& error) {
      if (error.kind() != base::ErrorKind::kPhaseControl || form + 1 == forms.size()) throw;
      session.console.warning(fmt::format("prompts as {}: {}; trying {}", name_of(forms[form]),
                                          error.what(), name_of(forms[form + 1])));
    }
  }
}

Proven prove_a_form(EndpointTask made, std::size_t form, const std::vector<PromptForm>& forms,
                    const EndpointTaskChoices& task, const EndpointChoices& choices,
                    const std::shared_ptr<Client>& client, const Session& session) {
  for (;;) {
    check_context(made, client->info(), 0, choices);
    ProvenPositions positions = prove_positions(made, choices, task.name, client);
    if (positions.proof.ok) return {std::move(made), std::move(positions)};
    const bool stop = positions.proof.failed_outcome && must_stop(*positions.proof.failed_outcome);
    if (form + 1 == forms.size() || stop || !client->spending_refused().empty()) {
      throw_unproven(positions.proof, made.form, client->spending_refused());
    }
    session.console.warning(fmt::format("prompts as {}: {}; trying {}", name_of(made.form),
                                        positions.proof.failed, name_of(forms[form + 1])));
    ++form;
    made = make_in_a_form(form, forms, task, choices, client, session);
  }
}

}  // namespace

EndpointOutcome audit_endpoint(const EndpointAudit& audit, const AuditSettings& settings,
                               const Session& session) {
  check_settings(settings);
  mitigation_options(audit.mitigation, settings.seed, {});
  check_resumed_mitigation(settings, audit.mitigation.name);
  const EndpointChoices& choices = audit.choices;
  if (choices.retry_errors && (!settings.resume || settings.sequential)) {
    throw base::usage_error("audit", "expected --retry-errors with --resume {}, got it {}",
                            "of an audit without --sequential",
                            settings.sequential ? "with --sequential" : "alone");
  }
  const auto client = std::make_shared<Client>(audit.url, client_options(choices, settings.seed));
  const endpoint::ServerInfo& info = client->info();
  for (const std::string& note : info.notes) session.console.warning(note);
  session.console.progress(fmt::format("{}: {} ({}), model {}", info.address,
                                       endpoint::name_of(info.kind), info.evidence,
                                       info.model.empty() ? "unknown" : info.model));

  EndpointTaskChoices task_choices = audit.task;
  task_choices.seed = settings.seed;
  task_choices.name = default_task(task_choices, *client);
  const auto said = said_stride(info);
  task_choices.mitigation =
      mitigation_options(audit.mitigation, settings.seed, said ? said : settings.stride);
  const std::vector<PromptForm> forms =
      prompt_forms(choices, *client, task_choices.name == "lookup");
  const auto plan_of = [&](const EndpointTask& made) {
    const lm::ModelTraits traits =
        endpoint::EndpointModel(client, model_options(made, choices)).traits();
    const std::int64_t residues = std::ssize(made.task->residues());
    check_stride(traits, settings, made.task->modulus());
    const auto stride = traits.stride ? traits.stride : settings.stride;
    const double share = settings.sequential && stride && *stride < residues
                             ? static_cast<double>(*stride) / static_cast<double>(residues)
                             : 1;
    return plan_endpoint(made, share, journalled(settings, choices, *made.task), choices);
  };
  // What can be refused for free is refused before words are paid for.
  if (choices.dry_run || !client->api().capabilities().tokenizer) {
    const EndpointTask draft = make_endpoint_task(task_choices, choices, forms[0], client, true);
    const EndpointPlan plan = plan_of(draft);
    audit::require_controlled(audit::check_plan(*draft.task), *draft.task);
    if (choices.dry_run) return {.dry_run = plan_text(plan, draft, choices, info)};
    check_caps(plan, choices);
  }
  std::size_t form = 0;
  EndpointTask first = make_in_a_form(form, forms, task_choices, choices, client, session);
  check_caps(plan_of(first), choices);
  Proven proven =
      prove_a_form(std::move(first), form, forms, task_choices, choices, client, session);
  const EndpointTask& made = proven.made;
  const ProvenPositions& positions = proven.positions;
  session.console.progress("positions: " + positions.proof.note);
  check_context(made, info, positions.proof.overhead.value_or(0), choices);

  endpoint::EndpointModelOptions options = model_options(made, choices);
  options.overhead = positions.proof.overhead;
  options.always_top = audit.keep_top;
  if (!made.in_ids && made.settings.constant_tokens && !options.overhead) options.overhead = 0;
  endpoint::EndpointModel model(client, options);
  if (made.cold && !client->api().capabilities().cold_switch) {
    session.console.warning("requests cannot be kept out of this server's prompt cache: " +
                            client->api().capabilities().cache_note);
  }
  EndpointOutcome outcome;
  const auto annotate = [&](const audit::AuditRun& run, record::Result& result) {
    result.context.command = client->redact(result.context.command);
    add_endpoint_notes(run, positions, *client, choices, result);
    const auto missing = std::ranges::count_if(
        run.observations, [](const record::Observation& o) { return !o.correct; });
    outcome.too_much_missing = static_cast<double>(missing) >
                               choices.max_missing * static_cast<double>(run.observations.size());
  };
  AuditSubject subject{
      .model = model,
      .task = *made.task,
      .threads = choices.concurrency,
      .position_offset = positions.offset,
      .relative = positions.relative,
      .behind = positions.behind,
      .uncounted = made.constant_tokens - positions.offset + positions.proof.overhead.value_or(0),
      .items_at_once = items_at_once(*made.task),
      .sync_each = true,
      .server = server_json(made, positions, choices, *client),
      .ask_again = {},
      .keep_top = audit.keep_top,
      .annotate = annotate,
      .wanted_items = audit.task.task.items};
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
