#include "stats/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace kvphase::stats {
namespace {

TEST(Parallel, EveryPartIsDoneOnce) {
  for (const std::size_t parts : {0, 1, 2, 100}) {
    std::vector<std::atomic<int>> done(parts);
    for_each_part(parts, [&](std::size_t part) { ++done[part]; });
    for (std::size_t i = 0; i < parts; ++i) EXPECT_EQ(done[i], 1) << "part " << i;
  }
}

TEST(Parallel, AFailureInAnyPartReachesTheCaller) {
  for (const std::size_t bad : {0, 7, 19}) {
    const auto work = [&](std::size_t part) {
      if (part == bad) throw std::runtime_error("part failed");
    };
    EXPECT_THROW(for_each_part(20, work), std::runtime_error) << "part " << bad;
  }
}

}  // namespace
}  // namespace kvphase::stats
