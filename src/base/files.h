// Files that survive a crash: whole files are replaced atomically, logs are appended a line at a
// time and flushed to the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace kvphase::base {

// The whole file; throws a usage error when it cannot be read.
std::string read_file(const std::filesystem::path& path);

// Writes to a temporary neighbour, fsyncs and renames: readers see the old or the new file, never a
// part, and a failure leaves no neighbour.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Creates a folder that must not exist yet (its parents may be created). A run folder is never
// overwritten.
void create_new_folder(const std::filesystem::path& path, std::string_view scope);

// Refuses what create_new_folder() would refuse before it creates anything: for work that is done
// first and written last.
void check_new_folder(const std::filesystem::path& path, std::string_view scope);

// A new folder that appears whole or not at all: files go into `PATH.part`, which publish() renames
// and which is otherwise removed.
class NewFolder {
 public:
  NewFolder(std::filesystem::path path, std::string_view scope);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& part() const { return part_; }
  void publish();

 private:
  std::filesystem::path path_;
  std::filesystem::path part_;
};

// Gives a folder whose files are all written its final name, which must be free: readers see the
// whole folder or none, also after a power failure.
void publish_folder(const std::filesystem::path& part, const std::filesystem::path& name);

// An append-only text file, opened for one writer (an advisory lock refuses a second one).
class LineAppender {
 public:
  // Creates the file when absent. A torn last line (no newline, from a crash) is cut off.
  explicit LineAppender(const std::filesystem::path& path);
  ~LineAppender();
  LineAppender(const LineAppender&) = delete;
  LineAppender& operator=(const LineAppender&) = delete;

  void append(std::string_view line);  // adds the newline; buffered until sync()
  // Writes the buffer and fsyncs. When the disk is full none of the buffer is kept, and the file
  // ends with the lines of the last sync().
  void sync();

  std::int64_t size() const { return written_; }  // bytes of the file after the last sync()
  // Cuts the synced file down to its first `bytes`; a shorter file stays as it is. `bytes` must be
  // an earlier size().
  void truncate(std::int64_t bytes);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t written_ = 0;
  std::string buffer_;
};

}  // namespace kvphase::base
