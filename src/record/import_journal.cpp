// Our own journal, at the speed of reading it: the lines that format_observation() writes have a
// fixed order of keys, so a scanner walks through them without building objects. Any line that
// looks different goes through the strict parser, which accepts it or names what is wrong.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/stop.h"
#include "record/import_sources.h"
#include "record/journal.h"

namespace kvphase::record {
namespace {

constexpr float kAbsent = std::numeric_limits<float>::quiet_NaN();
constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};  // all exact
constexpr std::size_t kBlock = std::size_t{1} << 19;  // bytes a thread reads at a time
constexpr std::size_t kMargin = 8;  // bytes that a scanner may look at behind the last line

struct Line {
  std::int64_t item = 0;
  std::int64_t residue = 0;
  std::int64_t position = 0;
  std::int64_t query = 0;
  std::int64_t length = 0;
  std::int64_t repeat = 0;
  Reply reply = Reply::kMissing;
  float logprob = kAbsent;
  float margin = kAbsent;
};

// Eight characters at once, the first in the lowest byte.
bool eight_digits(std::uint64_t text) {
  constexpr std::uint64_t kHigh = 0xF0F0F0F0F0F0F0F0;
  return ((text & kHigh) | (((text + 0x0606060606060606) & kHigh) >> 4)) == 0x3333333333333333;
}
std::uint64_t eight_to_number(std::uint64_t text) {
  text -= 0x3030303030303030;
  text = 10 * text + (text >> 8);  // pairs, in every second byte
  constexpr std::uint64_t kPairs = 0x000000FF000000FF;
  return ((text & kPairs) * 0x000F424000000064 + ((text >> 16) & kPairs) * 0x0000271000000001) >>
         32;
}
static_assert(std::endian::native == std::endian::little);

class Scanner {
 public:
  Scanner(const char* at, const char* end) : at_(at), end_(end) {}

  // False when the line is not exactly as format_observation() writes it.
  bool scan(Line& line) {
    if (!(literal("{\"item\":") && integer(line.item) && literal(",\"residue\":") &&
          integer(line.residue) && literal(",\"target_position\":") && integer(line.position) &&
          literal(",\"query_position\":") && integer(line.query) && literal(",\"length\":") &&
          integer(line.length) && literal(",\"expected\":") && skip_text() &&
          literal(",\"answer\":") && skip_text() && literal(",\"class\":") && skip_text() &&
          literal(",\"correct\":") && reply(line.reply) && literal(",\"logprob\":") &&
          number(line.logprob) && literal(",\"margin\":") && number(line.margin))) {
      return false;
    }
    line.repeat = 0;
    std::int64_t cached = 0;
    if (literal(",\"repeat\":") && !integer(line.repeat)) return false;
    if (literal(",\"cached\":") && !integer(cached)) return false;
    return *at_ == '}' && at_ + 1 == end_;
  }

