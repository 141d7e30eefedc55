// A file as memory, read only: the system fetches its pages when they are touched and drops them
// when memory is short, so a file may be larger than memory.
#pragma once

#include <filesystem>
#include <string_view>

namespace kvphase::base {

class MemoryMap {
 public:
  // Throws a usage error when the file cannot be mapped. A file that is shortened while it is
  // mapped ends the process when the lost pages are read.
  explicit MemoryMap(const std::filesystem::path& path);
  ~MemoryMap();
  MemoryMap(MemoryMap&& other) noexcept;
  MemoryMap& operator=(MemoryMap&&) = delete;

  std::string_view bytes() const { return bytes_; }  // the whole file

 private:
  std::string_view bytes_;
};

}  // namespace kvphase::base
