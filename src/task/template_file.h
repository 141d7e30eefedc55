// A user's own task: one JSON file with the prompt and its slots, the items, and how to grade. The
// format is documented in docs/tasks.md.
#pragma once

#include <filesystem>
#include <string_view>

#include "task/filled.h"

namespace kvphase::task {

// Sets name, segments, entries, haystack, depth, max_tokens, stop and grading, and the filler's
// words where the file has its own. Throws a usage error that names the key, with the nearest valid
// one.
FilledOptions parse_template(std::string_view json, std::string_view scope);
FilledOptions read_template(const std::filesystem::path& path);

}  // namespace kvphase::task