 private:
  // The block ends with a newline after every line, so looking one byte ahead is safe.
  template <std::size_t N>
  bool literal(const char (&text)[N]) {
    constexpr std::size_t kLength = N - 1;
    if (static_cast<std::size_t>(end_ - at_) < kLength || std::memcmp(at_, text, kLength) != 0) {
      return false;
    }
    at_ += kLength;
    return true;
  }
  // Appends digits to value; returns how many.
  int digits(std::uint64_t& value) {
    const char* start = at_;
    for (std::uint64_t eight = 0;; at_ += 8) {
      std::memcpy(&eight, at_, 8);
      if (!eight_digits(eight)) break;
      value = 100'000'000 * value + eight_to_number(eight);
    }
    for (; static_cast<unsigned char>(*at_ - '0') < 10; ++at_) {
      value = 10 * value + static_cast<std::uint64_t>(*at_ - '0');
    }
    return static_cast<int>(std::min<std::ptrdiff_t>(at_ - start, 1000));
  }
  bool integer(std::int64_t& value) {
    const char* start = at_;
    const bool negative = *at_ == '-';
    if (negative) ++at_;
    std::uint64_t size = 0;
    const int count = digits(size);
    if (count >= 1 && count <= 18) {
      value = negative ? -static_cast<std::int64_t>(size) : static_cast<std::int64_t>(size);
      return true;
    }
    const auto [stop, error] = std::from_chars(start, end_, value);
    at_ = stop;
    return error == std::errc();
  }
  // The float next to the double that the text says. Up to 19 digits and a small power of ten give
  // a double that is wrong in its last two bits at most, which decides the float unless the double
  // lies next to the middle between two floats: then, and for anything longer, the exact parser.
  bool number(float& value) {
    if (*at_ == 'n') {
      value = kAbsent;
      return literal("null");
    }
    const char* start = at_;
    const bool negative = *at_ == '-';
    if (negative) ++at_;
    std::uint64_t mantissa = 0;
    int count = digits(mantissa);
    if (count == 0) return false;
    int power = 0;
    if (*at_ == '.') {
      ++at_;
      const int fraction = digits(mantissa);
      count += fraction;
      power = -fraction;
    }
    if (*at_ == 'e' || *at_ == 'E') {
      ++at_;
      const bool down = *at_ == '-';
      if (down || *at_ == '+') ++at_;
      std::uint64_t exponent = 0;
      if (const int length = digits(exponent); length < 1 || length > 3) return false;
      power += down ? -static_cast<int>(exponent) : static_cast<int>(exponent);
    }
    if (count <= 19 && power >= -22 && power <= 22) {
      auto wide = static_cast<double>(mantissa);
      wide = power < 0 ? wide / kPowers[-power] : wide * kPowers[power];
      constexpr std::uint64_t kBelowFloat = (std::uint64_t{1} << 29) - 1;
      constexpr std::uint64_t kMiddle = std::uint64_t{1} << 28;
      const std::uint64_t rest = std::bit_cast<std::uint64_t>(wide) & kBelowFloat;
      if (rest + 4 < kMiddle || rest > kMiddle + 4) {
        value = static_cast<float>(negative ? -wide : wide);
        return true;
      }
    }
    double wide = 0;
    const auto [stop, error] = std::from_chars(start, end_, wide);
    at_ = stop;
    value = static_cast<float>(wide);
    return error == std::errc();
  }
  bool skip_text() {
    if (*at_ != '"') return false;
    for (++at_; at_ < end_; ++at_) {
      if (*at_ == '\\') return false;  // an escape: leave it to the strict parser
      if (*at_ == '"') {
        ++at_;
        return true;
      }
    }
    return false;
  }
  bool reply(Reply& value) {
    value = *at_ == 't' ? Reply::kRight : *at_ == 'f' ? Reply::kWrong : Reply::kMissing;
    return *at_ == 't' ? literal("true") : *at_ == 'f' ? literal("false") : literal("null");
  }

  const char* at_;
  const char* end_;
};

// Bytes of a file that one thread reads again and again: grows, and is never cleared.
struct Bytes {
  std::unique_ptr<char[]> data;
  std::size_t size = 0;
  std::size_t capacity = 0;

  void reserve(std::size_t wanted) {
    if (wanted <= capacity) return;
    const std::size_t larger = std::max(wanted, 2 * capacity);
    auto moved = std::make_unique_for_overwrite<char[]>(larger + kMargin);
    std::memset(moved.get() + larger, 0, kMargin);
    if (size > 0) std::memcpy(moved.get(), data.get(), size);
    data = std::move(moved);
    capacity = larger;
  }
};

struct Block {
  std::vector<std::int64_t> items;
  std::vector<std::int32_t> position;
  std::vector<Reply> reply;
  std::vector<float> logprob;
  std::vector<float> margin;
  std::vector<RepeatRow> repeats;
  std::int64_t residue_high = 0;
  std::int64_t query_low = std::numeric_limits<std::int64_t>::max();
  std::int64_t query_high = std::numeric_limits<std::int64_t>::min();
  std::int64_t length_low = std::numeric_limits<std::int64_t>::max();
  std::int64_t length_high = std::numeric_limits<std::int64_t>::min();
  std::vector<std::pair<std::int32_t, std::int32_t>> sample;  // (position, residue), the first few
  std::size_t torn = 0;  // bytes of a last line that was not written to its end
};

class File {
 public:
  explicit File(const std::filesystem::path& path) : path_(path) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status = {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
      throw base::usage_error("analyze", "expected a readable journal, got {}: {}", path.string(),
                              std::strerror(errno));
    }
    size_ = static_cast<std::size_t>(status.st_size);
  }
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::size_t size() const { return size_; }

