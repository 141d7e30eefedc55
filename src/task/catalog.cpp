#include "task/catalog.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/nearest.h"
#include "task/completion.h"
#include "task/needle.h"
#include "task/records.h"
#include "task/residue_set.h"
#include "task/template_file.h"

namespace kvphase::task {
namespace {

constexpr std::size_t kFillerWords = 48;

RecordsOptions records_options(const TaskSettings& s) {
  RecordsOptions o{.words = s.words,
                   .modulus = s.modulus,
                   .every_residue = s.every_residue,
                   .seed = s.seed,
                   .constant_tokens = s.constant_tokens};
  o.pad_at = s.pad_at.value_or(o.pad_at);
  o.haystack = s.haystack.value_or(o.haystack);
  o.key_words = s.key_words.value_or(o.key_words);
  // Half of the list is records, half filler, unless told otherwise.
  o.records = s.records.value_or(o.haystack / (2 * (o.key_words + 2)));
  o.items = s.items.value_or(o.items);
  o.per_haystack = s.per_haystack.value_or(o.per_haystack);
  o.demonstrations = s.demonstrations.value_or(o.demonstrations);
  return o;
}

std::unique_ptr<Task> make_filled(FilledOptions o, const TaskSettings& s) {
  o.pad_at = s.pad_at.value_or(o.pad_at);
  o.modulus = s.modulus;
  o.every_residue = s.every_residue;
  o.items =
      s.items.value_or(std::max(o.items, 2 * s.modulus / class_step(s.modulus, s.every_residue)));
  o.haystack = s.haystack.value_or(o.haystack);
  o.depth = s.depth.value_or(o.depth);
  o.seed = s.seed;
  if (o.families.empty()) o.families = {{.name = "words", .words = s.words}};
  o.count_tokens = s.count_tokens;
  o.constant_tokens = s.constant_tokens;
  return std::make_unique<FilledTask>(o);
}

FilledOptions template_options(const TaskSettings& s) {
  if (s.file.empty()) {
    throw base::usage_error("template", "expected the template's file, got none");
  }
  return read_template(s.file);
}

void check_name(std::string_view name) {
  const std::vector<std::string> names = task_names();
  if (std::ranges::find(names, name) == names.end()) {
    throw base::usage_error("task", "expected a task of {}, got '{}'; did you mean {}?",
                            fmt::join(names, " | "), name, base::nearest_name(name, names));
  }
}

}  // namespace

std::vector<std::string> task_names() { return {"records", "needle", "completion", "template"}; }

WordNeed words_needed(std::string_view name, const TaskSettings& settings) {
  check_name(name);
  if (name == "records") {
    const RecordsOptions o = records_options(settings);
    return {.required = {kConnector}, .wanted = words_for_records(o.records, o.key_words)};
  }
  if (name == "completion") {
    WordNeed need{.required = {}, .wanted = kFillerWords};
    for (const FillerFamily& family : filler_families({})) {
      need.required.insert(need.required.end(), family.words.begin(), family.words.end());
    }
    return need;
  }
  if (name == "template") {
    const FilledOptions o = template_options(settings);
    if (!o.families.empty()) return {.required = o.families[0].words, .wanted = 0};
  }
  return {.required = {}, .wanted = kFillerWords};
}

namespace {

std::unique_ptr<Task> make_plain(std::string_view name, const TaskSettings& s) {
  if (name == "records") return std::make_unique<RecordsTask>(records_options(s));
  if (name == "needle") {
    NeedleOptions needle{.seed = s.seed};
    if (s.identifier) needle.identifier = identifier_from_name(*s.identifier);
    return make_filled(needle_options(needle), s);
  }
  if (name == "template") return make_filled(template_options(s), s);
  CompletionOptions completion{.candidates = s.candidates};
  if (!s.file.empty()) completion.text = base::read_file(s.file);
  FilledOptions o = completion_options(completion);
  o.families = filler_families(s.words);
  o.haystack = std::max<std::int64_t>(64, 8 * s.modulus);
  o.items = std::ssize(o.families) * s.modulus;
  return make_filled(std::move(o), s);
}

}  // namespace

std::unique_ptr<Task> make_task(std::string_view name, const TaskSettings& s) {
  check_name(name);
  std::unique_ptr<Task> plain = make_plain(name, s);
  return s.mitigation ? mitigate(std::move(plain), *s.mitigation) : std::move(plain);
}

}  // namespace kvphase::task
