// One process's place among the processes of a training, as launchers tell it (torchrun, mpirun or
// srun with a line of shell, or a shell loop): PyTorch's variables, so that what starts a PyTorch
// training starts this one. Knows no tensors and no network.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace kvphase::train {

enum class Backend {
  kGloo,  // sums on the CPU, in an order that depends on nothing: any number of processes gives the
          // same bits
  kNccl,  // sums on GPUs, in NCCL's order
};

struct Launch {
  std::int64_t rank = 0;        // RANK
  std::int64_t ranks = 1;       // WORLD_SIZE
  std::int64_t local_rank = 0;  // LOCAL_RANK: among those of this machine; the GPU's number
  std::string address;          // MASTER_ADDR: where rank 0 runs
  std::uint16_t port = 0;       // MASTER_PORT: where rank 0 listens
  // torchrun's agent already serves a store there (TORCHELASTIC_USE_AGENT_STORE) ...
  bool store_is_served = false;
  std::int64_t attempt = 0;  // ... to this attempt of its (TORCHELASTIC_RESTART_COUNT)

  Backend backend = Backend::kGloo;
  double join_seconds = 300;   // the longest wait for all ranks at the start
  double silent_seconds = 60;  // a rank that gives no sign for so long counts as lost
};

using Environment = std::function<const char*(const char* name)>;  // as std::getenv

// Empty when neither RANK nor WORLD_SIZE is set: one process on its own. Throws a usage error when
// they are set but not usable.
std::optional<Launch> launch_from_environment(const Environment& environment);

}  // namespace kvphase::train
