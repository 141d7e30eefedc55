// The context block that every record carries: what ran, on what, with which seeds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace kvphase::record {

struct RunContext {
  std::string version;  // of kvphase
  std::string commit;   // of its source, "unknown" outside a checkout
  std::string build;    // compiler and build type
  std::string command;  // the command line that repeats the run
  std::string started;  // UTC
  std::string host;     // processor name and core count
  std::int64_t threads = 0;
  std::uint64_t seed = 0;
  std::string model_name;
  std::string model_kind;         // "checkpoint" | "endpoint" | "data"
  std::string model_sha256;       // empty: weights not seen
  base::Json model_config;        // null: unknown
  std::string prompt_set_sha256;  // over every prompt in plan order; empty: prompts not seen
  std::vector<std::string> warnings;
};

// Fills version, commit, build, started and host of this process.
RunContext make_context();

base::Json to_json(const RunContext& context);
RunContext context_from_json(const base::Json& json, std::string_view scope);

}  // namespace kvphase::record
