// kvphase retest: does one prompt get the same answer wherever its tokens stand?
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "cli/command.h"
#include "cli/retest_target.h"
#include "cli/target.h"
#include "endpoint/reply.h"
#include "guard/retest_findings.h"
#include "guard/retest_journal.h"
#include "report/findings.h"

namespace kvphase::cli {
namespace {

struct RetestArguments {
  std::string model;
  std::string prompt;
  guard::PromptOptions reading;
  guard::NormaliseOptions normalise;
  RetestChoices choices;
  EndpointChoices server;
  std::int64_t seed = 1;
  std::int64_t threads = 0;
  std::string out;
  std::string resume;
  bool json = false;
  std::vector<const CLI::Option*> only_checkpoint;
  std::vector<const CLI::Option*> only_server;
  std::vector<const CLI::Option*> of_audits;  // options of servers that mean nothing here
};

std::filesystem::path folder_of(const RetestArguments& arguments) {
  if (!arguments.out.empty() && !arguments.resume.empty()) {
    throw base::usage_error("retest",
                            "expected --out or --resume, got both; --resume names the folder");
  }
  if (!arguments.resume.empty()) return arguments.resume;
  if (!arguments.out.empty()) return arguments.out;
  const std::string model =
      is_address(arguments.model)
          ? name_of_address(arguments.model)
          : std::filesystem::weakly_canonical(arguments.model).filename().string();
  const std::string prompt =
      arguments.prompt == "-" ? "stdin" : std::filesystem::path(arguments.prompt).stem().string();
  return fmt::format("runs/{}-retest-{}", model, prompt);
}

void check(const RetestArguments& arguments) {
  guard::check_extract(arguments.normalise, "retest");
  if (arguments.server.retry_errors && arguments.resume.empty()) {
    throw base::usage_error("retest", "expected --retry-errors with --resume, got it alone");
  }
  for (const CLI::Option* option : arguments.of_audits) {
    if (option->count() == 0) continue;
    throw base::usage_error("retest", "expected options of a retest, got {}, which is an audit's",
                            option->get_name());
  }
}

base::Json options_json(const RetestArguments& arguments, const RetestChoices& choices,
                        const RetestTarget& target) {
  const guard::RetestDesign& design = target.design;
  return {{"offsets", design.agreement.offsets},
          {"repeats", guard::repeats_of(design)},
          {"always_repeat", design.always_repeat},
          {"level", design.agreement.level},
          {"moves", guard::describe(guard::moved_by(choices.prompt))},
          {"filler", target.filler},
          {"temperature", target.temperature},
          {"max_tokens", target.max_tokens},
          {"stop", choices.stop},
          {"extract", arguments.normalise.extract},
          {"ignore_case", arguments.normalise.ignore_case},
          {"seed", choices.seed}};
}

ExitCode code_of(const guard::Agreement& agreement, double max_missing, const Session& session) {
  if (agreement.verdict == guard::VerdictKind::kDepends) return kRequirementNotMet;
  const auto all = static_cast<double>(agreement.answered + agreement.missing);
  if (static_cast<double>(agreement.missing) > max_missing * all) {
    session.console.warning(
        fmt::format("{} of {} replies are missing, more than --max-missing allows; --resume with "
                    "--retry-errors asks again where the model did not speak",
                    agreement.missing, agreement.missing + agreement.answered));
    return kEnvironment;
  }
  return agreement.verdict == guard::VerdictKind::kAgree ? kSuccess : kInconclusive;
}

RetestTarget open_target(const RetestArguments& arguments, RetestChoices& choices,
                         const Session& session) {
  if (is_address(arguments.model)) {
    refuse_given(arguments.only_checkpoint, kACheckpoint, "retest");
    return open_server_target(arguments.model, arguments.server, choices, session);
  }
  refuse_given(arguments.only_server, kAServer, "retest");
  if (arguments.server.answer_tokens > 0) choices.max_tokens = arguments.server.answer_tokens;
  return open_checkpoint_target(arguments.model, arguments.threads, choices, session);
}

ExitCode run_retest_command(const RetestArguments& arguments, const Session& session) {
  check(arguments);
  const std::filesystem::path folder = folder_of(arguments);
  const bool resume = !arguments.resume.empty();
  RetestChoices choices = arguments.choices;
  choices.seed = static_cast<std::uint64_t>(arguments.seed);
  guard::PromptOptions reading = arguments.reading;
  reading.seed = choices.seed;
  choices.prompt = guard::read_user_prompt(arguments.prompt, reading);
  if (choices.stop.empty()) choices.stop = choices.prompt.stop;
  if (!choices.max_tokens) choices.max_tokens = choices.prompt.max_tokens;
  if (!choices.temperature) choices.temperature = choices.prompt.temperature;
  if (!resume && !arguments.server.dry_run) base::check_new_folder(folder, "retest");

  RetestTarget target = open_target(arguments, choices, session);
  if (!target.dry_run.empty()) {
    session.console.result(target.dry_run);
    return kSuccess;
  }
  target.design.agreement.normalise = arguments.normalise;
  const std::string identity = base::sha256_hex(guard::identity_of(choices.prompt));
  const base::Json options = options_json(arguments, choices, target);
  guard::RetestJournal journal(folder,
                               {{"schema", "kvphase.retest_manifest/1"},
                                {"prompt_sha256", identity},
                                {"options", options},
                                {"model_sha256", target.context.model_sha256},
                                {"server", target.server}},
                               resume, target.design.agreement.offsets);
  if (arguments.server.retry_errors) journal.forget_missing(endpoint::may_ask_again);

  std::int64_t done = std::ssize(journal.known());
  const guard::OnReply keep = [&](const guard::Reply& reply) {
    journal.keep(reply);
    session.console.progress(fmt::format("reply {}: offset {}{}", ++done, reply.offset,
                                         reply.answered() ? "" : ", missing: " + reply.missing));
  };
  const guard::RetestRun run = guard::run_retest(target.design, journal.known(), target.ask, keep);
  target.warn_errors();
  if (!run.complete) {
    session.console.warning(
        fmt::format("stopped; what was answered is kept. Go on with the same options and --resume "
                    "{} in place of --out",
                    folder.string()));
    return kInterrupted;
  }
  guard::RetestSubject subject{
      .prompt_name = arguments.prompt == "-"
                         ? "standard input"
                         : std::filesystem::path(arguments.prompt).filename().string(),
      .moves = guard::moved_by(choices.prompt),
      .expected = choices.prompt.expected,
      .filler = target.filler,
      .position = target.position,
      .stride = target.stride,
      .positions = target.positions,
      .temperature = target.temperature,
      .options = options,
      .notes = target.late_notes()};
  target.context.prompt_set_sha256 = identity;
  const record::Findings findings =
      guard::retest_findings(run, target.design, subject, target.context);
  report::write_findings(folder, findings);
  session.console.result(arguments.json
                             ? report::findings_json(findings)
                             : report::findings_text(findings, session.console.color_on_stdout()));
  session.console.progress(fmt::format("report: {}", (folder / "report.html").string()));
  return code_of(run.agreement, arguments.server.max_missing, session);
}

}  // namespace

void set_design(RetestTarget& target, const RetestChoices& choices,
                std::optional<std::int64_t> stride, std::int64_t default_tokens) {
  if (stride && choices.stride && *stride != *choices.stride) {
    throw base::usage_error("retest",
                            "expected --stride {} (the model's own), got {}; leave it out", *stride,
                            *choices.stride);
  }
  target.stride = stride ? stride : choices.stride;
  const bool usable = target.stride && *target.stride >= 2 && *target.stride <= 64;
  target.design = {
      .agreement = {.offsets = choices.offsets.value_or(usable ? *target.stride : kDefaultOffsets),
                    .level = choices.level,
                    .normalise = {},
                    .seed = choices.seed},
      .repeats = choices.repeats.value_or(0),
      .always_repeat = choices.always_repeat,
      .seed = choices.seed};
  target.max_tokens = choices.max_tokens.value_or(default_tokens);
  target.temperature = choices.temperature.value_or(0);
}

Action add_retest(CLI::App& app) {
  const auto a = std::make_shared<RetestArguments>();
  RetestChoices& c = a->choices;
  app.add_option("model", a->model,
                 "Checkpoint folder of `kvphase train`, or a server: http://HOST:PORT[/v1]")
      ->required();
  app.add_option("prompt", a->prompt,
                 "Text, *.json with a chat or a template, - for stdin; {filler_before} and "
                 "{filler_after} around its fact, or none")
      ->required();
  app.add_option("--fact", a->reading.fact, "The fact's text in the prompt, in place of the slots");
  app.add_option("--item", a->reading.item, "Which item of a template (default 0)");
  app.add_option("-k,--offsets", c.offsets,
                 "Positions to ask at, one token apart (default: the stride where known, else 8)")
      ->check(CLI::Range(std::int64_t{1}, kMostOffsets).description(""));
  app.add_option("--repeats", c.repeats,
                 "Replies per offset once two differ (default: as many as a verdict needs)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}).description(""));
  app.add_flag("--always-repeat", c.always_repeat, "All of them even when the first agree");
  app.add_option("--level", c.level,
                 "Chance to accuse a model that is merely random (default 0.01)")
      ->check(CLI::Range(1e-6, 0.5).description(""));
  app.add_option("--filler", c.filler, "Word to move by; must be one token (default: found)");
  app.add_option("--stride", c.stride, "The model's stride, where it does not say it")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}).description(""));
  app.add_option("--temperature", c.temperature, "Default 0, or what the chat file says")
      ->check(CLI::Range(0.0, 2.0).description(""));
  app.add_option("--stop", c.stop, "Text that ends an answer (repeatable)");
  app.add_option("--extract", a->normalise.extract,
                 "Regular expression: compare only its first match, or the match's first group")
      ->type_name("REGEX");
  app.add_flag("--ignore-case", a->normalise.ignore_case, "A-Z and a-z are the same");
  app.add_option("--seed", a->seed, "Of the order of requests (default 1)")
      ->check(CLI::NonNegativeNumber);
  a->only_checkpoint.push_back(
      app.add_option("--threads", a->threads, "Threads of a checkpoint (default 1)")
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}).description("")));
  app.add_option("-o,--out", a->out, "New folder (default runs/MODEL-retest-PROMPT)");
  app.add_option("--resume", a->resume, "Finish the interrupted retest in this folder");
  app.add_flag("--json", a->json, "The result object on stdout");
  for (const CLI::Option* option : declare_endpoint_options(app, a->server)) {
    const std::string name = option->get_name();
    if (name == "--top-logprobs") {
      a->of_audits.push_back(option);
    } else if (name != "--answer-tokens") {
      a->only_server.push_back(option);
    }
  }
  return [a](const Session& session) { return run_retest_command(*a, session); };
}

}  // namespace kvphase::cli
