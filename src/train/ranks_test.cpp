#include "train/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <torch/torch.h>
#include <unistd.h>

#include <thread>

#include "base/random.h"
#include "tests/support/free_port.h"

namespace kvphase::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Runs `work` as every rank, each on a thread of its own; returns what each threw.
std::vector<std::string> run_ranks(const std::vector<Launch>& launches,
                                   const std::function<void(Ranks&)>& work) {
  std::vector<std::string> errors(launches.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        Ranks ranks(launches[i]);
        work(ranks);
        ranks.leave();
      } catch (const LostRank& lost) {
        errors[i] = lost.at("here");
      } catch (const std::exception& error) {
        errors[i] = error.what();
      }
    });
  }
  threads.clear();
  return errors;
}

std::vector<Launch> launches(std::int64_t ranks, double join_seconds = 20) {
  const std::uint16_t port = test::free_port();
  std::vector<Launch> list;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    list.push_back({.rank = rank,
                    .ranks = ranks,
                    .address = "127.0.0.1",
                    .port = port,
                    .join_seconds = join_seconds,
                    .silent_seconds = 5});
  }
  return list;
}

// Numbers whose sum depends on its order in most elements.
torch::Tensor part_of(std::int64_t rank, std::int64_t count) {
  base::Random random(base::derive_seed(1, "part", {static_cast<std::uint64_t>(rank)}));
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(random.uniform() - 0.5));
  }
  return torch::tensor(values);
}

TEST(Ranks, SumsBitForBitInTheOrderOfTheRanks) {
  // The last size takes several messages, the last one short.
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{1000}, std::int64_t{2'500'003}}) {
    for (const std::int64_t size : {1, 2, 3, 5}) {
      if (count > 1000 && size > 3) continue;
      torch::Tensor expected = torch::full({count}, 0.25);  // the start value on rank 0
      for (std::int64_t rank = 0; rank < size; ++rank) expected.add_(part_of(rank, count));
      torch::Tensor backwards = torch::full({count}, 0.25);
      for (std::int64_t rank = size; rank-- > 0;) backwards.add_(part_of(rank, count));
      const auto errors = run_ranks(launches(size), [&](Ranks& ranks) {
        const torch::Tensor part = part_of(ranks.rank(), count);
        for (int round = 0; round < 2; ++round) {
          const torch::Tensor sum = torch::full({count}, ranks.first() ? 0.25 : 77.0);
          ranks.sum_parts(sum, [&](std::int64_t begin, std::int64_t end) {
            sum.narrow(0, begin, end - begin).add_(part.narrow(0, begin, end - begin));
          });
          EXPECT_TRUE(torch::equal(sum, expected))
              << "rank " << ranks.rank() << " of " << size << ", " << count << " numbers";
        }
      });
      for (const std::string& error : errors) EXPECT_EQ(error, "");
      if (size > 2 && count > 1) {
        EXPECT_FALSE(torch::equal(backwards, expected)) << "a weak test";
      }
    }
  }
}

TEST(Ranks, EveryRankGetsWhatTheFirstOneHas) {
  const auto errors = run_ranks(launches(3), [](Ranks& ranks) {
    const std::string text = fmt::format("rank {}", ranks.rank());
    EXPECT_EQ(ranks.text_of_first(text), "rank 0");
    EXPECT_EQ(ranks.text_of_first(ranks.first() ? "" : "else"), "");
    const torch::Tensor values =
        torch::full({7}, static_cast<double>(ranks.rank() + 3), torch::kDouble);
    ranks.copy_from_first(values);
    EXPECT_TRUE(torch::equal(values, torch::full({7}, 3.0, torch::kDouble)));
    for (std::int64_t one = 0; one < 3; ++one) EXPECT_TRUE(ranks.any(ranks.rank() == one));
    EXPECT_FALSE(ranks.any(false));
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(Ranks, ARankThatEndsWithAnErrorIsNamedWithIt) {
  const auto errors = run_ranks(launches(3), [](Ranks& ranks) {
    ranks.wait_for_all();
    if (ranks.rank() == 2) {
      ranks.leave_with(base::ErrorKind::kEnvironment, "[disk] expected space, got none");
      return;
    }
    ranks.wait_for_all();
    ADD_FAILURE() << "rank " << ranks.rank() << " noticed nothing";
  });
  EXPECT_EQ(errors[2], "");
  for (const std::size_t rank : {0U, 1U}) {
    EXPECT_THAT(errors[rank], AllOf(HasSubstr("rank 2 of 3 ("),
                                    HasSubstr(") ended here: [disk] expected space, got none")));
  }
}

TEST(Ranks, ASlowRankIsWaitedForLongerThanASilentOne) {
  auto two = launches(2);
  for (Launch& launch : two) launch.silent_seconds = 1;
  const auto errors = run_ranks(two, [](Ranks& ranks) {
    if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    EXPECT_TRUE(ranks.any(ranks.rank() == 1));
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(Ranks, MissingRanksAreNamed) {
  auto four = launches(4, 1);
  const std::vector<Launch> there = {four[0], four[2]};
  const auto errors = run_ranks(there, [](Ranks&) { ADD_FAILURE(); });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("expected 4 processes within 1 s, got no sign of rank 1, 3;"));
  }
}

TEST(Ranks, ContradictingPlacesAreRefused) {
  auto two = launches(2, 2);
  two[1].ranks = 3;
  for (const std::string& error : run_ranks(two, [](Ranks&) { ADD_FAILURE(); })) {
    EXPECT_THAT(error, HasSubstr("expected the same WORLD_SIZE on every rank, got 2 on rank 0 and "
                                 "3 on rank 1"));
  }
  auto three = launches(3, 2);
  three[2].rank = 1;
  const auto errors = run_ranks(three, [](Ranks&) { ADD_FAILURE(); });
  EXPECT_THAT(errors[0], HasSubstr("got no sign of rank 2"));
  const bool second = errors[1].find("twice") != std::string::npos;
  EXPECT_THAT(errors[second ? 1 : 2],
              HasSubstr("expected a RANK of its own for every process, got 1 twice"));
}

TEST(Ranks, AnUnreachableFirstRankAndATakenPortAreSaid) {
  auto two = launches(2, 1);
  EXPECT_THAT(
      run_ranks({two[1]}, [](Ranks&) { ADD_FAILURE(); })[0],
      AllOf(HasSubstr("expected rank 0 of 2 to listen at MASTER_ADDR:MASTER_PORT 127.0.0.1"),
            HasSubstr("Connection refused")));
  two[1].address = "no-such-host.invalid";
  EXPECT_THAT(run_ranks({two[1]}, [](Ranks&) { ADD_FAILURE(); })[0],
              HasSubstr("no-such-host.invalid"));

  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(listener, 8), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  auto taken = launches(2, 1);
  for (Launch& launch : taken) launch.port = ntohs(address.sin_port);
  EXPECT_THAT(run_ranks({taken[0]}, [](Ranks&) { ADD_FAILURE(); })[0],
              AllOf(HasSubstr("expected MASTER_PORT"), HasSubstr("Address already in use")));
  // Somebody listens who never answers.
  EXPECT_THAT(run_ranks({taken[1]}, [](Ranks&) { ADD_FAILURE(); })[0],
              HasSubstr("expected the store of rank 0"));
  // The listener stays open: c10d's own thread, left behind by the wait, ends the process when its
  // unanswered connection is reset.
}

}  // namespace
}  // namespace kvphase::train
