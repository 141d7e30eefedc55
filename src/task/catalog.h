// The tasks in words by name, their settings in one place and the words that they need: what a
// command line offers. Tasks in ids (lookup) are made from a checkpoint's own language instead.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "task/mitigate.h"
#include "task/task.h"

namespace kvphase::task {

// The tokens of a text that follows other text, as the audited server counts them.
using CountTokens = std::function<std::int64_t(std::string_view text)>;

// Empty: the task's own default.
struct TaskSettings {
  std::optional<PadAt> pad_at;
  std::int64_t modulus = 8;              // R
  bool every_residue = false;            // also of an R over 64, where a few are asked otherwise
  std::optional<std::int64_t> items;     // rounded up to what the design needs
  std::optional<std::int64_t> haystack;  // tokens: records with their filler, or filler text
  std::uint64_t seed = 1;
  // Words that are one token each after a blank for the audited model, found through it.
  std::vector<std::string> words;
  // Where the model's tokenizer can be asked: lets items whose texts have different token counts
  // share one end position. Empty: such texts count 0.
  CountTokens count_tokens;
  // Tokens of the texts that the task counts as 0 (a prompt's tokens less Prompt::length), the same
  // for all: then every reply's count of prompt tokens is checked.
  std::optional<std::int64_t> constant_tokens;
  std::optional<MitigationOptions> mitigation;  // empty: plain prompts

  // records
  std::optional<std::int64_t> records;         // per haystack
  std::optional<std::int64_t> key_words;       // 1 or 2
  std::optional<std::int64_t> per_haystack;    // items that share one haystack
  std::optional<std::int64_t> demonstrations;  // answered questions before the item's
  // needle
  std::optional<std::string> identifier;  // "code" | "path" | "hex" | "uuid"
  std::optional<double> depth;            // 0..1 of the haystack; also of a template
  // completion and template
  std::string file;                     // completion: empty for the FP8 snippet
  std::vector<std::string> candidates;  // completion: the right one first; empty: the snippet's
};

std::vector<std::string> task_names();  // records, needle, completion, template

// What `name` needs before make_task(): words that must be there, and how many more in all.
struct WordNeed {
  std::vector<std::string> required;
  std::size_t wanted = 0;  // entries of TaskSettings::words, the required ones not counted
};
WordNeed words_needed(std::string_view name, const TaskSettings& settings);

// Throws a usage error for an unknown name or settings that cannot be.
std::unique_ptr<Task> make_task(std::string_view name, const TaskSettings& settings);

}  // namespace kvphase::task
