#include "cli/audit_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace kvphase::cli {
std::vector<const CLI::Option*> declare_task_options(CLI::App& app, TaskChoices& c) {
  app.add_option("--padding", c.padding,
                 "Of lookup: prefix (default): the records move together; in-sequence: each by "
                 "itself; around-target: the target's alone");
  app.add_option("-R,--modulus", c.modulus,
                 "Residues of the target's position (default 24; of tasks in words 8)");
  app.add_option("--items", c.items,
                 "Items, each asked at every residue (default 576; of tasks in words 96 or fewer)");
  app.add_option("--records", c.records, "Records per prompt (default: as trained)");
  app.add_option("--haystack", c.haystack, "Tokens before the question (default: as trained)");
  app.add_option("--demonstrations", c.demonstrations,
                 "Answered questions before the target's (default 8, fewer with few records)");
  std::vector<const CLI::Option*> all;
  const auto add = [&](CLI::Option* option) {
    option->group("Tasks in words");
    all.push_back(option);
    return option;
  };
  add(app.add_option("--pad-at", c.pad_at,
                     fmt::format("Where filler goes: {}", fmt::join(task::pad_at_names(), " | "))));
  add(app.add_flag("--every-residue", c.every_residue, "Also of a modulus over 64"));
  add(app.add_option("--key-words", c.key_words, "Of records: words per key, 1 or 2"));
  add(app.add_option("--per-haystack", c.per_haystack,
                     "Of records: items that share one haystack, and its prefill"));
  add(app.add_option("--identifier", c.identifier, "Of needle: code | path | hex | uuid"));
  add(app.add_option("--depth", c.depth, "Of needle: where it stands in the filler, 0 to 1"))
      ->check(CLI::Range(0.0, 1.0));
  add(app.add_option("--file", c.file, "Of completion and template: the text with its slots"));
  add(app.add_option("--candidate", c.candidates,
                     "Of completion (repeatable): continuations, the right one first"))
      ->allow_extra_args(false);
  return all;
}

void declare_mitigation_options(CLI::App& app, MitigationChoices& c) {
  std::string help = "Prompts as a user may mend them, at the same items and residues:";
  for (const task::MitigationInfo& info : task::mitigations()) {
    help += fmt::format("\n{}: {}", info.name, info.what);
  }
  const auto add = [&](CLI::Option* option) { return option->group("Mitigation"); };
  add(app.add_option("--mitigate", c.name, help))->type_name("NAME");
  add(app.add_option(
      "--key-facts", c.facts,
      "Of restate and list: key facts, the asked one and others drawn (default all)"));
  add(app.add_option("--passages", c.passages, "Of retrieve: how many (default 1, of records 3)"));
  add(app.add_option("--passage-tokens", c.passage_tokens,
                     "Of retrieve: length of each (default 16, of lookup 8)"));
  add(app.add_option("--votes", c.votes,
                     "Of majority: prompts per answer (default the stride, where known, else 4)"));
}

std::optional<task::MitigationOptions> mitigation_options(const MitigationChoices& c,
                                                          std::uint64_t seed,
                                                          std::optional<std::int64_t> stride) {
  using task::Mitigation;
  std::optional<Mitigation> chosen;
  if (!c.name.empty()) chosen = task::mitigation_from_name(c.name);
  const auto only_of = [&](const std::optional<std::int64_t>& given, const char* option,
                           std::initializer_list<Mitigation> of) {
    if (!given || (chosen && std::ranges::find(of, *chosen) != of.end())) return;
    std::vector<std::string_view> names;
    for (const Mitigation mitigation : of) names.push_back(task::info_of(mitigation).name);
    throw base::usage_error("audit", "expected {} only with --mitigate {}, got it with {}", option,
                            fmt::join(names, " or "),
                            chosen ? std::string(task::info_of(*chosen).name) : "plain prompts");
  };
  only_of(c.facts, "--key-facts", {Mitigation::kList, Mitigation::kRestate});
  only_of(c.passages, "--passages", {Mitigation::kRetrieve});
  only_of(c.passage_tokens, "--passage-tokens", {Mitigation::kRetrieve});
  only_of(c.votes, "--votes", {Mitigation::kMajority});
  if (!chosen) return std::nullopt;
  task::MitigationOptions options{.mitigation = *chosen,
                                  .facts = c.facts,
                                  .passages = c.passages,
                                  .passage_tokens = c.passage_tokens,
                                  .seed = seed};
  if (stride && *stride >= 2) options.votes = *stride;
  options.votes = c.votes.value_or(options.votes);
  return options;
}

task::LookupOptions lookup_options(const TaskChoices& choices, const task::LookupLanguage& language,
                                   std::uint64_t seed) {
  task::LookupOptions options{.language = language, .seed = seed};
  if (!choices.padding.empty()) options.padding = task::padding_from_name(choices.padding);
  const std::int64_t haystack = choices.haystack.value_or(language.haystack);
  // The largest that leaves room for equal positions at every residue (LookupTask).
  for (const std::int64_t modulus : {24, 16, 12, 8}) {
    options.modulus = modulus;
    if (3 * modulus - 1 <= haystack) break;
  }
  options.modulus = choices.modulus.value_or(options.modulus);
  options.items = choices.items.value_or(options.items);
  options.language.records = choices.records.value_or(options.language.records);
  options.language.haystack = choices.haystack.value_or(options.language.haystack);
  options.demonstrations = choices.demonstrations.value_or(
      std::min(options.demonstrations, options.language.records - 1));
  return options;
}

task::TaskSettings task_settings(const TaskChoices& c, std::uint64_t seed) {
  if (!c.padding.empty()) {
    throw base::usage_error("audit", "expected --pad-at with a task in words, got --padding {}",
                            c.padding);
  }
  task::TaskSettings settings{.pad_at = {}, .every_residue = c.every_residue, .items = c.items};
  if (!c.pad_at.empty()) settings.pad_at = task::pad_at_from_name(c.pad_at);
  settings.modulus = c.modulus.value_or(settings.modulus);
  settings.haystack = c.haystack;
  settings.seed = seed;
  settings.records = c.records;
  settings.key_words = c.key_words;
  settings.per_haystack = c.per_haystack;
  settings.demonstrations = c.demonstrations;
  settings.identifier = c.identifier;
  settings.depth = c.depth;
  settings.file = c.file;
  settings.candidates = c.candidates;
  return settings;
}

}  // namespace kvphase::cli
