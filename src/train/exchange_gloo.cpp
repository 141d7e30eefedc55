// Gloo: the sum goes along the ranks as round a ring. First 0 -> 1 -> .. -> R-1, each adding its
// part to what it received, so that the parts are added in the order of the ranks; then the total
// R-1 -> 0 -> .. -> R-2. Every link carries the sum twice, in pieces that overlap: as much traffic
// as a ring all-reduce, which saves the R hops of latency but adds in another order per element.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <cassert>
#include <vector>

#include "train/exchange.h"

namespace kvphase::train {
namespace {

constexpr std::int64_t kPieceBytes = 4 << 20;  // long against a message's latency, short to overlap

// Elements begin..end-1 of consecutive pieces.
template <typename Use>
void for_pieces(const torch::Tensor& tensor, const Use& use) {
  assert(tensor.dim() == 1 && tensor.is_contiguous() && tensor.is_cpu());
  const std::int64_t count = tensor.numel();
  const auto piece = static_cast<std::int64_t>(kPieceBytes / tensor.element_size());
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    use(begin, std::min(count, begin + piece));
  }
}

class GlooRing : public Exchange {
 public:
  GlooRing(c10::intrusive_ptr<c10d::ProcessGroupGloo> group, std::int64_t rank, std::int64_t ranks,
           RankWatch& watch)
      : group_(std::move(group)), rank_(rank), ranks_(ranks), watch_(watch) {}

  void sum_parts(const torch::Tensor& sum, const AddPart& add) override {
    const bool last = rank_ == ranks_ - 1;
    for_pieces(sum, [&](std::int64_t begin, std::int64_t end) {
      if (rank_ != 0) receive(sum, begin, end);
      add(begin, end);
      send(sum, begin, end);  // of the last rank: already the total
    });
    if (!last) {
      for_pieces(sum, [&](std::int64_t begin, std::int64_t end) {
        receive(sum, begin, end);
        if (rank_ != ranks_ - 2) send(sum, begin, end);
      });
    }
    finish_sends();
  }

  void copy_from_first(const torch::Tensor& values) override {
    for_pieces(values, [&](std::int64_t begin, std::int64_t end) {
      if (rank_ != 0) receive(values, begin, end);
      if (rank_ != ranks_ - 1) send(values, begin, end);
    });
    finish_sends();
  }

 private:
  void send(const torch::Tensor& tensor, std::int64_t begin, std::int64_t end) {
    std::vector<torch::Tensor> piece{tensor.narrow(0, begin, end - begin)};
    const auto next = static_cast<int>((rank_ + 1) % ranks_);
    try {
      sends_.push_back(group_->send(piece, next, 0));
    } catch (const std::exception& error) {
      watch_.throw_after_break(error.what());
    }
  }
  void receive(const torch::Tensor& tensor, std::int64_t begin, std::int64_t end) {
    std::vector<torch::Tensor> piece{tensor.narrow(0, begin, end - begin)};
    const auto previous = static_cast<int>((rank_ + ranks_ - 1) % ranks_);
    c10::intrusive_ptr<c10d::Work> work;
    try {
      work = group_->recv(piece, previous, 0);
    } catch (const std::exception& error) {
      watch_.throw_after_break(error.what());
    }
    watch_.finish(work);
  }
  void finish_sends() {
    for (const auto& work : sends_) watch_.finish(work);
    sends_.clear();
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::int64_t rank_;
  std::int64_t ranks_;
  RankWatch& watch_;
  std::vector<c10::intrusive_ptr<c10d::Work>> sends_;
};

}  // namespace

std::unique_ptr<Exchange> connect_gloo(const Launch& launch, const Meeting& meeting,
                                       RankWatch& watch) {
  struct Connected {
    c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  };
  const auto connected = std::make_shared<Connected>();
  const auto work = [connected, launch, store = meeting.store, address = meeting.address] {
    const auto options = c10d::ProcessGroupGloo::Options::create(
        std::chrono::milliseconds(static_cast<std::int64_t>(1000 * launch.join_seconds)));
    options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname(address)};
    options->threads = 1;
    connected->group = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("gloo", store), static_cast<int>(launch.rank),
        static_cast<int>(launch.ranks), options);
  };
  try {
    run_watched(work, [&] { watch.throw_if_lost(); });
  } catch (const LostRank&) {
    throw;
  } catch (const std::exception& error) {
    watch.throw_after_break(error.what());
  }
  return std::make_unique<GlooRing>(connected->group, launch.rank, launch.ranks, watch);
}

}  // namespace kvphase::train
