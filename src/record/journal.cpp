#include "record/journal.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace kvphase::record {

void read_journal(const std::filesystem::path& path,
                  const std::function<void(Observation&&)>& visit) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw base::usage_error("journal", "expected a readable journal, got {}: {}", path.string(),
                            std::strerror(errno));
  }
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    if (stream.eof()) break;  // no newline: the line was being written when the run died
    visit(parse_observation(line, fmt::format("{}:{}", path.string(), number)));
  }
}

std::vector<Observation> read_journal(const std::filesystem::path& path) {
  std::vector<Observation> observations;
  read_journal(path,
               [&](Observation&& observation) { observations.push_back(std::move(observation)); });
  return observations;
}

}  // namespace kvphase::record