  // Appends up to `count` bytes from `offset`.
  void read(std::size_t offset, std::size_t count, Bytes& out) const {
    count = std::min(count, size_ - std::min(offset, size_));
    out.reserve(out.size + count);
    std::size_t done = 0;
    while (done < count) {
      const ssize_t got = ::pread(descriptor_, out.data.get() + out.size, count - done,
                                  static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        throw base::environment_error("analyze", "expected to read {}, got: {}", path_.string(),
                                      got < 0 ? std::strerror(errno) : "it became shorter");
      }
      done += static_cast<std::size_t>(got);
      out.size += static_cast<std::size_t>(got);
    }
  }

  std::size_t line_number(std::size_t offset) const {
    std::size_t lines = 1;
    Bytes buffer;
    for (std::size_t at = 0; at < offset; at += kBlock) {
      buffer.size = 0;
      read(at, std::min(kBlock, offset - at), buffer);
      lines += static_cast<std::size_t>(
          std::count(buffer.data.get(), buffer.data.get() + buffer.size, '\n'));
    }
    return lines;
  }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::size_t size_ = 0;
};

void add_line(Block& block, const Line& line) {
  const auto position = static_cast<std::int32_t>(line.position);
  if (line.repeat > 0) {
    block.repeats.push_back({.item = line.item, .position = position, .reply = line.reply});
    return;
  }
  block.items.push_back(line.item);
  block.position.push_back(position);
  block.reply.push_back(line.reply);
  block.logprob.push_back(line.logprob);
  block.margin.push_back(line.margin);
  block.residue_high = std::max(block.residue_high, line.residue);
  block.query_low = std::min(block.query_low, line.query);
  block.query_high = std::max(block.query_high, line.query);
  block.length_low = std::min(block.length_low, line.length);
  block.length_high = std::max(block.length_high, line.length);
  if (block.sample.size() < 64) {
    block.sample.emplace_back(position, static_cast<std::int32_t>(line.residue));
  }
}

Line convert(const Observation& o) {
  return {.item = o.item,
          .residue = o.residue,
          .position = o.target_position,
          .query = o.query_position,
          .length = o.length,
          .repeat = o.repeat,
          .reply = !o.correct   ? Reply::kMissing
                   : *o.correct ? Reply::kRight
                                : Reply::kWrong,
          .logprob = o.logprob ? static_cast<float>(*o.logprob) : kAbsent,
          .margin = o.margin ? static_cast<float>(*o.margin) : kAbsent};
}

// A last line without a newline: whole when an editor or a copy took only the newline, else empty.
std::optional<Observation> parse_last(std::string_view text, const std::string& name) {
  try {
    return parse_observation(text, name);
  } catch (const base::Error&) {
    return std::nullopt;
  }
}

Line parse_strictly(std::string_view text, const File& file, std::size_t offset,
                    const std::string& name) {
  try {
    return convert(parse_observation(text, name));
  } catch (const base::Error&) {
    // The line's number is only worth counting for the message.
    return convert(parse_observation(text, fmt::format("{}:{}", name, file.line_number(offset))));
  }
}

