#include "train/run_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/build_info.h"
#include "base/error.h"
#include "base/files.h"

namespace kvphase::train {
namespace {

namespace fs = std::filesystem;
using base::Json;
using base::usage_error;

constexpr const char* kOptions = "train.json";

Json to_json(const RunHeader& header) {
  Json json;
  json["started"] = header.started;
  json["commit"] = header.commit;
  if (!header.data.is_null()) json["data"] = header.data;
  json["options"] = train::to_json(header.options);
  return json;
}

RunHeader header_from_json(const Json& json, const std::string& scope) {
  base::ObjectReader reader(json, scope);
  RunHeader header;
  header.started = reader.text("started");
  header.commit = reader.text("commit");
  if (reader.has("data")) header.data = reader.required("data");
  header.options = train_options_from_json(reader.required("options"), scope + ": options");
  reader.finish();
  return header;
}

Json to_json(const RunPlan& plan) {
  Json json;
  json["build"] = base::build_commit();
  json["resume"] = plan.resume;
  json["complete"] = plan.complete;
  json["folder"] = plan.folder.string();
  json["header"] = to_json(plan.header);
  return json;
}

// "learning_rate (0.003 on rank 0, 0.01 on rank 1)" for every value that differs.
std::string differences(const Json& first, const Json& mine, std::int64_t rank) {
  const Json one = first.flatten();
  const Json other = mine.flatten();
  const auto value = [](const Json& json, const std::string& key) {
    return json.contains(key) ? json.at(key).dump() : std::string("absent");
  };
  std::vector<std::string> list;
  const auto compare = [&](const std::string& key) {
    std::string name = key.substr(1);
    std::replace(name.begin(), name.end(), '/', '.');
    list.push_back(fmt::format("{} ({} on rank 0, {} on rank {})", name, value(one, key),
                               value(other, key), rank));
  };
  for (const auto& [key, unused] : one.items()) {
    if (value(one, key) != value(other, key)) compare(key);
  }
  for (const auto& [key, unused] : other.items()) {
    if (!one.contains(key)) compare(key);
  }
  return fmt::format("{}", fmt::join(list, ", "));
}

}  // namespace

void write_header(const fs::path& folder, const RunHeader& header) {
  base::write_file_atomically(folder / kOptions, to_json(header).dump(2) + "\n");
}

RunHeader read_header(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / kOptions, ignored)) {
    throw usage_error("train", "expected {} in {}, got no such file; is it a training folder?",
                      kOptions, folder.string());
  }
  const std::string scope = (folder / kOptions).string();
  return header_from_json(base::parse_json(base::read_file(folder / kOptions), scope), scope);
}

RunPlan agree_on(RunPlan mine, Ranks& ranks) {
  if (ranks.size() == 1) return mine;
  const Json own = to_json(mine);
  const Json first = Json::parse(ranks.text_of_first(own.dump()));
  Json asked_first;  // what was asked of rank 0 and of this one
  Json asked_here;
  for (const char* key : {"build", "resume"}) {
    asked_first[key] = first.at(key);
    asked_here[key] = own.at(key);
  }
  if (!mine.resume && !first.at("resume").get<bool>()) {
    asked_first["options"] = first.at("header").at("options");
    asked_here["options"] = own.at("header").at("options");
  }
  if (asked_first != asked_here) {
    throw usage_error("train", "expected the same program and options on every rank, got {}",
                      differences(asked_first, asked_here, ranks.rank()));
  }
  RunPlan plan{.resume = mine.resume,
               .complete = first.at("complete"),
               .folder = first.at("folder").get<std::string>(),
               .header = header_from_json(first.at("header"), "train: options of rank 0")};
  const std::int64_t threads = plan.header.options.threads;
  if (!plan.complete && threads < ranks.size()) {
    throw usage_error(
        "train", "expected at most {0} processes for a training of {0} threads in all, got {1}",
        threads, ranks.size());
  }
  ranks.wait_for_all();  // nobody begins what another one refuses
  return plan;
}

}  // namespace kvphase::train
