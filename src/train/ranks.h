// The processes of one training: they meet, sum, agree, and notice when one of them is lost. Must
// not know networks, files or progress. Over torch.distributed's C++ library (c10d).
//
// Every process must call the same functions in the same order. Each waits for the others as long
// as they give signs of life, however slow they are, and throws LostRank when one does not.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/error.h"
#include "train/launch.h"

namespace kvphase::train {

// Another process ended or gives no sign of life.
struct LostRank : std::runtime_error {
  std::int64_t rank;
  std::string name;      // "rank 1 of 2 (host, pid 7)"
  base::ErrorKind kind;  // of its error; environment when it left without a word
  std::string error;     // its last words; empty: none

  LostRank(std::int64_t lost_rank, std::string lost_name, base::ErrorKind error_kind,
           std::string last_words);
  // "rank 1 of 2 (host, pid 7) is gone after step 3", or "... ended after step 3: its error".
  std::string at(std::string_view when) const;
};

// Adds this process's part to elements begin .. end-1 of a sum.
using AddPart = std::function<void(std::int64_t begin, std::int64_t end)>;

class Ranks {
 public:
  Ranks();  // one process on its own: nothing below waits
  // Meets the other processes. Throws an environment error when they do not all come in time, a
  // usage error when their places contradict each other, an interruption when a stop is requested.
  explicit Ranks(const Launch& launch);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  std::int64_t rank() const { return rank_; }
  std::int64_t size() const { return size_; }
  bool first() const { return rank_ == 0; }                // the one that writes and speaks
  std::int64_t local_rank() const { return local_rank_; }  // among those of this machine

  // Whether sums are taken from such a device as they are. The CPU always is.
  bool takes(const torch::Device& device) const;
  // `sum` [P], contiguous on a device that is taken, holds the start value on rank 0. Each rank
  // adds its part by `add`, called for pieces of it in order; afterwards every rank holds the same
  // total. Gloo: parts are added one after the other in the order of the ranks, as one process with
  // all parts would. NCCL: in an order of its own.
  void sum_parts(const torch::Tensor& sum, const AddPart& add);
  void copy_from_first(const torch::Tensor& values);  // [P], contiguous on the CPU
  std::string text_of_first(const std::string& text);
  bool any(bool mine);  // whether it holds for any rank
  void wait_for_all() { any(false); }

  // Says goodbye, so that nobody takes this process for lost. Call at the end, once.
  void leave();
  void leave_with(base::ErrorKind kind, const std::string& error);

 private:
  struct Group;
  std::int64_t rank_ = 0;
  std::int64_t size_ = 1;
  std::int64_t local_rank_ = 0;
  std::unique_ptr<Group> group_;  // null: on its own
};

}  // namespace kvphase::train