// The lines that start in bytes begin..end-1 of the file; of a torn last one only its size.
Block read_block(const File& file, std::size_t begin, std::size_t end, const std::string& name,
                 Bytes& bytes) {
  bytes.size = 0;
  bytes.reserve(end - begin + (std::size_t{64} << 10));
  // One byte earlier, so that a line starting exactly at `begin` is seen to start there.
  const std::size_t from = begin == 0 ? 0 : begin - 1;
  file.read(from, end - from, bytes);
  for (std::size_t more = 4096;
       from + bytes.size < file.size() && bytes.data[bytes.size - 1] != '\n'; more *= 2) {
    const std::size_t before = bytes.size;
    file.read(from + before, more, bytes);
    const void* newline = std::memchr(bytes.data.get() + before, '\n', bytes.size - before);
    if (newline != nullptr) {
      bytes.size =
          static_cast<std::size_t>(static_cast<const char*>(newline) - bytes.data.get()) + 1;
    }
  }
  Block block;
  const std::size_t lines = bytes.size / 160;
  block.items.reserve(lines);
  block.position.reserve(lines);
  block.reply.reserve(lines);
  block.logprob.reserve(lines);
  block.margin.reserve(lines);
  const char* const first = bytes.data.get();
  const char* const stop = first + bytes.size;
  const char* at = first;
  const auto line_end = [stop](const char* start) {
    return static_cast<const char*>(
        std::memchr(start, '\n', static_cast<std::size_t>(stop - start)));
  };
  if (begin > 0) {
    const char* newline = line_end(at);
    if (newline == nullptr) return block;
    at = newline + 1;
  }
  while (at < stop) {
    const std::size_t offset = from + static_cast<std::size_t>(at - first);
    if (offset >= end) break;
    const char* newline = line_end(at);
    Line line;
    if (newline == nullptr) {
      const auto last = parse_last({at, static_cast<std::size_t>(stop - at)}, name);
      if (!last) {
        block.torn = static_cast<std::size_t>(stop - at);
        break;
      }
      line = convert(*last);
      newline = stop - 1;
    } else if (!Scanner(at, newline).scan(line)) {
      line = parse_strictly({at, static_cast<std::size_t>(newline - at)}, file, offset, name);
    }
    if (line.position < 0 || line.position > std::numeric_limits<std::int32_t>::max()) {
      throw base::usage_error("analyze", "{}:{}: expected a target position of 0 to 2^31-1, got {}",
                              name, file.line_number(offset), line.position);
    }
    add_line(block, line);
    at = newline + 1;
  }
  return block;
}

// Reads blocks on several threads and hands them over in order.
class BlockReader {
 public:
  BlockReader(const File& file, std::string name)
      : file_(file), name_(std::move(name)), blocks_((file.size() + kBlock - 1) / kBlock) {
    const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1U, 8U);
    ahead_ = 2 * threads;
    for (unsigned i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }
  ~BlockReader() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  bool next(Block& block) {
    if (taken_ == blocks_) return false;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_.contains(taken_); });
    Outcome outcome = std::move(ready_.extract(taken_).mapped());
    ++taken_;
    lock.unlock();
    changed_.notify_all();
    if (outcome.failure) std::rethrow_exception(outcome.failure);
    block = std::move(outcome.block);
    return true;
  }

 private:
  struct Outcome {
    Block block;
    std::exception_ptr failure;
  };

  void work() {
    Bytes bytes;
    while (true) {
      std::size_t mine = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock,
                      [&] { return stop_ || started_ < taken_ + ahead_ || started_ == blocks_; });
        if (stop_ || started_ == blocks_) return;
        mine = started_++;
      }
      Outcome outcome;
      try {
        outcome.block = read_block(file_, mine * kBlock,
                                   std::min(file_.size(), (mine + 1) * kBlock), name_, bytes);
      } catch (...) {
        outcome.failure = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        ready_.emplace(mine, std::move(outcome));
      }
      changed_.notify_all();
    }
  }

  const File& file_;
  std::string name_;
  std::size_t blocks_;
  std::size_t ahead_ = 0;  // blocks read before they are taken: bounds the memory
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::size_t, Outcome> ready_;
  std::size_t started_ = 0;
  std::size_t taken_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

