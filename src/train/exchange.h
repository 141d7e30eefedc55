// How sums travel between the processes: one interface, one implementation per backend of c10d.
#pragma once

#include <memory>

#include "train/rank_watch.h"
#include "train/ranks.h"
#include "train/rendezvous.h"

namespace kvphase::train {

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual bool takes_gpu() const { return false; }                           // see Ranks::takes
  virtual void sum_parts(const torch::Tensor& sum, const AddPart& add) = 0;  // Ranks::sum_parts
  virtual void copy_from_first(const torch::Tensor& values) = 0;
};

// Connects this process with the others; `watch` and the meeting's main store are used for it.
std::unique_ptr<Exchange> connect_gloo(const Launch& launch, const Meeting& meeting,
                                       RankWatch& watch);
// Throws a usage error where torch was built without NCCL.
std::unique_ptr<Exchange> connect_nccl(const Launch& launch, const Meeting& meeting,
                                       RankWatch& watch);

}  // namespace kvphase::train
