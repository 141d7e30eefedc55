#include "cli/run_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "cli/audit_run.h"
#include "cli/family_cells.h"
#include "model/config.h"
#include "model/presets.h"

namespace kvphase::cli {
namespace {

namespace fs = std::filesystem;
using record::ComparedRun;

// Servers keep 16-bit numbers in their caches; our own engine's are wider, by a factor that all
// designs share.
constexpr std::int64_t kElementBytes = 2;
// Weights larger than this are not read to prove that a checkpoint is the audited one.
constexpr std::uintmax_t kMostHashedBytes = 256U << 20U;

bool has(const fs::path& folder, const char* file) {
  std::error_code absent;
  return fs::exists(folder / file, absent);
}

base::Json read_json(const fs::path& path) {
  return base::parse_json(base::read_file(path), path.string());
}

// "w8s8-1kv-seed42" of a study; empty: another name.
std::optional<Cell> cell_named(const std::string& name) {
  const std::size_t at = name.rfind("-seed");
  if (at == std::string::npos) return std::nullopt;
  const std::string digits = name.substr(at + 5);
  const std::string design = name.substr(0, at);
  if (digits.empty() || digits.size() > 19 ||
      !std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; }) ||
      !model::is_design(design)) {
    return std::nullopt;
  }
  return Cell{.design = design, .seed = std::stoull(digits)};
}

// What a study's models differ in from the recipe's at their shape, training's length aside.
std::string variant_of(const Study& study) {
  constexpr std::string_view kLength[] = {
      "steps=",          "curriculum_steps=", "curriculum_hold=", "first_records=",
      "first_haystack=", "first_batch=",      "warmup_steps=",    "checkpoint_interval="};
  std::vector<std::string> changes;
  if (!study.from.empty()) {
    const fs::path from = fs::path(study.from) / "";
    changes.push_back("after " + from.parent_path().filename().string());
  }
  for (std::string_view set : study.sets) {
    if (std::ranges::any_of(kLength, [&](auto key) { return set.starts_with(key); })) continue;
    constexpr std::string_view kModel = "model.";
    if (set.starts_with(kModel)) set.remove_prefix(kModel.size());
    changes.emplace_back(set);
  }
  return fmt::format("{}", fmt::join(changes, ", "));
}

// The study that a cell's audit belongs to; empty: none.
std::optional<Study> study_around(const fs::path& run) {
  const fs::path file = run.parent_path().parent_path() / "study.json";
  std::error_code absent;
  if (!fs::exists(file, absent)) return std::nullopt;
  return study_from_json(read_json(file), file.string());
}

// The words of a recorded command line, quotes undone.
std::vector<std::string> words_of(const std::string& command) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (command[i] == '\'') {
      quoted = !quoted;
    } else if (!quoted && command[i] == '\\' && i + 1 < command.size()) {
      words.back() += command[++i];
    } else if (!quoted && command[i] == ' ') {
      words.emplace_back();
    } else {
      words.back() += command[i];
    }
  }
  return words;
}

// Is this folder the checkpoint that was audited?
bool is_checkpoint_of(const fs::path& folder, const record::RunContext& context) {
  if (!has(folder, "config.json") || !has(folder, "card.json")) return false;
  if (read_json(folder / "config.json") != context.model_config) return false;
  std::error_code absent;
  const fs::path weights = folder / "model.safetensors";
  const std::uintmax_t size = fs::file_size(weights, absent);
  if (absent) return false;
  return size > kMostHashedBytes ||
         base::sha256_hex(base::read_file(weights)) == context.model_sha256;
}

// Beside the run in a cell, else where the recorded command says; empty: not found.
fs::path checkpoint_of(const fs::path& run, const record::RunContext& context) {
  if (context.model_kind != "checkpoint") return {};
  std::vector<fs::path> places = {run / ".." / "model"};
  for (const std::string& word : words_of(context.command)) places.emplace_back(word);
  for (const fs::path& place : places) {
    if (!place.empty() && is_checkpoint_of(place, context)) return place;
  }
  return {};
}

void add_model(ComparedRun& run) {
  const record::RunContext& context = run.result.context;
  if (run.result.folded && run.result.folded->source != "detected") {
    run.stride = run.result.folded->stride;
  } else if (run.result.other_stride && run.result.other_stride->source != "detected") {
    run.stride = run.result.other_stride->stride;
  }
  if (context.model_config.is_null() || context.model_kind != "checkpoint") {
    run.cache.reason = "the model's configuration is not known";
    return;
  }
  model::ModelConfig config;
  try {
    config = model::config_from_json(context.model_config, "model_config");
  } catch (const base::Error& error) {
    run.cache.reason =
        fmt::format("the recorded configuration is not one of ours: {}", error.what());
    return;
  }
  if (run.design.empty()) run.design = model::design_of(config).value_or("");
  run.control = !model::has_chunked_layer(config);
  if (!run.control) {
    run.window = config.chunk.window;
    run.stride = config.chunk.stride;
  }
  run.parameters = model::parameter_count(config);
  const std::int64_t tokens = config.context_length;
  run.cache.element_bytes = kElementBytes;
  run.cache.tokens = tokens;
  run.cache.bytes_per_token =
      static_cast<double>(kElementBytes * model::cache_size(config, tokens).total()) /
      static_cast<double>(tokens);
}