[[noreturn]] void refuse_second_reply(const std::filesystem::path& path, std::size_t row) {
  std::size_t number = 0;
  std::size_t rows = 0;
  std::size_t line = 0;
  Observation second;
  const auto visit = [&](Observation&& o) {
    ++number;
    if (o.repeat > 0) return;
    if (rows++ == row) {
      line = number;
      second = std::move(o);
    }
  };
  read_journal(path, visit);
  if (line == 0) {  // the last line, which has no newline and is none for a run that goes on
    std::ifstream stream(path, std::ios::binary);
    std::string text;
    for (std::string next; std::getline(stream, next);) text = std::move(next);
    visit(parse_observation(text, path.string()));
  }
  throw base::usage_error(
      "analyze", "{}:{}: expected one reply per prompt, got a second one for item {}, position {}",
      path.string(), line, second.item, second.target_position);
}

}  // namespace

Dataset import_journal(const std::filesystem::path& path, const ImportOptions& options) {
  const File file(path);
  ScoreRows rows;
  rows.items_known = true;
  std::vector<std::int64_t> raw_items;
  std::vector<RepeatRow> repeats;
  Block all;  // only its ranges and its sample
  {
    BlockReader reader(file, path.string());
    bool first = true;
    for (Block block; reader.next(block);) {
      if (base::stop_requested()) {
        throw base::Error(base::ErrorKind::kInterrupted, "analyze", "stopped while reading");
      }
      if (first && !block.items.empty()) {
        const double share =
            static_cast<double>(file.size()) / static_cast<double>(std::min(file.size(), kBlock));
        const auto expected =
            static_cast<std::size_t>(1.02 * share * static_cast<double>(block.items.size())) + 64;
        raw_items.reserve(expected);
        rows.position.reserve(expected);
        rows.reply.reserve(expected);
        rows.logprob.reserve(expected);
        rows.margin.reserve(expected);
        first = false;
      }
      append(raw_items, block.items);
      append(rows.position, block.position);
      append(rows.reply, block.reply);
      append(rows.logprob, block.logprob);
      append(rows.margin, block.margin);
      append(repeats, block.repeats);
      append(all.sample, block.sample);
      all.torn = std::max(all.torn, block.torn);
      all.residue_high = std::max(all.residue_high, block.residue_high);
      all.query_low = std::min(all.query_low, block.query_low);
      all.query_high = std::max(all.query_high, block.query_high);
      all.length_low = std::min(all.length_low, block.length_low);
      all.length_high = std::max(all.length_high, block.length_high);
    }
  }
  if (raw_items.empty()) {
    throw base::usage_error("analyze", "{}: expected observations, got none", path.string());
  }
  const auto drop_if_absent = [](std::vector<float>& column) {
    if (std::all_of(column.begin(), column.end(), [](float x) { return x != x; })) column = {};
  };
  drop_if_absent(rows.logprob);
  drop_if_absent(rows.margin);
  number_items(rows, raw_items, repeats);
  raw_items = {};
  if (const auto second = prepare_rows(rows)) refuse_second_reply(path, *second);
  Dataset data;
  data.origin = "kvphase journal";
  if (all.torn > 0) {
    data.notes.push_back(fmt::format(
        "The journal's last line breaks off after {} bytes, as when a run dies: it is not used.",
        all.torn));
  }
  const std::int64_t own = all.residue_high + 1;
  const bool consistent =
      own >= 2 && std::all_of(all.sample.begin(), all.sample.end(),
                              [&](auto p) { return p.first % own == p.second; });
  data.modulus = options.modulus.value_or(consistent ? own : kDefaultModulus);
  data.positions = check_positions(rows, data.modulus);
  data.positions.query_position_fixed = all.query_low == all.query_high;
  data.positions.length_fixed = all.length_low == all.length_high;
  data.repeats = compare_repeats(rows, repeats);
  data.rows = std::move(rows);
  return data;
}

}  // namespace kvphase::record
