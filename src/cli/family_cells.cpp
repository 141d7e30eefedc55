#include "cli/family_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/nearest.h"
#include "model/presets.h"
#include "record/run_comparison.h"

namespace kvphase::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStudySchema = "kvphase.study/1";

bool matches(std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() == '*') {
    return matches(text, pattern.substr(1)) || (!text.empty() && matches(text.substr(1), pattern));
  }
  return !text.empty() && text.front() == pattern.front() &&
         matches(text.substr(1), pattern.substr(1));
}

bool is_there(const fs::path& path) {
  std::error_code absent;
  return fs::exists(path, absent);
}

// A folder is begun once it holds the file that its command writes first.
bool begun(const fs::path& folder, const char* first_file) {
  if (is_there(folder / first_file)) return true;
  std::error_code ignored;
  if (fs::is_empty(folder, ignored) && !ignored) fs::remove(folder, ignored);
  return false;
}

}  // namespace

base::Json to_json(const Study& study) {
  base::Json json = {{"schema", kStudySchema},
                     {"shape", study.shape},
                     {"recipe", study.recipe},
                     {"sets", study.sets}};
  if (!study.from.empty()) json["from"] = study.from;
  json["paddings"] = study.paddings;
  json["items"] = study.items;
  json["modulus"] = study.modulus;
  return json;
}

Study study_from_json(const base::Json& json, std::string_view scope) {
  base::ObjectReader reader(json, std::string(scope));
  if (const std::string schema = reader.text("schema"); schema != kStudySchema) {
    throw base::usage_error(scope, "expected schema {}, got {}", kStudySchema, schema);
  }
  Study study;
  study.shape = reader.text("shape");
  study.recipe = reader.text("recipe");
  study.sets = reader.texts("sets");
  study.from = reader.text("from", "");
  study.paddings = reader.texts("paddings");
  study.items = reader.integer("items");
  study.modulus = reader.integer("modulus");
  reader.finish();
  return study;
}

std::string Cell::name() const { return fmt::format("{}-seed{}", design, seed); }

std::vector<Cell> study_cells(const std::vector<std::string>& designs,
                              const std::vector<std::uint64_t>& seeds) {
  std::vector<Cell> cells;
  for (const std::uint64_t seed : seeds) {
    for (const std::string& design : designs) cells.push_back({.design = design, .seed = seed});
  }
  return cells;
}

std::vector<Cell> shard_of(const std::vector<Cell>& cells, std::int64_t i, std::int64_t n) {
  std::vector<Cell> part;
  for (auto at = static_cast<std::size_t>(i - 1); at < cells.size();
       at += static_cast<std::size_t>(n)) {
    part.push_back(cells[at]);
  }
  return part;
}

std::pair<std::int64_t, std::int64_t> parse_shard(std::string_view text) {
  std::int64_t i = 0;
  std::int64_t n = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, i);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == '/') {
    const auto second = std::from_chars(first.ptr + 1, end, n);
    if (second.ec == std::errc() && second.ptr == end && i >= 1 && i <= n) return {i, n};
  }
  throw base::usage_error("family", "expected --shard i/n with 1 <= i <= n, got '{}'", text);
}

std::vector<std::string> designs_matching(const std::vector<std::string>& patterns) {
  std::vector<std::string> all = model::design_names();
  if (patterns.empty()) return all;
  for (const std::string& pattern : patterns) {
    const bool listed = std::ranges::find(all, pattern) != all.end();
    if (!listed && model::is_design(pattern)) all.push_back(pattern);
    if (std::ranges::any_of(all, [&](const auto& name) { return matches(name, pattern); }))
      continue;
    throw base::usage_error("family",
                            "expected --only to name designs, got '{}'; did you mean '{}'? (--list "
                            "shows all)",
                            pattern, base::nearest_name(pattern, all));
  }
  std::vector<std::string> chosen;
  for (const std::string& name : all) {
    if (std::ranges::any_of(patterns, [&](const auto& p) { return matches(name, p); })) {
      chosen.push_back(name);
    }
  }
  return chosen;
}

fs::path base_of(const Study& study, const Cell& cell) {
  if (study.from.empty()) return {};
  Cell base = cell;
  if (base.design.ends_with(record::kStaggeredSuffix)) {
    base.design.resize(base.design.size() - record::kStaggeredSuffix.size());
  }
  return fs::path(study.from) / base.name() / "model";
}

bool finished(const Study& study, const fs::path& folder) {
  return std::ranges::all_of(study.paddings, [&](const std::string& padding) {
    return is_there(folder / padding / "result.json");
  });
}

std::vector<std::vector<std::string>> commands_left(const Study& study, const Cell& cell,
                                                    const fs::path& folder, std::int64_t threads,
                                                    const std::string& program) {
  std::vector<std::vector<std::string>> commands;
  const fs::path checkpoint = folder / "model";
  const std::string count = fmt::to_string(threads);
  if (begun(checkpoint, "train.json")) {
    // Written last: without it the training goes on.
    if (!is_there(checkpoint / "model.safetensors")) {
      commands.push_back({program, "train", "--resume", checkpoint.string()});
    }
  } else {
    std::vector<std::string> train = {program,     "train",
                                      "--recipe",  study.recipe,
                                      "--model",   study.shape + "/" + cell.design,
                                      "--out",     checkpoint.string(),
                                      "--seed",    fmt::to_string(cell.seed),
                                      "--threads", count};
    if (const fs::path base = base_of(study, cell); !base.empty()) {
      train.insert(train.end(), {"--from", base.string()});
    }
    for (const std::string& set : study.sets) train.insert(train.end(), {"--set", set});
    commands.push_back(std::move(train));
  }
  for (const std::string& padding : study.paddings) {
    const fs::path run = folder / padding;
    if (is_there(run / "result.json")) continue;
    const bool resume = begun(run, "manifest.json");
    std::vector<std::string> audit = {program,
                                      "audit",
                                      checkpoint.string(),
                                      "--task",
                                      "lookup",
                                      "--padding",
                                      padding,
                                      "--items",
                                      fmt::to_string(study.items),
                                      "--modulus",
                                      fmt::to_string(study.modulus),
                                      "--seed",
                                      fmt::to_string(kPromptSeed),
                                      "--threads",
                                      count,
                                      resume ? "--resume" : "--out",
                                      run.string()};
    commands.push_back(std::move(audit));
  }
  return commands;
}

}  // namespace kvphase::cli
