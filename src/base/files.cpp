#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace kvphase::base {
namespace {

namespace fs = std::filesystem;

void write_all(int descriptor, std::string_view data, const fs::path& path) {
  while (!data.empty()) {
    const ssize_t written = ::write(descriptor, data.data(), data.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      throw environment_error("files", "expected to write {}, got: {}", path.string(),
                              std::strerror(errno));
    }
    data.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Closes a descriptor on every path out of a function.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

void sync_folder_of(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() >= 0) ::fsync(descriptor.get());
}

// Bytes of complete lines at the start of the file.
off_t length_of_whole_lines(int descriptor, const fs::path& path) {
  off_t end = ::lseek(descriptor, 0, SEEK_END);
  std::string block;
  while (end > 0) {
    const off_t start = std::max<off_t>(0, end - 65536);
    block.resize(static_cast<std::size_t>(end - start));
    if (::pread(descriptor, block.data(), block.size(), start) !=
        static_cast<ssize_t>(block.size())) {
      throw environment_error("files", "expected to read {}, got: {}", path.string(),
                              std::strerror(errno));
    }
    const auto newline = block.rfind('\n');
    if (newline != std::string::npos) return start + static_cast<off_t>(newline) + 1;
    end = start;
  }
  return 0;
}

}  // namespace

std::string read_file(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    throw usage_error("files", "expected a file, got the folder {}", path.string());
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw usage_error("files", "expected a readable file, got {}: {}", path.string(),
                      std::strerror(errno));
  }
  std::ostringstream content;
  content << stream.rdbuf();
  return std::move(content).str();
}

void write_file_atomically(const fs::path& path, std::string_view content) {
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
    throw usage_error("files", "expected a file to write, got {}, which is none", path.string());
  }
  const fs::path temporary = path.string() + ".part";
  try {
    {
      const Descriptor descriptor(
          ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
      if (descriptor.get() < 0) {
        throw environment_error("files", "expected to create {}, got: {}", temporary.string(),
                                std::strerror(errno));
      }
      write_all(descriptor.get(), content, temporary);
      if (::fsync(descriptor.get()) != 0) {
        throw environment_error("files", "expected to sync {}, got: {}", temporary.string(),
                                std::strerror(errno));
      }
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      throw environment_error("files", "expected to rename {} to {}, got: {}", temporary.string(),
                              path.string(), std::strerror(errno));
    }
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder_of(path);
}

void check_new_folder(const fs::path& path, std::string_view scope) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    throw usage_error(scope, "expected a new folder, got {}, which exists; choose another name",
                      path.string());
  }
}

void create_new_folder(const fs::path& path, std::string_view scope) {
  check_new_folder(path, scope);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    throw usage_error(scope, "expected to create the folder {}, got: {}", path.string(),
                      error.message());
  }
}

void publish_folder(const fs::path& part, const fs::path& name) {
  sync_folder_of(part / "any");
  std::error_code error;
  fs::rename(part, name, error);
  if (error) {
    throw environment_error("files", "expected to rename {} to {}, got: {}", part.string(),
                            name.string(), error.message());
  }
  sync_folder_of(name);
}

NewFolder::NewFolder(fs::path path, std::string_view scope) : path_(std::move(path)) {
  if (!path_.has_filename()) path_ = path_.parent_path();  // "out/"
  check_new_folder(path_, scope);
  const fs::path part = path_.string() + ".part";
  if (fs::exists(part)) {
    throw usage_error(
        scope,
        "expected {} to be free, got: it exists; it is what a killed command left, or "
        "belongs to one that still runs: if none does, remove it, else choose another "
        "folder",
        part.string());
  }
  create_new_folder(part, scope);
  part_ = part;
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!part_.empty()) fs::remove_all(part_, ignored);
}

void NewFolder::publish() {
  publish_folder(part_, path_);
  part_.clear();
}

LineAppender::LineAppender(const fs::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    throw environment_error("files", "expected to open {}, got: {}", path.string(),
                            std::strerror(errno));
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor_);
    throw usage_error("files", "expected {} to be free, got: another process writes to it",
                      path.string());
  }
  try {
    const off_t whole = length_of_whole_lines(descriptor_, path);
    if (::ftruncate(descriptor_, whole) != 0 || ::lseek(descriptor_, whole, SEEK_SET) != whole) {
      throw environment_error("files", "expected to append to {}, got: {}", path.string(),
                              std::strerror(errno));
    }
    written_ = whole;
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

LineAppender::~LineAppender() {
  try {
    sync();
  } catch (const Error&) {
    // A destructor cannot report; callers that care call sync() themselves.
  }
  ::close(descriptor_);
}

void LineAppender::append(std::string_view line) {
  buffer_.append(line);
  buffer_.push_back('\n');
}

void LineAppender::sync() {
  if (buffer_.empty()) return;
  // A full disk may have taken a part: the file keeps whole lines only, whatever is tried later.
  const std::string lines = std::exchange(buffer_, {});
  try {
    write_all(descriptor_, lines, path_);
  } catch (const Error&) {
    if (::ftruncate(descriptor_, written_) == 0) ::lseek(descriptor_, written_, SEEK_SET);
    throw;
  }
  written_ += static_cast<std::int64_t>(lines.size());
  if (::fsync(descriptor_) != 0) {
    throw environment_error("files", "expected to sync {}, got: {}", path_.string(),
                            std::strerror(errno));
  }
}

void LineAppender::truncate(std::int64_t bytes) {
  sync();
  if (bytes >= written_) return;
  if (::ftruncate(descriptor_, bytes) != 0 || ::lseek(descriptor_, bytes, SEEK_SET) != bytes) {
    throw environment_error("files", "expected to cut {} down to {} bytes, got: {}", path_.string(),
                            bytes, std::strerror(errno));
  }
  written_ = bytes;
}

}  // namespace kvphase::base
