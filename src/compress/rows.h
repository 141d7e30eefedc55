// Rows of tokens or entries that grow at the end and are dropped at the front, one after the other
// in memory. A copy costs nothing: it shares the memory of what both hold, and each goes on by
// itself. Must not know what the rows mean.
//
// Appending costs O(rows appended) on average, however many there are: memory is taken half as much
// again as is needed, and rows move when it is full. Rows that a copy holds are never written:
// where a copy has gone further in the same memory, appending moves the rows to memory of their
// own, once. Copies may be used on different threads at once.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace kvphase::compress {

class Rows {
 public:
  Rows() = default;  // no rows of anything: defined() is false
  // like [B, X, ...]: the shape of a row, type and device. Memory for `reserved` rows is taken with
  // the first one, and no more until they are full.
  explicit Rows(const torch::Tensor& like, std::int64_t reserved = 0);
  // The rows of a tensor [B, n, ...], in its memory.
  static Rows of(const torch::Tensor& rows);

  Rows(const Rows& other);
  Rows(Rows&& other) noexcept;
  Rows& operator=(Rows other) noexcept;
  ~Rows();

  bool defined() const { return empty_.defined(); }
  std::int64_t size() const { return end_ - begin_; }
  // [B, size, ...]. What it shows stays while these rows, or a copy that holds them, are not
  // dropped.
  torch::Tensor view() const;

  // more [B, n, ...]
  void append(const torch::Tensor& more);
  // Makes room for `count` rows more, of any values. Returns all, [B, size + count, ...], for
  // writing into what no copy holds: the new rows, and old places that were not written yet.
  // `written` says, over the same rows in the same memory, how far that is: it grows with all that
  // is written, and of two copies the one with more has also written what the other has.
  torch::Tensor grow(std::int64_t count, std::int64_t written);
  // The first `count` rows are not needed any more.
  void drop_front(std::int64_t count);

  std::int64_t bytes() const;            // of the rows
  std::int64_t allocated_bytes() const;  // of the memory they lie in, which copies may share

 private:
  struct Memory;

  // Memory of their own for the rows and `count` more.
  void move_out(std::int64_t count);
  void leave();

  torch::Tensor empty_;  // [B, 0, ...]
  std::int64_t reserved_ = 0;
  std::shared_ptr<Memory> memory_;  // null: no rows
  std::int64_t begin_ = 0, end_ = 0;
  std::int64_t written_ = 0;  // in memory_
};

// Entries of G heads that may have different numbers of them: [B, M, G, D], M the most of any head,
// with some finite numbers behind the shorter ones.
class HeadRows {
 public:
  HeadRows() = default;
  // like [B, X, G, D]
  explicit HeadRows(const torch::Tensor& like, std::int64_t reserved = 0);

  bool defined() const { return rows_.defined(); }
  std::int64_t count(std::int64_t head) const { return counts_[static_cast<std::size_t>(head)]; }
  torch::Tensor view() const { return rows_.view(); }  // [B, M, G, D]
  torch::Tensor head(std::int64_t head) const;         // [B, count, D]

  // counts[g] more entries of every head g: the first ones of more [B, n, G, D].
  void append(const torch::Tensor& more, const std::vector<std::int64_t>& counts);
  // One more entry of some heads that follow each other: more [B, 1, heads, D].
  void append_one(const torch::Tensor& more, std::int64_t first_head);
  // The same entries, with every row of the batch as many times: row k * B + b is row b.
  HeadRows repeated(std::int64_t times) const;

  std::int64_t bytes() const;  // of the entries alone
  std::int64_t allocated_bytes() const { return rows_.allocated_bytes(); }

 private:
  torch::Tensor room_for(const std::vector<std::int64_t>& counts);

  Rows rows_;
  std::vector<std::int64_t> counts_;  // [G]
};

}  // namespace kvphase::compress
