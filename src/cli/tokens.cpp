// kvphase tokens: token shards from text, byte by byte, and a check of existing ones.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "cli/command.h"
#include "train/text_shards.h"
#include "train/token_shard.h"

namespace kvphase::cli {
namespace {

namespace fs = std::filesystem;

struct TokensArguments {
  std::vector<std::string> inputs;
  std::string out;
  std::string documents = "file";
  train::TextShardOptions options;
  bool check = false;
};

train::DocumentsAre documents_from_name(const std::string& name) {
  if (name == "file") return train::DocumentsAre::kFiles;
  if (name == "line") return train::DocumentsAre::kLines;
  if (name == "nul") return train::DocumentsAre::kNulTerminated;
  throw base::usage_error("tokens", "expected --documents file, line or nul, got '{}'", name);
}

ExitCode check_shards(const TokensArguments& arguments, const Session& session) {
  std::vector<fs::path> files;
  for (const std::string& input : arguments.inputs) {
    std::error_code ignored;
    if (!fs::is_directory(input, ignored)) {
      files.emplace_back(input);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(input)) {
      if (entry.path().extension() == train::kShardExtension) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    throw base::usage_error("tokens", "expected shards (*{}) to check, got none",
                            train::kShardExtension);
  }
  for (const fs::path& file : files) {
    const train::TokenShard shard(file);
    shard.verify();
    const train::ShardHeader& header = shard.header();
    session.console.result(fmt::format("{}: {} tokens of {} in {} documents, tokenizer {}, {}\n",
                                       file.string(), header.tokens, header.vocabulary,
                                       header.documents, header.tokenizer, header.sha256));
  }
  return kSuccess;
}

ExitCode run_tokens(TokensArguments arguments, const Session& session) {
  if (arguments.check != arguments.out.empty()) {
    throw base::usage_error("tokens", "expected --out FOLDER or --check, got {}",
                            arguments.check ? "both" : "neither");
  }
  if (arguments.check) return check_shards(arguments, session);
  arguments.options.inputs = arguments.inputs;
  arguments.options.documents = documents_from_name(arguments.documents);
  arguments.options.standard_input = &std::cin;
  base::Stopwatch since_line;
  const auto summary = train::make_text_shards(
      arguments.options, arguments.out, [&](const train::TextShardSummary& so_far) {
        if (since_line.seconds() < 5) return;
        since_line = base::Stopwatch();
        session.console.progress(fmt::format("{} files, {} bytes", so_far.files, so_far.bytes));
      });
  session.console.result(fmt::format(
      "{}: {} bytes of {} files; {} documents ({} tokens) to train on, {} ({}) to validate with\n",
      arguments.out, summary.bytes, summary.files, summary.train.documents, summary.train.tokens,
      summary.validation.documents, summary.validation.tokens));
  return kSuccess;
}

}  // namespace

Action add_tokens(CLI::App& app) {
  const auto arguments = std::make_shared<TokensArguments>();
  train::TextShardOptions& options = arguments->options;
  app.add_option("inputs", arguments->inputs,
                 "Text files, folders (all files below, by name), - (standard input); with --check "
                 "shards or their folders")
      ->required();
  app.add_option("-o,--out", arguments->out, "New folder for the shards");
  app.add_option("--documents", arguments->documents,
                 "What a document is: file | line | nul (text up to a zero byte)")
      ->capture_default_str();
  app.add_option("--extension", options.extensions,
                 "Of files in folders (repeatable), e.g. txt; default: all files")
      ->allow_extra_args(false);
  app.add_option("--validation", options.validation, "Share of the documents that no training sees")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the split")->capture_default_str();
  app.add_option("--shard-tokens", options.shard_tokens,
                 "A shard ends with the document that fills it")
      ->capture_default_str();
  app.add_flag("--check", arguments->check, "Read shards to their end and check every id and hash");
  return [arguments](const Session& session) { return run_tokens(*arguments, session); };
}

}  // namespace kvphase::cli
