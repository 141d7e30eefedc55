// Signs of life among the processes of a training, through keys of a c10d store: each counts up a
// pulse of its own; rank 0 watches all, the others rank 0 and its verdict. A broken connection says
// that somebody is lost, silence says who. Must not know what the processes do.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "train/ranks.h"

namespace kvphase::train {

class RankWatch {
 public:
  struct Place {
    std::int64_t rank = 0;
    std::vector<std::string> names;    // of all ranks: "rank 1 of 2 (host, pid 7)"
    std::chrono::milliseconds silent;  // a rank without a sign for so long is lost
  };

  // The store's connection must be used by nobody else: its calls may block.
  RankWatch(c10::intrusive_ptr<c10d::Store> store, Place place);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  // Waits for a piece of communication, however long it takes; throws LostRank once a rank is lost.
  void finish(const c10::intrusive_ptr<c10d::Work>& work);
  void throw_if_lost() const;
  // A connection broke: waits until it is known who is lost.
  [[noreturn]] void throw_after_break(const std::string& what);

  // Last words; rank 0 stays a moment until the others have read or left theirs.
  void leave(std::optional<LostRank> error);

 private:
  struct State;
  void guard();

  std::shared_ptr<State> state_;
  std::thread pulse_;
  std::thread guard_;
};

}  // namespace kvphase::train