void add_training(ComparedRun& run, const fs::path& folder) {
  const fs::path checkpoint = checkpoint_of(folder, run.result.context);
  if (checkpoint.empty()) {
    run.training.reason = run.result.context.model_kind == "checkpoint"
                              ? "the audited checkpoint was not found"
                              : "not a checkpoint of kvphase train";
    return;
  }
  const base::Json card = read_json(checkpoint / "card.json");
  const auto integer = [&](const char* key) -> std::optional<std::int64_t> {
    if (!card.contains(key) || !card.at(key).is_number_integer()) return std::nullopt;
    return card.at(key).get<std::int64_t>();
  };
  const auto real = [&](const char* key) -> std::optional<double> {
    if (!card.contains(key) || !card.at(key).is_number()) return std::nullopt;
    return card.at(key).get<double>();
  };
  run.training.steps = integer("steps");
  run.training.tokens = integer("tokens");
  run.training.seconds = real("seconds");
  run.training.loss = real("loss");
  if (card.contains("recipe") && card.at("recipe").is_string()) {
    run.training.recipe = card.at("recipe").get<std::string>();
  }
  if (!run.seed) {
    if (const auto seed = integer("seed"); seed && *seed >= 0) {
      run.seed = static_cast<std::uint64_t>(*seed);
    }
  }
}

class Finder {
 public:
  void add(const std::string& given) {
    const fs::path folder = given;
    if (!fs::is_directory(folder)) {
      throw base::usage_error(
          "compare",
          "expected a run folder of kvphase audit or a study of kvphase "
          "family, got {}, which is {} (a server's address begins with http://)",
          given, fs::exists(folder) ? "no folder" : "not there");
    }
    if (has(folder, "study.json")) return add_study(folder);
    if (has(folder, "result.json")) return add_run(folder);
    if (has(folder, "manifest.json")) {
      throw base::usage_error("compare",
                              "expected a finished audit, got {}, which has no result.json; finish "
                              "it with kvphase audit MODEL --resume {}",
                              given, given);
    }
    std::vector<fs::path> inside;
    if (fs::is_directory(folder / "model")) {
      for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.is_directory() && has(entry.path(), "result.json")) inside.push_back(entry);
      }
    }
    std::ranges::sort(inside);
    for (const fs::path& run : inside) add_run(run);
    if (!inside.empty()) return;
    throw base::usage_error(
        "compare",
        "expected a run folder of kvphase audit (result.json in it) or a study of kvphase family "
        "(study.json in it), got {}{}",
        given,
        has(folder, "model.safetensors") ? ", which is a checkpoint; audit it first"
                                         : ", which has neither");
  }

  FoundRuns finish() {
    // Names that several runs have become their folders.
    std::multiset<std::string> names;
    for (const ComparedRun& run : found_.runs) names.insert(run.name);
    for (ComparedRun& run : found_.runs) {
      if (names.count(run.name) > 1) run.name = run.folder;
    }
    return std::move(found_);
  }

 private:
  void add_study(const fs::path& folder) {
    const Study study =
        study_from_json(read_json(folder / "study.json"), (folder / "study.json").string());
    std::vector<Cell> cells;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.is_directory()) continue;
      if (const auto cell = cell_named(entry.path().filename().string())) cells.push_back(*cell);
    }
    const auto& designs = model::design_names();
    std::ranges::sort(cells, {}, [&](const Cell& cell) {
      return std::pair(cell.seed, std::ranges::find(designs, cell.design) - designs.begin());
    });
    std::size_t finished_audits = 0;
    std::vector<std::string> unfinished;
    for (const Cell& cell : cells) {
      for (const std::string& padding : study.paddings) {
        const fs::path run = folder / cell.name() / padding;
        if (has(run, "result.json")) {
          add_run(run);
          ++finished_audits;
        } else {
          unfinished.push_back(fmt::format("{}/{}", cell.name(), padding));
        }
      }
    }
    if (finished_audits == 0) {
      throw base::usage_error("compare", "expected a study with finished cells, got {} with none",
                              folder.string());
    }
    if (!unfinished.empty()) {
      constexpr std::size_t kShown = 6;
      const std::size_t shown = std::min(kShown, unfinished.size());
      found_.notes.push_back(
          fmt::format("{}: {} of {} audits are unfinished and left out: {}{}", folder.string(),
                      unfinished.size(), unfinished.size() + finished_audits,
                      fmt::join(unfinished.begin(),
                                unfinished.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                      unfinished.size() > shown ? ", ..." : ""));
    }
  }

  void add_run(const fs::path& folder) {
    const fs::path canonical = fs::weakly_canonical(folder);
    if (!seen_.insert(canonical).second) {
      found_.notes.push_back(folder.string() + " was given twice and counts once");
      return;
    }
    ComparedRun run;
    run.folder = folder.string();
    run.result = read_result(folder);
    const std::string own = canonical.filename().string();
    run.name = own;
    if (const auto cell = cell_named(canonical.parent_path().filename().string())) {
      run.design = cell->design;
      run.seed = cell->seed;
      if (const auto study = study_around(canonical)) run.variant = variant_of(*study);
      run.name = fmt::format("{}{}/{}", cell->name(),
                             run.variant.empty() ? "" : " (" + run.variant + ")", own);
    }
    // "prefix + list", unless the folder's name says it already.
    const std::string& mitigation = run.result.design.mitigation;
    if (run.name.find(mitigation.substr(0, mitigation.find(' '))) == std::string::npos) {
      run.name += " + " + mitigation;
    }
    add_model(run);
    add_training(run, canonical);
    found_.runs.push_back(std::move(run));
  }

  FoundRuns found_;
  std::set<fs::path> seen_;
};

}  // namespace

FoundRuns find_runs(const std::vector<std::string>& folders) {
  Finder finder;
  for (const std::string& folder : folders) finder.add(folder);
  return finder.finish();
}

std::int64_t position_offset_of(const fs::path& run_folder) {
  if (!has(run_folder, "manifest.json")) return 0;
  return read_json(run_folder / "manifest.json").value("position_offset", std::int64_t{0});
}

}  // namespace kvphase::cli
