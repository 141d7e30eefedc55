#include <filesystem>

#include "base/error.h"
#include "cli/command.h"
#include "cli/lab_api.h"

namespace kvphase::cli {
namespace {

struct Options {
  std::string checkpoint;
  std::string format = "gguf";
  std::string out;
};

}  // namespace

Action add_export(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  app.add_option("checkpoint", options->checkpoint,
                 "A folder that `kvphase train` wrote; full attention in every layer")
      ->required();
  app.add_option("--format", options->format,
                 "gguf: one file for llama.cpp (architecture qwen3); hf: a Hugging Face folder")
      ->check(CLI::IsMember({"gguf", "hf"}))
      ->capture_default_str();
  app.add_option("--out", options->out, "The new file or folder; never overwritten")->required();
  return [options](const Session& session) {
    if (std::filesystem::exists(options->out)) {
      throw base::usage_error("export", "expected a path that does not exist yet, got '{}'",
                              options->out);
    }
    load_lab().export_checkpoint(
        options->checkpoint,
        options->format == "gguf" ? ExportFormat::kGguf : ExportFormat::kHuggingFace, options->out);
    session.console.result(options->out + "\n");
    return kSuccess;
  };
}

}  // namespace kvphase::cli
