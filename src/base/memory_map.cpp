#include "base/memory_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace kvphase::base {

MemoryMap::MemoryMap(const std::filesystem::path& path) {
  const auto refuse = [&] {
    return usage_error("files", "expected a readable file, got {}: {}", path.string(),
                       std::strerror(errno));
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw refuse();
  struct stat about {};
  void* start = nullptr;
  const bool known = ::fstat(descriptor, &about) == 0;
  if (known && !S_ISREG(about.st_mode)) errno = EINVAL;
  const auto size = static_cast<std::size_t>(about.st_size);
  const bool wanted = known && S_ISREG(about.st_mode) && size > 0;  // nothing cannot be mapped
  if (wanted) start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  const int error = errno;
  ::close(descriptor);
  errno = error;
  if (!known || !S_ISREG(about.st_mode) || start == MAP_FAILED) throw refuse();
  if (wanted) bytes_ = {static_cast<const char*>(start), size};
}

MemoryMap::~MemoryMap() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

MemoryMap::MemoryMap(MemoryMap&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

}  // namespace kvphase::base
