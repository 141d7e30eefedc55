// NCCL: parts are summed on the GPUs by one all-reduce. Compiled with KVPHASE_HAS_NCCL where torch
// has it.
#include "train/exchange.h"

#ifdef KVPHASE_HAS_NCCL
#include <c10/cuda/CUDAFunctions.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <thread>
#include <vector>
#endif

namespace kvphase::train {

#ifdef KVPHASE_HAS_NCCL
namespace {

class NcclAllReduce : public Exchange {
 public:
  NcclAllReduce(c10::intrusive_ptr<c10d::ProcessGroupNCCL> group, torch::Device device,
                RankWatch& watch)
      : group_(std::move(group)), device_(device), watch_(watch) {}

  bool takes_gpu() const override { return true; }
  void sum_parts(const torch::Tensor& sum, const AddPart& add) override {
    add(0, sum.numel());
    std::vector<torch::Tensor> on_gpu{sum.to(device_)};
    finish(group_->allreduce(on_gpu));
    sum.copy_(on_gpu[0]);
  }
  void copy_from_first(const torch::Tensor& values) override {
    std::vector<torch::Tensor> on_gpu{values.to(device_)};
    finish(group_->broadcast(on_gpu));
    values.copy_(on_gpu[0]);
  }

 private:
  // Its own wait cannot be woken, so it is asked until it is done.
  void finish(const c10::intrusive_ptr<c10d::Work>& work) {
    try {
      while (!work->isCompleted()) {
        watch_.throw_if_lost();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      work->wait();
    } catch (const LostRank&) {
      throw;
    } catch (const std::exception& error) {
      watch_.throw_after_break(error.what());
    }
  }

  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
  torch::Device device_;
  RankWatch& watch_;
};

}  // namespace

std::unique_ptr<Exchange> connect_nccl(const Launch& launch, const Meeting& meeting,
                                       RankWatch& watch) {
  const auto gpus = static_cast<std::int64_t>(c10::cuda::device_count());
  if (launch.local_rank >= gpus) {
    throw base::usage_error("train",
                            "expected a GPU for every rank of a machine (LOCAL_RANK below {}), got "
                            "LOCAL_RANK {}; NCCL needs one each, --backend gloo none",
                            gpus, launch.local_rank);
  }
  const torch::Device device(torch::kCUDA, static_cast<c10::DeviceIndex>(launch.local_rank));
  c10::cuda::set_device(device.index());
  const auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>("nccl", meeting.store), static_cast<int>(launch.rank),
      static_cast<int>(launch.ranks));
  return std::make_unique<NcclAllReduce>(group, device, watch);
}
#else
std::unique_ptr<Exchange> connect_nccl(const Launch&, const Meeting&, RankWatch&) {
  throw base::usage_error("train",
                          "expected --backend gloo, got nccl; the torch of this build has no NCCL");
}
#endif

}  // namespace kvphase::train
