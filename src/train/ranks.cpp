#include "train/ranks.h"

#include <torch/torch.h>

#include <cassert>
#include <cstring>

#include "train/exchange.h"

namespace kvphase::train {

LostRank::LostRank(std::int64_t lost_rank, std::string lost_name, base::ErrorKind error_kind,
                   std::string last_words)
    : std::runtime_error(fmt::format("{} is lost", lost_name)),
      rank(lost_rank),
      name(std::move(lost_name)),
      kind(error_kind),
      error(std::move(last_words)) {}

std::string LostRank::at(std::string_view when) const {
  return error.empty() ? fmt::format("{} is gone {}", name, when)
                       : fmt::format("{} ended {}: {}", name, when, error);
}

// Destroyed from the bottom: the exchange before the watch it waits by, the store that rank 0
// serves last.
struct Ranks::Group {
  Meeting meeting;
  std::unique_ptr<RankWatch> watch;
  std::unique_ptr<Exchange> exchange;
};

Ranks::Ranks() = default;

Ranks::Ranks(const Launch& launch)
    : rank_(launch.rank), size_(launch.ranks), local_rank_(launch.local_rank) {
  if (size_ == 1) return;
  group_ = std::make_unique<Group>();
  Group& group = *group_;
  group.meeting = meet(launch);
  group.watch = std::make_unique<RankWatch>(
      std::move(group.meeting.second_store),
      RankWatch::Place{.rank = rank_,
                       .names = group.meeting.names,
                       .silent = std::chrono::milliseconds(
                           static_cast<std::int64_t>(1000 * launch.silent_seconds))});
  try {
    group.exchange = launch.backend == Backend::kNccl
                         ? connect_nccl(launch, group.meeting, *group.watch)
                         : connect_gloo(launch, group.meeting, *group.watch);
  } catch (const LostRank& lost) {
    throw base::Error(lost.kind, "train", lost.at("before the first step"));
  } catch (const base::Error& error) {
    leave_with(error.kind(), error.what());
    throw;
  }
}

Ranks::~Ranks() = default;

bool Ranks::takes(const torch::Device& device) const {
  return !group_ || device.is_cpu() || group_->exchange->takes_gpu();
}

void Ranks::sum_parts(const torch::Tensor& sum, const AddPart& add) {
  if (group_) {
    group_->exchange->sum_parts(sum, add);
  } else {
    add(0, sum.numel());
  }
}

void Ranks::copy_from_first(const torch::Tensor& values) {
  if (group_) group_->exchange->copy_from_first(values);
}

std::string Ranks::text_of_first(const std::string& text) {
  if (!group_) return text;
  const torch::Tensor size = torch::full({1}, static_cast<std::int64_t>(text.size()), torch::kLong);
  copy_from_first(size);
  const torch::Tensor bytes = torch::empty({size.item<std::int64_t>()}, torch::kByte);
  if (first()) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  copy_from_first(bytes);
  return {static_cast<const char*>(bytes.data_ptr()), static_cast<std::size_t>(bytes.numel())};
}

bool Ranks::any(bool mine) {
  if (!group_) return mine;
  const torch::Tensor count = torch::zeros({1}, torch::kLong);
  sum_parts(count, [&](std::int64_t, std::int64_t) { count.add_(mine ? 1 : 0); });
  return count.item<std::int64_t>() > 0;
}

void Ranks::leave() {
  if (group_) group_->watch->leave(std::nullopt);
}

void Ranks::leave_with(base::ErrorKind kind, const std::string& error) {
  if (!group_) return;
  const std::string& name = group_->meeting.names[static_cast<std::size_t>(rank_)];
  group_->watch->leave(LostRank(rank_, name, kind, error));
}

}  // namespace kvphase::train
