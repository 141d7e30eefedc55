#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "record/import_sources.h"

namespace kvphase::record {
namespace {

using base::Json;

// {"correct": [..R..], "n": N or [..R..]} -> counts ("prompts_per_residue": another word for n);
// other keys are figures that we compute afresh.
CountsTable read_table(const Json& json, std::int64_t modulus, const std::string& scope) {
  const auto whole = [&](const Json& value, const std::string& what) {
    if (!value.is_number_integer() || value.get<double>() < 0 ||
        value.get<double>() > static_cast<double>(kMostPrompts)) {
      throw base::usage_error("analyze", "{}: expected {} to be a whole number of 0 to {}, got {}",
                              scope, what, kMostPrompts, value.dump());
    }
    return value.get<std::int64_t>();
  };
  if (!json.is_object() || !json.contains("correct") || !json.at("correct").is_array()) {
    throw base::usage_error("analyze", "{}: expected a list 'correct' with a count per residue",
                            scope);
  }
  const char* prompts = json.contains("n") ? "n" : "prompts_per_residue";
  if (!json.contains(prompts)) {
    throw base::usage_error("analyze", "{}: expected 'n', the prompts per residue, got none",
                            scope);
  }
  const Json& correct = json.at("correct");
  const Json& n = json.at(prompts);
  const auto size = static_cast<std::size_t>(modulus);
  if (correct.size() != size || (n.is_array() && n.size() != size)) {
    throw base::usage_error("analyze", "{}: expected {} counts, one per residue, got {}", scope,
                            size, correct.size() != size ? correct.size() : n.size());
  }
  CountsTable counts{.modulus = modulus};
  for (std::size_t r = 0; r < size; ++r) {
    counts.correct.push_back(whole(correct.at(r), fmt::format("correct[{}]", r)));
    counts.n.push_back(
        whole(n.is_array() ? n.at(r) : n, n.is_array() ? fmt::format("n[{}]", r) : "n"));
    if (counts.correct.back() > counts.n.back()) {
      throw base::usage_error("analyze", "{}: expected correct <= n, got {} of {} at residue {}",
                              scope, counts.correct.back(), counts.n.back(), r);
    }
  }
  return counts;
}

std::int64_t read_modulus(const Json& json, const std::string& file) {
  for (const char* key : {"residue_modulus", "modulus"}) {
    if (!json.contains(key)) continue;
    const Json& value = json.at(key);
    if (!value.is_number_integer() || value.get<double>() < 2 || value.get<double>() > 100000) {
      throw base::usage_error("analyze",
                              "{}: expected '{}' to be a whole number of 2 to 100000, got {}", file,
                              key, value.dump());
    }
    return value.get<std::int64_t>();
  }
  if (json.contains("correct") && json.at("correct").is_array() && json.at("correct").size() >= 2) {
    return static_cast<std::int64_t>(json.at("correct").size());
  }
  throw base::usage_error("analyze", "{}: expected 'modulus', the R of the residues, got none",
                          file);
}

std::optional<std::int64_t> optional_size(const Json& json, const char* key,
                                          const std::string& scope) {
  if (!json.contains(key) || json.at(key).is_null()) return std::nullopt;
  const Json& value = json.at(key);
  if (!value.is_number_integer() || value.get<double>() < 1) {
    throw base::usage_error("analyze", "{}: expected '{}' to be a whole number >= 1, got {}", scope,
                            key, value.dump());
  }
  return value.get<std::int64_t>();
}

std::string text_of(const Json& json, const char* key) {
  return json.contains(key) && json.at(key).is_string() ? json.at(key).get<std::string>() : "";
}

// What --model may say: the name, or the design of a published curve of some seed.
std::string design_of(const Json& model) {
  return text_of(model, "id").empty() ? text_of(model, "design") : text_of(model, "id");
}

std::string name_of(const Json& model) {
  const std::string name = text_of(model, "name");
  if (!name.empty()) return name;
  const bool seed = model.contains("seed") && model.at("seed").is_number_integer();
  return design_of(model) + (seed ? fmt::format(" seed {}", model.at("seed").dump()) : "");
}

struct Padding {
  const char* key;   // in the file
  const char* name;  // in our records
};
constexpr Padding kPaddings[] = {{"prefix_padding", "prefix"},
                                 {"in_sequence_padding", "in-sequence"}};

void add_model(const Json& model, std::int64_t modulus, const std::string& scope,
               std::vector<Dataset>& out) {
  Dataset data;
  data.origin = "counts JSON";
  data.name = name_of(model);
  data.task = text_of(model, "task");
  data.padding = text_of(model, "padding");
  data.window = optional_size(model, "window", scope);
  data.stride = optional_size(model, "stride", scope);
  data.modulus = modulus;
  bool by_padding = false;
  for (const Padding& padding : kPaddings) {
    if (!model.contains(padding.key)) continue;
    by_padding = true;
    Dataset one = data;
    one.padding = padding.name;
    one.counts =
        read_table(model.at(padding.key), modulus, fmt::format("{}.{}", scope, padding.key));
    out.push_back(std::move(one));
  }
  if (by_padding) return;
  data.counts = read_table(model, modulus, scope);
  out.push_back(std::move(data));
}

}  // namespace

void fold_counts(CountsTable& counts, std::int64_t modulus, const std::string& file) {
  if (modulus < 1 || counts.modulus % modulus != 0) {
    throw base::usage_error("analyze",
                            "{}: expected a modulus that divides the file's {}, got {}; counts can "
                            "be added up, not taken apart",
                            file, counts.modulus, modulus);
  }
  CountsTable folded{.modulus = modulus};
  folded.n.assign(static_cast<std::size_t>(modulus), 0);
  folded.correct = folded.n;
  for (std::size_t r = 0; r < counts.n.size(); ++r) {
    folded.n[r % static_cast<std::size_t>(modulus)] += counts.n[r];
    folded.correct[r % static_cast<std::size_t>(modulus)] += counts.correct[r];
  }
  counts = std::move(folded);
}

std::vector<Dataset> import_counts_json(const Json& json, const std::filesystem::path& path,
                                        const ImportOptions& options) {
  const std::string file = path.string();
  const std::int64_t modulus = read_modulus(json, file);
  std::vector<Dataset> all;
  const char* list = json.contains("models") ? "models" : "curves";
  if (!json.contains(list)) {
    add_model(json, modulus, file, all);
    const std::string& name = all.front().name;
    if (!options.model.empty() && options.model != name && options.model != design_of(json)) {
      throw base::usage_error("analyze", "{}: expected a model named '{}', got one model, {}", file,
                              options.model, name.empty() ? "without a name" : "'" + name + "'");
    }
  } else {
    const Json& models = json.at(list);
    if (!models.is_array() || models.empty()) {
      throw base::usage_error("analyze", "{}: expected a list of models, got none", file);
    }
    std::vector<std::string> names;
    for (std::size_t i = 0; i < models.size(); ++i) {
      const Json& model = models.at(i);
      const std::string scope = fmt::format("{}: {}[{}]", file, list, i);
      if (!model.is_object()) {
        throw base::usage_error("analyze", "{}: expected an object, got {}", scope,
                                model.type_name());
      }
      const std::string name = name_of(model);
      const std::string id = design_of(model);
      for (const std::string& known : {name, id}) {
        if (!known.empty() && std::ranges::find(names, known) == names.end()) {
          names.push_back(known);
        }
      }
      if (!options.model.empty() && options.model != name && options.model != id) continue;
      add_model(model, modulus, scope, all);
    }
    if (all.empty()) {
      throw base::usage_error(
          "analyze", "{}: expected a model named '{}', got {}; did you mean '{}'?", file,
          options.model, fmt::join(names, " | "), base::nearest_name(options.model, names));
    }
    for (Dataset& data : all) {
      if (data.task.empty()) data.task = text_of(json, "task");
    }
  }
  return all;
}

}  // namespace kvphase::record
