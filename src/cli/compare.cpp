// kvphase compare URL URL...: the same prompts on several servers. Is a difference noise, hidden
// tokens, a function of position, of length, or there everywhere? With folders in place of
// addresses: finished audits side by side (compare_runs.h).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

#include "audit/comparison.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "cli/audit_endpoint.h"
#include "cli/command.h"
#include "cli/compare_runs.h"
#include "cli/target.h"
#include "endpoint/url.h"
#include "record/journal.h"
#include "report/comparison.h"
#include "task/catalog.h"

namespace kvphase::cli {
namespace {

struct CompareArguments {
  std::vector<std::string> urls;  // or folders
  std::string task;
  std::vector<std::int64_t> lengths;  // haystacks; empty: the task's own
  std::string out;                    // empty: a default
  std::string reference;              // of runs
  bool resume = false;
  bool no_repeat = false;
  bool json = false;
  bool require_same = false;
  std::int64_t seed = 1;
  EndpointAudit endpoint;
};

// One server at one length: an ordinary audit in a folder of its own.
struct Part {
  std::filesystem::path folder;
  std::string url;
  std::size_t server = 0;
  bool again = false;
  std::optional<std::int64_t> haystack;
  std::int64_t items = 0;  // of the task, once known
};

std::vector<Part> parts_of(const CompareArguments& arguments) {
  std::vector<std::optional<std::int64_t>> lengths(arguments.lengths.begin(),
                                                   arguments.lengths.end());
  if (lengths.empty()) lengths.emplace_back();
  std::vector<Part> parts;
  for (const auto& length : lengths) {
    const std::string suffix = length ? fmt::format("-{}", *length) : "";
    const auto add = [&](std::size_t server, bool again) {
      const std::string name =
          fmt::format("{}{}{}", static_cast<char>('a' + server), again ? "-again" : "", suffix);
      parts.push_back({.folder = std::filesystem::path(arguments.out) / name,
                       .url = arguments.urls[server],
                       .server = server,
                       .again = again,
                       .haystack = length});
    };
    add(0, false);
    // Right behind the first, so that what drifts with time shows as noise.
    if (!arguments.no_repeat) add(0, true);
    for (std::size_t server = 1; server < arguments.urls.size(); ++server) add(server, false);
  }
  return parts;
}

// What a part's journal holds, by the residue of the plan: the same prompt has the same one on
// every server, whatever the server puts in front. Items count on from `first_item`.
std::vector<record::Observation> planned_observations(const Part& part, std::int64_t first_item) {
  const std::filesystem::path path = part.folder / "manifest.json";
  const base::Json manifest = base::parse_json(base::read_file(path), path.string());
  const std::int64_t offset = manifest.value("position_offset", std::int64_t{0});
  const std::int64_t R = manifest.at("options").at("modulus").get<std::int64_t>();
  std::map<std::pair<std::int64_t, std::int64_t>, record::Observation> last;  // of asked again
  record::read_journal(part.folder / "journal.jsonl", [&](record::Observation&& o) {
    o.residue = ((o.residue - offset) % R + R) % R;
    o.length -= offset;
    o.item += first_item;
    last[{o.item, o.residue}] = std::move(o);
  });
  std::vector<record::Observation> all;
  for (auto& [key, observation] : last) all.push_back(std::move(observation));
  return all;
}

EndpointAudit audit_of(const Part& part, const CompareArguments& arguments,
                       const std::vector<std::string>& words) {
  EndpointAudit audit = arguments.endpoint;
  audit.url = part.url;
  audit.task.name = arguments.task;
  audit.task.words = words;
  if (part.haystack) audit.task.task.haystack = part.haystack;
  audit.keep_top = true;
  return audit;
}

// The parts' runs, those that are done already left alone. False: stopped.
bool run_parts(std::vector<Part>& parts, const CompareArguments& arguments,
               const std::vector<std::string>& words, const Session& session) {
  for (Part& part : parts) {
    AuditSettings settings{.out = part.folder, .seed = static_cast<std::uint64_t>(arguments.seed)};
    const bool begun = std::filesystem::exists(part.folder / "manifest.json");
    settings.resume = arguments.resume && begun;
    if (part.server > 0 || part.again) {
      settings.control = part.folder.parent_path() /
                         (part.haystack ? fmt::format("a-{}", *part.haystack) : std::string("a"));
    }
    session.console.progress(fmt::format("{}: {}", part.folder.string(), part.url));
    if (std::filesystem::exists(part.folder / "result.json")) {
      part.items = read_result(part.folder).design.items;
      continue;
    }
    const EndpointOutcome outcome =
        audit_endpoint(audit_of(part, arguments, words), settings, session);
    if (!outcome.audit.complete) {
      session.console.warning(fmt::format(
          "stopped{}; what was answered is kept. Go on with the same options and --resume {} in "
          "place of --out",
          outcome.audit.stopped.empty() ? "" : ": " + outcome.audit.stopped, arguments.out));
      return false;
    }
    part.items = outcome.audit.result.design.items;
  }
  return true;
}

record::Comparison compare_server(const std::vector<Part>& parts, std::size_t server,
                                  const CompareArguments& arguments, const Session& session) {
  std::vector<record::Observation> a;
  std::vector<record::Observation> b;
  std::vector<record::Observation> again;
  std::int64_t first_item = 0;  // of the length at hand
  std::optional<std::int64_t> modulus;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    if (i > 0 && part.haystack != parts[i - 1].haystack) first_item += parts[i - 1].items;
    const record::Result result = read_result(part.folder);
    if (modulus && *modulus != result.design.modulus) {
      throw base::usage_error("compare", "expected runs of modulus {} in {}, got {} in {}",
                              *modulus, arguments.out, result.design.modulus, part.folder.string());
    }
    modulus = result.design.modulus;
    auto observations = planned_observations(part, first_item);
    auto& side = part.again ? again : part.server == 0 ? a : b;
    if (part.server != 0 && part.server != server) continue;
    side.insert(side.end(), std::make_move_iterator(observations.begin()),
                std::make_move_iterator(observations.end()));
  }
  record::Comparison comparison = audit::compare(
      a, b, again, {.modulus = *modulus, .seed = static_cast<std::uint64_t>(arguments.seed)});
  comparison.name_a = arguments.urls[0];
  comparison.name_b = arguments.urls[server];
  comparison.context = record::make_context();
  comparison.context.command = session.command_line;
  comparison.context.seed = static_cast<std::uint64_t>(arguments.seed);
  return comparison;
}

ExitCode code_of(const record::Comparison& comparison, bool require_same) {
  if (comparison.kind == record::DifferenceKind::kInconclusive) return kInconclusive;
  if (require_same && comparison.kind != record::DifferenceKind::kNone) return kRequirementNotMet;
  return kSuccess;
}

std::string origin_of(const std::string& url) {
  return endpoint::parse_base_url(url).root.origin();
}

ExitCode run_compare(const CompareArguments& given, const Session& session) {
  CompareArguments arguments = given;
  if (arguments.out.empty()) arguments.out = "runs/compare";
  if (arguments.urls.size() < 2 || arguments.urls.size() > 26) {
    throw base::usage_error("compare", "expected 2 to 26 addresses, got {}", arguments.urls.size());
  }
  // One provider's key is nobody else's.
  if (!arguments.endpoint.choices.api_key_env.empty() &&
      std::ranges::any_of(arguments.urls, [&](const std::string& url) {
        return origin_of(url) != origin_of(arguments.urls[0]);
      })) {
    throw base::usage_error("compare",
                            "expected --api-key-env only for addresses of one origin, got {}; give "
                            "the servers one gateway, or audit each by itself",
                            fmt::join(arguments.urls, " and "));
  }
  if (!arguments.resume && std::filesystem::exists(arguments.out)) {
    throw base::usage_error("compare",
                            "expected a new folder, got {}, which exists; go on with --resume",
                            arguments.out);
  }
  std::sort(arguments.lengths.begin(), arguments.lengths.end());
  std::vector<Part> parts = parts_of(arguments);
  if (arguments.endpoint.choices.dry_run) {
    for (const Part& part : parts) {
      const EndpointOutcome plan = audit_endpoint(
          audit_of(part, arguments, {}),
          {.out = part.folder, .seed = static_cast<std::uint64_t>(arguments.seed)}, session);
      session.console.result(fmt::format("{}\n{}", part.folder.string(), plan.dry_run));
    }
    return kSuccess;
  }
  const std::vector<std::string> words =
      shared_words(arguments.urls, arguments.endpoint.task, arguments.endpoint.choices,
                   static_cast<std::uint64_t>(arguments.seed));
  if (!run_parts(parts, arguments, words, session)) return kInterrupted;

  ExitCode code = kSuccess;
  base::Json all = base::Json::array();
  std::string text;
  for (std::size_t server = 1; server < arguments.urls.size(); ++server) {
    const record::Comparison comparison = compare_server(parts, server, arguments, session);
    code = worse_of(code, code_of(comparison, arguments.require_same));
    all.push_back(record::to_json(comparison));
    text += (text.empty() ? "" : "\n") + report::comparison_text(comparison);
  }
  const std::filesystem::path out = arguments.out;
  base::write_file_atomically(out / "comparison.json", all.dump(2) + "\n");
  base::write_file_atomically(out / "comparison.txt", text);
  session.console.result(arguments.json ? all.dump(2) + "\n" : text);
  session.console.progress(
      fmt::format("curves beside A's: {}", (parts.back().folder / "report.html").string()));
  return code;
}

// Options that mean nothing for what was given.
void refuse(const std::vector<const CLI::Option*>& options, const char* what) {
  for (const CLI::Option* option : options) {
    if (option->count() == 0) continue;
    throw base::usage_error("compare", "expected {} only for {}, got it", option->get_name(), what);
  }
}

ExitCode run_compare_runs(const CompareArguments& arguments, const Session& session) {
  return compare_runs(
      {.folders = arguments.urls,
       .out = arguments.out.empty() ? fmt::format("runs/compare-runs-{}", base::utc_stamp())
                                    : arguments.out,
       .reference = arguments.reference,
       .json = arguments.json,
       .seed = static_cast<std::uint64_t>(arguments.seed)},
      session);
}

}  // namespace

