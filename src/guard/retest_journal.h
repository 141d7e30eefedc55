// A retest's replies on disk: manifest.json says what is asked of whom, journal.jsonl holds a reply
// per line, each on the disk before the next is taken, because replies cost money.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "guard/agreement.h"

namespace kvphase::guard {

class RetestJournal {
 public:
  // A new folder, or with `resume` the folder of an interrupted retest. Throws a usage error where
  // the folder exists, or, resuming, where its manifest differs (with the differing keys) or its
  // journal holds a line that is no reply of this design.
  RetestJournal(const std::filesystem::path& folder, const base::Json& manifest, bool resume,
                std::int64_t offsets);

  // Of earlier sessions; the last one of an offset and repeat.
  const std::vector<Reply>& known() const { return known_; }
  // Leaves out known missing replies for which `again` says so: they are asked once more.
  void forget_missing(const std::function<bool(const std::string& missing)>& again);
  void keep(const Reply& reply);

 private:
  std::unique_ptr<base::LineAppender> lines_;
  std::vector<Reply> known_;
};

}  // namespace kvphase::guard
