#include "compress/rows.h"

#include <algorithm>
#include <cassert>
#include <mutex>
#include <numeric>
#include <utility>

namespace kvphase::compress {
namespace {

constexpr std::int64_t kLeast = 16;  // rows more than needed, when memory is taken

std::int64_t bytes_of(const torch::Tensor& tensor) {
  return tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
}

}  // namespace

struct Rows::Memory {
  torch::Tensor rows;  // [B, capacity, ...]
  std::mutex mutex;
  std::vector<std::int64_t> written;  // of every copy that holds rows here

  std::int64_t capacity() const { return rows.size(1); }
};

Rows::Rows(const torch::Tensor& like, std::int64_t reserved)
    : empty_(like.narrow(1, 0, 0)), reserved_(reserved) {}

Rows Rows::of(const torch::Tensor& rows) {
  Rows result(rows);
  if (rows.size(1) == 0) return result;
  result.memory_ = std::make_shared<Memory>();
  result.memory_->rows = rows;
  result.end_ = result.written_ = rows.size(1);
  result.memory_->written = {result.written_};
  return result;
}

Rows::Rows(const Rows& other)
    : empty_(other.empty_),
      reserved_(other.reserved_),
      memory_(other.memory_),
      begin_(other.begin_),
      end_(other.end_),
      written_(other.written_) {
  if (!memory_) return;
  const std::scoped_lock lock(memory_->mutex);
  memory_->written.push_back(written_);
}

Rows::Rows(Rows&& other) noexcept
    : empty_(std::move(other.empty_)),
      reserved_(other.reserved_),
      memory_(std::move(other.memory_)),
      begin_(std::exchange(other.begin_, 0)),
      end_(std::exchange(other.end_, 0)),
      written_(other.written_) {}

Rows& Rows::operator=(Rows other) noexcept {
  std::swap(empty_, other.empty_);
  std::swap(reserved_, other.reserved_);
  std::swap(memory_, other.memory_);
  std::swap(begin_, other.begin_);
  std::swap(end_, other.end_);
  std::swap(written_, other.written_);
  return *this;
}

Rows::~Rows() { leave(); }

void Rows::leave() {
  if (!memory_) return;
  {
    const std::scoped_lock lock(memory_->mutex);
    memory_->written.erase(std::ranges::find(memory_->written, written_));
  }
  memory_.reset();
}

torch::Tensor Rows::view() const {
  return memory_ ? memory_->rows.narrow(1, begin_, size()) : empty_;
}

void Rows::move_out(std::int64_t count) {
  const std::int64_t needed = size() + count;
  std::vector<std::int64_t> shape = empty_.sizes().vec();
  shape[1] = needed <= reserved_ ? reserved_ : needed + std::max(needed / 2, kLeast);
  auto memory = std::make_shared<Memory>();
  memory->rows = torch::empty(shape, empty_.options());
  if (size() > 0) memory->rows.narrow(1, 0, size()).copy_(view());
  memory->written = {written_};
  leave();
  memory_ = std::move(memory);
  end_ -= std::exchange(begin_, 0);
}

torch::Tensor Rows::grow(std::int64_t count, std::int64_t written) {
  bool ours = memory_ && end_ + count <= memory_->capacity();
  if (ours) {
    const std::scoped_lock lock(memory_->mutex);
    ours = std::ranges::all_of(memory_->written,
                               [&](std::int64_t other) { return other <= written_; });
    if (ours) *std::ranges::find(memory_->written, written_) = written_ + written;
  }
  if (!ours) {
    move_out(count);
    memory_->written = {written_ + written};
  }
  written_ += written;
  end_ += count;
  return view();
}

void Rows::append(const torch::Tensor& more) {
  const std::int64_t count = more.size(1);
  if (count > 0) grow(count, count).narrow(1, size() - count, count).copy_(more);
}

void Rows::drop_front(std::int64_t count) {
  assert(count <= size());
  begin_ += count;
  // After a long block the few rows that are left go into little memory.
  if (memory_ && count > 0 && memory_->capacity() > std::max(reserved_, 4 * (size() + kLeast))) {
    move_out(0);
  }
}

std::int64_t Rows::bytes() const { return defined() ? bytes_of(view()) : 0; }

std::int64_t Rows::allocated_bytes() const { return memory_ ? bytes_of(memory_->rows) : 0; }

HeadRows::HeadRows(const torch::Tensor& like, std::int64_t reserved)
    : rows_(like, reserved), counts_(static_cast<std::size_t>(like.size(2)), 0) {}

torch::Tensor HeadRows::head(std::int64_t head) const {
  return rows_.view().select(2, head).narrow(1, 0, count(head));
}

torch::Tensor HeadRows::room_for(const std::vector<std::int64_t>& counts) {
  std::int64_t most = rows_.size();
  bool even = true;
  for (std::size_t head = 0; head < counts_.size(); ++head) {
    const std::int64_t after = counts_[head] + counts[head];
    even = even && after == counts_[0] + counts[0];
    most = std::max(most, after);
  }
  const std::int64_t added = most - rows_.size();
  const torch::Tensor all =
      rows_.grow(added, std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  if (!even && added > 0) all.narrow(1, most - added, added).zero_();
  return all;
}

void HeadRows::append(const torch::Tensor& more, const std::vector<std::int64_t>& counts) {
  assert(counts.size() == counts_.size());
  const torch::Tensor all = room_for(counts);
  const bool even = std::ranges::all_of(counts, [&](auto c) { return c == counts[0]; }) &&
                    std::ranges::all_of(counts_, [&](auto c) { return c == counts_[0]; });
  if (even) {
    all.narrow(1, counts_[0], counts[0]).copy_(more.narrow(1, 0, counts[0]));
  } else {
    for (std::size_t head = 0; head < counts.size(); ++head) {
      const auto index = static_cast<std::int64_t>(head);
      all.select(2, index)
          .narrow(1, counts_[head], counts[head])
          .copy_(more.select(2, index).narrow(1, 0, counts[head]));
    }
  }
  for (std::size_t head = 0; head < counts.size(); ++head) counts_[head] += counts[head];
}

void HeadRows::append_one(const torch::Tensor& more, std::int64_t first_head) {
  const auto first = static_cast<std::size_t>(first_head);
  const std::int64_t heads = more.size(2), place = counts_[first];
  std::vector<std::int64_t> counts(counts_.size(), 0);
  for (std::size_t head = first; head < first + static_cast<std::size_t>(heads); ++head) {
    assert(counts_[head] == place);
    counts[head] = 1;
  }
  room_for(counts).narrow(1, place, 1).narrow(2, first_head, heads).copy_(more);
  for (std::size_t head = 0; head < counts.size(); ++head) counts_[head] += counts[head];
}

HeadRows HeadRows::repeated(std::int64_t times) const {
  HeadRows result = *this;
  if (defined()) result.rows_ = Rows::of(view().repeat({times, 1, 1, 1}));
  return result;
}

std::int64_t HeadRows::bytes() const {
  if (!defined()) return 0;
  const torch::Tensor all = view();
  const std::int64_t entries = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
  return all.size(0) * entries * all.size(3) * static_cast<std::int64_t>(all.element_size());
}

}  // namespace kvphase::compress
