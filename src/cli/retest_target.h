// Who answers a retest: a checkpoint in this process or a server. Opening one finds filler of one
// token and proves where the prompt's tokens stand; nothing is asked that is not needed for that.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/endpoint_options.h"
#include "guard/retest.h"
#include "guard/user_prompt.h"
#include "record/context.h"

namespace kvphase::cli {

struct RetestChoices {
  guard::UserPrompt prompt;
  std::optional<std::int64_t> offsets;  // k; empty: the stride where it is known, else 8
  std::optional<std::int64_t> repeats;  // per offset; empty: as many as decide
  bool always_repeat = false;
  double level = 0.01;
  std::string filler;  // a word; empty: the first of our list that is one token
  std::optional<double> temperature;
  std::vector<std::string> stop;
  std::optional<std::int64_t> max_tokens;
  std::optional<std::int64_t> stride;  // S, where a person says it
  std::uint64_t seed = 1;
};

// Without a target's own knowledge.
inline constexpr std::int64_t kDefaultOffsets = 8;
inline constexpr std::int64_t kMostOffsets = 1024;

struct RetestTarget {
  guard::AskTrials ask;
  guard::RetestDesign design;
  std::int64_t max_tokens = 0;
  double temperature = 0;
  std::string filler;                    // unit
  std::optional<std::int64_t> position;  // of the first moved token at offset 0; empty: unknown
  std::optional<std::int64_t> stride;
  std::string positions;       // how they are known, a sentence
  record::RunContext context;  // who answers
  base::Json server;           // how it is asked, for the manifest; null: a checkpoint
  std::string dry_run;         // what --dry-run has to say; nothing can be asked then
  // Known when all is asked: errors, cost.
  std::function<std::vector<std::string>()> late_notes = [] { return std::vector<std::string>{}; };
  std::function<void()> warn_errors = [] {};
};

RetestTarget open_checkpoint_target(const std::filesystem::path& checkpoint, std::int64_t threads,
                                    const RetestChoices& choices, const Session& session);
// Throws as an audit does: usage error for caps that do not hold the plan, phase-control error
// without a proof of positions, environment error for a server that does not answer.
RetestTarget open_server_target(const std::string& url, const EndpointChoices& server,
                                const RetestChoices& choices, const Session& session);

// What both fill in alike once the stride is known; stride: the model's own.
void set_design(RetestTarget& target, const RetestChoices& choices,
                std::optional<std::int64_t> stride, std::int64_t default_tokens);

}  // namespace kvphase::cli
