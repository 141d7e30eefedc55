// The cells of a study: one design trained from one seed and audited under each padding, in a
// folder of its own. What is left to do is read off the folder, so a finished cell is never redone
// and an interrupted one goes on where it stopped. A cell's folder:
//   cell.log        what its commands said; locked by the process that works on the cell
//   model/          the training and its checkpoint (train/training_run.h)
//   prefix/, in-sequence/, around-target/   an audit each, finished when it holds result.json
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "task/lookup.h"

namespace kvphase::cli {

// Seed of the prompts: the same for every cell, so that cells can be compared prompt by prompt.
inline constexpr std::uint64_t kPromptSeed = 1;

// What all cells of a study share; study.json.
struct Study {
  std::string shape = "small";  // of model/presets.h
  std::string recipe = "family";
  std::vector<std::string> sets;  // KEY=VALUE of `kvphase train`
  // Another study whose cells these begin from, a design on staggered grids from its aligned twin;
  // empty: random weights.
  std::string from;
  std::vector<std::string> paddings = task::padding_names();
  std::int64_t items = 576;  // per audit
  std::int64_t modulus = 24;

  bool operator==(const Study&) const = default;
};

base::Json to_json(const Study& study);
Study study_from_json(const base::Json& json, std::string_view scope);

struct Cell {
  std::string design;  // of model::design_names()
  std::uint64_t seed = 42;

  std::string name() const;  // "w8s8-1kv-seed42"
};

// Designs x seeds, seed by seed: the first seed's whole family comes first.
std::vector<Cell> study_cells(const std::vector<std::string>& designs,
                              const std::vector<std::uint64_t>& seeds);

// Part i (1-based) of n: every n-th cell, so that parts are of about the same size.
std::vector<Cell> shard_of(const std::vector<Cell>& cells, std::int64_t i, std::int64_t n);

// "2/8" -> {2, 8}. Throws a usage error unless 1 <= i <= n.
std::pair<std::int64_t, std::int64_t> parse_shard(std::string_view text);

// Listed designs that match one of the patterns ("w8s8-*", '*' for any characters), in their own
// order, and behind them designs by their numbers ("w6s6-4kv", model/presets.h) as they are named.
// No pattern: all. Throws a usage error for a pattern that matches none.
std::vector<std::string> designs_matching(const std::vector<std::string>& patterns);

// The checkpoint that a cell begins from; empty: none.
std::filesystem::path base_of(const Study& study, const Cell& cell);

// Is everything of this cell done?
bool finished(const Study& study, const std::filesystem::path& folder);

// The commands that finish a cell, in order; empty when it is finished. Leftovers of a command
// killed before it wrote anything are removed.
std::vector<std::vector<std::string>> commands_left(const Study& study, const Cell& cell,
                                                    const std::filesystem::path& folder,
                                                    std::int64_t threads,
                                                    const std::string& program);

}  // namespace kvphase::cli
