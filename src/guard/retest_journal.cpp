#include "guard/retest_journal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <sstream>

#include "base/error.h"

namespace kvphase::guard {
namespace {

using base::Json;

void check_manifest(const std::filesystem::path& path, const Json& now) {
  const Json before = base::parse_json(base::read_file(path), path.string());
  if (before == now) return;
  std::vector<std::string> differences;
  for (const auto& [key, value] : now.items()) {
    if (!before.is_object() || !before.contains(key) || before.at(key) != value) {
      differences.push_back(key);
    }
  }
  throw base::usage_error("retest",
                          "expected to resume with the configuration of {}, got another one: {} "
                          "differs",
                          path.string(), fmt::join(differences, ", "));
}

Reply reply_of(const Json& json, const std::string& scope, std::int64_t offsets) {
  base::ObjectReader reader(json, scope);
  Reply reply{.offset = reader.integer("offset"),
              .repeat = reader.integer("repeat"),
              .answer = reader.text("answer"),
              .missing = reader.text("missing"),
              .cut = reader.boolean("cut")};
  reader.finish();
  if (reply.offset < 0 || reply.offset >= offsets || reply.repeat < 0) {
    throw base::usage_error(scope, "expected an offset of 0 to {} and a repeat, got {} and {}",
                            offsets - 1, reply.offset, reply.repeat);
  }
  return reply;
}

// Whole lines only: LineAppender has cut a torn last one.
std::vector<Reply> read_replies(const std::filesystem::path& path, std::int64_t offsets) {
  std::vector<Reply> replies;
  std::istringstream lines(base::read_file(path));
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string scope = fmt::format("{}:{}", path.string(), ++number);
    Reply reply = reply_of(base::parse_json(line, scope), scope, offsets);
    std::erase_if(replies, [&](const Reply& earlier) {
      return earlier.offset == reply.offset && earlier.repeat == reply.repeat;
    });
    replies.push_back(std::move(reply));
  }
  return replies;
}

}  // namespace

RetestJournal::RetestJournal(const std::filesystem::path& folder, const Json& manifest, bool resume,
                             std::int64_t offsets) {
  const std::filesystem::path path = folder / "manifest.json";
  if (resume) {
    check_manifest(path, manifest);
  } else {
    base::create_new_folder(folder, "retest");
    base::write_file_atomically(path, manifest.dump(2) + "\n");
  }
  const std::filesystem::path journal = folder / "journal.jsonl";
  lines_ = std::make_unique<base::LineAppender>(journal);
  known_ = read_replies(journal, offsets);
}

void RetestJournal::forget_missing(const std::function<bool(const std::string&)>& again) {
  std::erase_if(known_, [&](const Reply& r) { return !r.answered() && again(r.missing); });
}

void RetestJournal::keep(const Reply& reply) {
  const Json line = {{"offset", reply.offset},
                     {"repeat", reply.repeat},
                     {"answer", reply.answer},
                     {"missing", reply.missing},
                     {"cut", reply.cut}};
  lines_->append(line.dump(-1, ' ', false, Json::error_handler_t::replace));
  lines_->sync();
}

}  // namespace kvphase::guard
