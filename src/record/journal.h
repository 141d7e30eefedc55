// A run's observations on disk: append-only JSON lines that survive kill -9 with at most the
// unsynced tail lost.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "base/files.h"
#include "record/observation.h"

namespace kvphase::record {

class JournalWriter {
 public:
  explicit JournalWriter(const std::filesystem::path& path) : lines_(path) {}
  void append(const Observation& observation) { lines_.append(format_observation(observation)); }
  void sync() { lines_.sync(); }  // on the disk when this returns

 private:
  base::LineAppender lines_;
};

// Calls visit for every whole line in order; a torn last line is ignored, any other bad line is a
// usage error naming file and line number.
void read_journal(const std::filesystem::path& path,
                  const std::function<void(Observation&&)>& visit);
std::vector<Observation> read_journal(const std::filesystem::path& path);

}  // namespace kvphase::record
