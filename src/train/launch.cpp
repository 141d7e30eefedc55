#include "train/launch.h"

#include <charconv>
#include <limits>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kvphase::train {
namespace {

using base::usage_error;

std::optional<std::string> value(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::string(text);
}

std::int64_t whole(const char* name, const std::string& text, std::int64_t least, std::int64_t most,
                   std::string_view hint) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < least || number > most) {
    throw usage_error("train", "expected {} of {} to {}, got '{}'; {}", name, least, most, text,
                      hint);
  }
  return number;
}

}  // namespace

std::optional<Launch> launch_from_environment(const Environment& environment) {
  const auto rank = value(environment, "RANK");
  const auto ranks = value(environment, "WORLD_SIZE");
  if (!rank && !ranks) return std::nullopt;
  const auto address = value(environment, "MASTER_ADDR");
  const auto port = value(environment, "MASTER_PORT");
  std::string set;
  std::string unset;
  const auto sort = [&](const char* name, bool is_set) {
    std::string& list = is_set ? set : unset;
    if (!list.empty()) list += ", ";
    list += name;
  };
  sort("RANK", rank.has_value());
  sort("WORLD_SIZE", ranks.has_value());
  sort("MASTER_ADDR", address.has_value());
  sort("MASTER_PORT", port.has_value());
  if (!unset.empty()) {
    throw usage_error("train",
                      "expected RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT together, got {} "
                      "without {}; set all of them for several processes, or unset RANK and "
                      "WORLD_SIZE for one",
                      set, unset);
  }
  Launch launch;
  launch.ranks = whole("WORLD_SIZE", *ranks, 1, 65536, "it is the number of processes");
  launch.rank =
      whole("RANK", *rank, 0, launch.ranks - 1, "the ranks of WORLD_SIZE processes count from 0");
  launch.address = *address;
  launch.port = static_cast<std::uint16_t>(whole("MASTER_PORT", *port, 1,
                                                 std::numeric_limits<std::uint16_t>::max(),
                                                 "it is a free port of rank 0's machine"));
  if (const auto local = value(environment, "LOCAL_RANK")) {
    launch.local_rank = whole("LOCAL_RANK", *local, 0, launch.ranks - 1,
                              "it counts the processes of one machine from 0");
  }
  launch.store_is_served = value(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (const auto attempt = value(environment, "TORCHELASTIC_RESTART_COUNT")) {
    launch.attempt = whole("TORCHELASTIC_RESTART_COUNT", *attempt, 0, 1'000'000'000,
                           "torchrun counts its restarts in it");
  }
  return launch;
}

}  // namespace kvphase::train
