#include "record/import.h"

#include <fmt/format.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "record/import_sources.h"

namespace kvphase::record {
namespace {

namespace fs = std::filesystem;

constexpr const char* kByteOrderMark = "\xEF\xBB\xBF";

// The first line (at most 1 MiB of it), without a byte order mark.
std::string first_line(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw base::usage_error("analyze", "expected a readable file, got {}: {}", path.string(),
                            std::strerror(errno));
  }
  std::string start(1 << 20, '\0');
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(stream.gcount()));
  if (start.starts_with(kByteOrderMark)) start.erase(0, 3);
  if (start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF")) {
    throw base::usage_error("analyze", "{}: expected UTF-8, got UTF-16; save it as UTF-8",
                            path.string());
  }
  const std::size_t text = start.find_first_not_of(" \t\r\n");
  if (text == std::string::npos) {
    throw base::usage_error("analyze", "{}: expected results, got an empty file", path.string());
  }
  start.erase(0, text);
  return start.substr(0, start.find('\n'));
}

// Bytes of the UTF-8 sequence at the start of text; 0 when it is none (RFC 3629: no overlong forms,
// no surrogates, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool bad = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) >= 0xA0) ||
                   (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) >= 0x90);
  return bad ? 0 : length;
}

std::string whole_text(const fs::path& path) {
  std::string text = base::read_file(path);
  if (text.starts_with(kByteOrderMark)) text.erase(0, 3);
  std::size_t line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(std::string_view(text).substr(at));
    if (length == 0) {
      throw base::usage_error("analyze",
                              "{}:{}: expected UTF-8, got the byte 0x{:02X}; save it as "
                              "UTF-8",
                              path.string(), line, static_cast<unsigned char>(text[at]));
    }
    if (text[at] == '\n') ++line;
    at += length;
  }
  return text;
}

// What a run's result.json tells about the journal beside it.
void add_run_facts(const fs::path& result, Dataset& data, bool keep_modulus) {
  std::error_code ignored;
  if (!fs::exists(result, ignored)) return;
  const Result record =
      result_from_json(base::parse_json(base::read_file(result), result.string()), result.string());
  data.name = record.context.model_name;
  data.task = record.design.task;
  data.padding = record.design.padding;
  data.mitigation = record.design.mitigation;
  if (!keep_modulus && record.design.modulus > 1) data.modulus = record.design.modulus;
  for (const std::optional<Folded>& folded : {record.folded, record.other_stride}) {
    if (folded && folded->source == "model") data.stride = folded->stride;
  }
}

constexpr const char* kJournal = "journal.jsonl";
constexpr const char* kVotes = "votes.jsonl";  // of --mitigate majority (cli/audit_run.cpp)

// What the manifest beside a run's journal tells: the mitigation's name, empty for plain prompts
// and where there is none. Throws for what a sequential audit leaves, which was stopped by its own
// answers: no fixed-size test may read it.
std::string mitigation_of_run(const fs::path& folder) {
  const fs::path manifest = folder / "manifest.json";
  std::error_code ignored;
  if (!fs::exists(manifest, ignored)) return "";
  const base::Json json = base::parse_json(base::read_file(manifest), manifest.string());
  if (!json.is_object()) return "";
  if (json.contains("sequential")) {
    throw base::usage_error("analyze",
                            "expected a run of fixed size, got the sequential audit {}, for which "
                            "no p-value would hold; its result.json has the e-value",
                            folder.string());
  }
  const auto name = base::Json::json_pointer("/options/mitigation/name");
  if (!json.contains(name) || !json.at(name).is_string()) return "";
  return json.at(name).get<std::string>();
}

// A journal by itself. One that lies in a run's folder says what its prompts went through, and
// single votes are no answers.
Dataset import_lone_journal(const fs::path& path, const ImportOptions& options) {
  std::string mitigation;
  if (path.filename() == kJournal || path.filename() == kVotes) {
    mitigation = mitigation_of_run(path.parent_path());
    if (path.filename() == kVotes && !mitigation.empty()) {
      const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
      std::error_code ignored;
      throw base::usage_error(
          "analyze",
          "expected answers, got {}: single votes, several of one answer, whose gap is that of "
          "plain prompts; {}",
          path.string(),
          fs::exists(folder / kJournal, ignored)
              ? fmt::format("analyze {}, whose {} has the answers", folder.string(), kJournal)
              : fmt::format("finish the audit with --resume {}, then analyze that folder",
                            folder.string()));
    }
  }
  Dataset data = import_journal(path, options);
  data.mitigation = std::move(mitigation);
  return data;
}

std::vector<Dataset> import_folder(const fs::path& folder, const ImportOptions& options) {
  const fs::path journal = folder / kJournal;
  std::error_code ignored;
  if (!fs::exists(journal, ignored)) {
    throw base::usage_error("analyze", "expected a file or a run folder with journal.jsonl, got {}",
                            folder.string());
  }
  Dataset data = import_lone_journal(journal, options);
  add_run_facts(folder / "result.json", data, options.modulus.has_value());
  std::vector<Dataset> list;
  list.push_back(std::move(data));
  return list;
}

std::vector<Dataset> import_any(const fs::path& path, const ImportOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return import_folder(path, options);
  const std::string line = first_line(path);
  if (line.starts_with("{\"item\":") && line.find("\"target_position\":") != std::string::npos &&
      line.find("\"class\":") != std::string::npos) {
    std::vector<Dataset> list;
    list.push_back(import_lone_journal(path, options));
    return list;
  }
  if (line.front() != '{' && line.front() != '[') {
    return import_csv(whole_text(path), path, options);
  }
  const base::Json first = base::Json::parse(line, nullptr, false);
  const auto is_counts = [](const base::Json& json) {
    return json.is_object() &&
           (json.contains("models") || json.contains("curves") || json.contains("modulus") ||
            json.contains("residue_modulus") ||
            (json.contains("correct") && json.at("correct").is_array() && json.contains("n")));
  };
  const std::size_t last = line.find_last_not_of(" \t\r");
  const bool object_in_a_line = line.front() == '{' && line[last] == '}' && line.size() > 2;
  if (object_in_a_line && !is_counts(first)) return import_json_lines(path, options);
  const base::Json whole = base::parse_json(whole_text(path), "analyze", path.string());
  if (!is_counts(whole)) {
    throw base::usage_error(
        "analyze",
        "{}: expected counts ('modulus', 'n', 'correct') or one JSON object per "
        "line, got other JSON; see docs/formats.md",
        path.string());
  }
  return import_counts_json(whole, path, options);
}

}  // namespace

std::vector<Dataset> import_results(const fs::path& path, const ImportOptions& options) {
  if (options.modulus && *options.modulus < 2) {
    throw base::usage_error("analyze", "expected a modulus of 2 or more, got {}", *options.modulus);
  }
  std::vector<Dataset> list = import_any(path, options);
  if (!options.model.empty() && !list.front().counts) {
    throw base::usage_error("analyze",
                            "{}: expected counts of several models for --model '{}', got {}, which "
                            "holds one result; leave it out",
                            path.string(), options.model, list.front().origin);
  }
  for (Dataset& data : list) {
    if (data.name.empty()) data.name = path.stem().string();
    if (data.counts && options.modulus && data.counts->modulus != *options.modulus) {
      fold_counts(*data.counts, *options.modulus, path.string());
      data.modulus = *options.modulus;
    }
  }
  return list;
}

}  // namespace kvphase::record
