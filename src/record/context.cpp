#include "record/context.h"

#include <fmt/format.h>

#include <fstream>
#include <thread>

#include "base/build_info.h"
#include "base/clock.h"

namespace kvphase::record {
namespace {

std::string processor_name() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

}  // namespace

RunContext make_context() {
  RunContext context;
  context.version = base::build_version();
  context.commit = base::build_commit();
  context.build = base::build_description();
  context.started = base::utc_now();
  context.host = fmt::format("{}, {} cores", processor_name(), std::thread::hardware_concurrency());
  return context;
}

base::Json to_json(const RunContext& c) {
  return {{"version", c.version},
          {"commit", c.commit},
          {"build", c.build},
          {"command", c.command},
          {"started", c.started},
          {"host", c.host},
          {"threads", c.threads},
          {"seed", c.seed},
          {"model_name", c.model_name},
          {"model_kind", c.model_kind},
          {"model_sha256", c.model_sha256},
          {"model_config", c.model_config},
          {"prompt_set_sha256", c.prompt_set_sha256},
          {"warnings", c.warnings}};
}

RunContext context_from_json(const base::Json& json, std::string_view scope) {
  base::ObjectReader reader(json, std::string(scope));
  RunContext c;
  c.version = reader.text("version");
  c.commit = reader.text("commit");
  c.build = reader.text("build");
  c.command = reader.text("command");
  c.started = reader.text("started");
  c.host = reader.text("host");
  c.threads = reader.integer("threads");
  c.seed = reader.unsigned_integer("seed");
  c.model_name = reader.text("model_name");
  c.model_kind = reader.text("model_kind");
  c.model_sha256 = reader.text("model_sha256");
  c.model_config = reader.required("model_config");
  c.prompt_set_sha256 = reader.text("prompt_set_sha256");
  c.warnings = reader.texts("warnings");
  reader.finish();
  return c;
}

}  // namespace kvphase::record
