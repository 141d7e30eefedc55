// The task of an audit out of what the command line says.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "task/catalog.h"
#include "task/lookup.h"

namespace kvphase::cli {

// What shapes the prompts. Empty: the task's own default, or as the model was trained.
struct TaskChoices {
  std::optional<std::int64_t> modulus;  // R
  std::optional<std::int64_t> items;
  std::optional<std::int64_t> records;
  std::optional<std::int64_t> haystack;
  std::optional<std::int64_t> demonstrations;
  // lookup
  std::string padding;  // of task::padding_names()
  // tasks in words
  std::string pad_at;
  bool every_residue = false;
  std::optional<std::int64_t> key_words;
  std::optional<std::int64_t> per_haystack;
  std::optional<std::string> identifier;
  std::optional<double> depth;
  std::string file;
  std::vector<std::string> candidates;
};

// What the prompts are to go through (task/mitigate.h).
struct MitigationChoices {
  std::string name;  // of task::mitigation_names(); empty: plain
  std::optional<std::int64_t> facts;
  std::optional<std::int64_t> passages;
  std::optional<std::int64_t> passage_tokens;
  std::optional<std::int64_t> votes;
};

void declare_mitigation_options(CLI::App& app, MitigationChoices& choices);

// Empty: plain prompts. `stride`: of the model, where known: as many votes as it has phases. Throws
// a usage error for an option of another mitigation.
std::optional<task::MitigationOptions> mitigation_options(const MitigationChoices& choices,
                                                          std::uint64_t seed,
                                                          std::optional<std::int64_t> stride);

// Options that shape any task, and those of tasks in words only, which are returned.
std::vector<const CLI::Option*> declare_task_options(CLI::App& app, TaskChoices& choices);

// Throws a usage error for a padding that is none.
task::LookupOptions lookup_options(const TaskChoices& choices, const task::LookupLanguage& language,
                                   std::uint64_t seed);

// Of a task in words, without the words themselves. Likewise.
task::TaskSettings task_settings(const TaskChoices& choices, std::uint64_t seed);

}  // namespace kvphase::cli