Action add_compare(CLI::App& options) {
  auto arguments = std::make_shared<CompareArguments>();
  options
      .add_option("urls", arguments->urls,
                  "Servers, http://HOST:PORT[/v1]: the first is A, the others are compared with "
                  "it. Or folders of audits (kvphase audit) and studies (kvphase family)")
      ->required()
      ->type_name("URL... | RUN...");
  std::vector<std::string> tasks = task::task_names();
  tasks.insert(tasks.begin(), "lookup");
  options
      .add_option("--task", arguments->task,
                  fmt::format("{} (default: records)", fmt::join(tasks, " | ")))
      ->check(CLI::IsMember(tasks).description(""));
  declare_task_options(options, arguments->endpoint.task.task);
  options
      .add_option("--lengths", arguments->lengths,
                  "Haystack lengths in tokens, each with its own items: finds a length threshold")
      ->type_name("N,N,...")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  CLI::Option* seed =
      options.add_option("--seed", arguments->seed, "Seed of prompts and resampling (default 1)")
          ->check(CLI::NonNegativeNumber);
  options.add_flag("--no-repeat", arguments->no_repeat,
                   "Do not ask A twice: cheaper, but there is no noise floor then");
  options.add_flag("--require-same", arguments->require_same,
                   "Exit code 1 when a difference is found");
  CLI::Option* out = options.add_option("-o,--out", arguments->out,
                                        "New folder for the runs and comparison.json (default "
                                        "runs/compare; of runs: runs/compare-runs-TIME)");
  options
      .add_option_function<std::string>(
          "--resume",
          [arguments = arguments.get()](const std::string& folder) {
            arguments->out = folder;
            arguments->resume = true;
          },
          "Finish the interrupted comparison in this folder")
      ->type_name("TEXT")
      ->excludes(out);
  CLI::Option* json =
      options.add_flag("--json", arguments->json, "The comparisons on stdout, as JSON");
  CLI::Option* reference = options.add_option(
      "--reference", arguments->reference,
      "Of runs: the run or design that the others are tested against on the same prompts (default: "
      "a chunked design's full-attention control, a staggered one's aligned twin)");
  const auto only = declare_endpoint_options(options, arguments->endpoint.choices);
  options
      .add_option("--language", arguments->endpoint.task.language,
                  "Checkpoint folder that says the lookup language, for servers that cannot")
      ->group(only.front()->get_group());
  std::vector<const CLI::Option*> of_servers;
  for (const CLI::Option* option : options.get_options()) {
    if (option->get_positional() || option == options.get_help_ptr() || option == seed ||
        option == out || option == json || option == reference) {
      continue;
    }
    of_servers.push_back(option);
  }
  return [arguments, of_servers, reference](const Session& session) {
    const auto addresses = std::ranges::count_if(arguments->urls, is_address);
    if (addresses != 0 && addresses != std::ssize(arguments->urls)) {
      throw base::usage_error(
          "compare",
          "expected addresses as http://HOST:PORT or folders of runs, got both: "
          "{}; audit the server, then compare its run",
          fmt::join(arguments->urls, " "));
    }
    if (addresses == 0) {
      refuse(of_servers, "servers");
      return run_compare_runs(*arguments, session);
    }
    refuse({reference}, "folders of runs");
    return run_compare(*arguments, session);
  };
}

}  // namespace kvphase::cli
