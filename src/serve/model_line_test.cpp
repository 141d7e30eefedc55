#include "serve/model_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace kvphase::serve {
namespace {

using namespace std::chrono_literals;

// Runs `count` threads that enter in the order 0, 1, ...; once joined, what they saw is in `served`
// and `refused`.
struct Crowd {
  Crowd(ModelLine& line, int count) {
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([this, &line, i] {
        const ModelLine::Entry entry = line.enter();
        const std::lock_guard lock(mutex);
        (entry.turn ? served : refused).push_back(i);
      });
      std::this_thread::sleep_for(20ms);  // so that the order of arrival is known
    }
  }
  ~Crowd() { join(); }
  std::vector<int> refused_so_far() {
    const std::lock_guard lock(mutex);
    return refused;
  }
  void join() {
    for (std::thread& thread : threads) {
      if (thread.joinable()) thread.join();
    }
  }
  std::mutex mutex;
  std::vector<int> served, refused;
  std::vector<std::thread> threads;
};

TEST(ModelLine, ServesInTheOrderOfArrivalAndRefusesBeyondTheBound) {
  ModelLine line(3);
  ModelLine::Entry holder = line.enter();
  ASSERT_TRUE(holder.turn);
  Crowd crowd(line, 5);
  EXPECT_THAT(crowd.refused_so_far(), ::testing::ElementsAre(3, 4));
  holder.turn.reset();
  crowd.join();
  EXPECT_THAT(crowd.served, ::testing::ElementsAre(0, 1, 2));
}

TEST(ModelLine, ClosingSendsTheWaitingAwayAndKeepsTheHolder) {
  ModelLine line(3);
  const ModelLine::Entry holder = line.enter();
  Crowd crowd(line, 2);
  line.close();
  crowd.join();
  EXPECT_EQ(crowd.refused.size(), 2u);
  EXPECT_TRUE(holder.turn);
  const ModelLine::Entry late = line.enter();
  EXPECT_FALSE(late.turn);
  EXPECT_EQ(late.refusal, ModelLine::Refusal::kClosed);
}

TEST(ModelLine, WithoutWaitersOnlyOneIsServed) {
  ModelLine line(0);
  ModelLine::Entry holder = line.enter();
  EXPECT_TRUE(holder.turn);
  EXPECT_FALSE(line.enter().turn);
  holder.turn.reset();
  EXPECT_TRUE(line.enter().turn);
}

}  // namespace
}  // namespace kvphase::serve
