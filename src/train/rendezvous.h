// Where the processes of a training meet: rank 0 serves a c10d store at MASTER_ADDR:MASTER_PORT
// (or torchrun does), the others come to it, and everybody learns who is there. Knows no sums.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "train/launch.h"

namespace kvphase::train {

struct Meeting {
  c10::intrusive_ptr<c10d::Store> store;         // of the main thread; on rank 0 also the server
  c10::intrusive_ptr<c10d::Store> second_store;  // another connection to the same keys
  std::vector<std::string> names;                // of all ranks: "rank 1 of 2 (host, pid 7)"
  std::string address;                           // of this machine, as the others can reach it
};

// Returns when all ranks are there. Throws an environment error naming the missing ones when they
// do not come in time, when the port is taken or nobody listens there; a usage error when two
// processes have the same RANK or another WORLD_SIZE; an interruption when a stop is requested.
Meeting meet(const Launch& launch);

// Runs work that may block for ever on a thread of its own and waits for it; `look` is called about
// ten times a second and may throw. Work must own what it needs.
void run_watched(std::function<void()> work, const std::function<void()>& look);

}  // namespace kvphase::train
