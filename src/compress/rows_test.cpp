#include "compress/rows.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"

namespace kvphase::compress {
namespace {

using torch::Tensor;

Tensor numbers(std::int64_t rows, base::Random& random) {  // [2, rows, 3, 1]
  Tensor result = torch::empty({2, rows, 3, 1}, torch::kDouble);
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    result.data_ptr<double>()[i] = random.uniform();
  }
  return result;
}

std::int64_t draw(base::Random& random, std::int64_t below) {
  return static_cast<std::int64_t>(random.uniform_index(static_cast<std::uint64_t>(below)));
}

struct Held {
  Rows rows;
  Tensor expected;  // [2, n, 3, 1]
};

TEST(Rows, EveryCopyHoldsWhatItWasGivenWhateverTheOthersDo) {
  base::Random random(1);
  int compared = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const Tensor none = numbers(0, random);
    std::vector<Held> copies = {{Rows(none, trial % 3 == 0 ? 40 : 0), none}};
    for (int step = 0; step < 60; ++step) {
      const auto at = static_cast<std::size_t>(draw(random, std::ssize(copies)));
      switch (draw(random, 6)) {
        case 0:
          copies.push_back(copies[at]);
          break;
        case 1:
          if (copies.size() > 1) copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(at));
          break;
        case 2: {
          const std::int64_t count = draw(random, copies[at].rows.size() + 1);
          copies[at].rows.drop_front(count);
          copies[at].expected =
              copies[at].expected.narrow(1, count, copies[at].expected.size(1) - count);
          break;
        }
        default: {
          const Tensor more = numbers(draw(random, 10) == 0 ? 100 : draw(random, 4), random);
          copies[at].rows.append(more);
          copies[at].expected = torch::cat({copies[at].expected, more}, 1);
        }
      }
      for (const Held& copy : copies) {
        ASSERT_EQ(copy.rows.size(), copy.expected.size(1)) << "trial " << trial << " step " << step;
        ASSERT_TRUE(torch::equal(copy.rows.view(), copy.expected))
            << "trial " << trial << " step " << step << "\n"
            << copy.rows.view().flatten() << "\n"
            << copy.expected.flatten();
        ASSERT_EQ(copy.rows.bytes(), 2 * 3 * 8 * copy.expected.size(1));
        ++compared;
      }
    }
  }
  std::printf("%d copies compared\n", compared);
}

TEST(HeadRows, EveryCopyHoldsWhatItsHeadsWereGiven) {
  base::Random random(2);
  struct HeadsHeld {
    HeadRows rows;
    std::vector<Tensor> expected;  // per head [2, n, 1]
  };
  for (int trial = 0; trial < 60; ++trial) {
    const Tensor none = numbers(0, random);
    std::vector<HeadsHeld> copies = {{HeadRows(none), std::vector<Tensor>(3, none.select(2, 0))}};
    for (int step = 0; step < 60; ++step) {
      for (const std::int64_t rows : {17, 20, 40}) {  // memory that is taken next is not clean
        torch::full({2, rows, 3, 1}, NAN, torch::kDouble);
      }
      const auto at = static_cast<std::size_t>(draw(random, std::ssize(copies)));
      HeadsHeld& copy = copies[at];
      const auto extend = [&](std::int64_t head, const Tensor& more) {  // [2, n, 1]
        Tensor& held = copy.expected[static_cast<std::size_t>(head)];
        held = torch::cat({held, more}, 1);
      };
      switch (draw(random, 5)) {
        case 0:
          copies.push_back(HeadsHeld(copy));
          break;
        case 1:
          if (copies.size() > 1) copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(at));
          break;
        case 2: {
          const Tensor more = numbers(4, random);
          std::vector<std::int64_t> counts;
          for (std::int64_t head = 0; head < 3; ++head) {
            counts.push_back(step % 2 == 0 ? 2 : draw(random, 4));
            extend(head, more.select(2, head).narrow(1, 0, counts.back()));
          }
          copy.rows.append(more, counts);
          break;
        }
        default: {
          const std::int64_t first = draw(random, 3);
          std::int64_t heads = 1;
          while (first + heads < 3 && copy.rows.count(first + heads) == copy.rows.count(first)) {
            ++heads;
          }
          const Tensor more = numbers(1, random).narrow(2, 0, heads);
          for (std::int64_t head = 0; head < heads; ++head) {
            extend(first + head, more.select(2, head));
          }
          copy.rows.append_one(more, first);
        }
      }
      for (const HeadsHeld& each : copies) {
        std::int64_t entries = 0, most = 0;
        for (std::int64_t head = 0; head < 3; ++head) {
          const Tensor& expected = each.expected[static_cast<std::size_t>(head)];
          ASSERT_TRUE(torch::equal(each.rows.head(head), expected))
              << "trial " << trial << " step " << step << " head " << head << "\n"
              << each.rows.head(head).flatten() << "\n"
              << expected.flatten();
          entries += expected.size(1);
          most = std::max(most, expected.size(1));
        }
        ASSERT_EQ(each.rows.bytes(), 2 * 8 * entries);
        ASSERT_EQ(each.rows.view().size(1), most);
        ASSERT_TRUE(each.rows.view().isfinite().all().item<bool>());
        const HeadRows twice = each.rows.repeated(2);
        ASSERT_TRUE(torch::equal(twice.head(1).narrow(0, 2, 2), each.expected[1]));
        ASSERT_EQ(twice.bytes(), 2 * each.rows.bytes());
      }
    }
  }
}

TEST(Rows, OfCopiesOneGoesOnInPlaceAndTheOthersMoveOnce) {
  base::Random random(3);
  const auto place = [](const Rows& rows) { return rows.view().data_ptr<double>(); };
  Rows base(numbers(0, random), 100);
  base.append(numbers(10, random));
  const double* const at = place(base);
  {
    Rows first = base, second = base;
    EXPECT_EQ(place(first), at);
    first.append(numbers(3, random));
    EXPECT_EQ(place(first), at) << "the first copy moved";
    second.append(numbers(3, random));
    EXPECT_NE(place(second), at) << "the second copy overwrote the first";
    const double* const own = place(second);
    second.append(numbers(3, random));
    EXPECT_EQ(place(second), own) << "moved twice";
  }
  Rows later = base;  // nobody is ahead any more
  later.append(numbers(5, random));
  EXPECT_EQ(place(later), at);
}

TEST(Rows, TakesMemoryByHalvesOrAsReservedAndFewBlocksForAWindow) {
  base::Random random(4);
  const Tensor row = numbers(1, random);
  const auto allocated = [](const Rows& rows) { return rows.allocated_bytes() / (2 * 3 * 8); };
  Rows grown(row), reserved(row, 3000), window(row);
  std::set<const void*> of_grown, of_reserved;
  int window_moves = 0;
  const void* window_memory = nullptr;
  for (std::int64_t i = 1; i <= 3000; ++i) {
    for (Rows* rows : {&grown, &reserved, &window}) rows->append(row);
    if (window.size() > 20) window.drop_front(1);
    of_grown.insert(grown.view().storage().data());
    of_reserved.insert(reserved.view().storage().data());
    if (window.view().storage().data() != window_memory) ++window_moves;
    window_memory = window.view().storage().data();
    ASSERT_LE(allocated(grown), std::max(i + i / 2 + 1, i + 16));
    ASSERT_EQ(allocated(reserved), 3000);
    ASSERT_LE(allocated(window), 21 + 16);
  }
  std::printf("3000 rows: %zu places; a window of 20: %d\n", of_grown.size(), window_moves);
  EXPECT_LE(of_grown.size(), 20U);
  EXPECT_EQ(of_reserved.size(), 1U);
  EXPECT_LE(window_moves, 3000 / 16 + 2);
  window.append(row.expand({2, 2000, 3, 1}));
  window.drop_front(2000);
  EXPECT_LE(allocated(window), 20 + 16) << "a long block's memory is kept";
}

TEST(Rows, CopiesGoOnInDifferentThreads) {
  base::Random random(5);
  Rows base(numbers(0, random), 200);
  const Tensor begin = numbers(50, random);
  base.append(begin);
  std::vector<std::string> wrong(3);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      const Tensor own = torch::full({2, 1, 3, 1}, static_cast<double>(t), torch::kDouble);
      for (int round = 0; round < 100; ++round) {
        Rows copy = base;
        for (int i = 0; i < 20; ++i) copy.append(own);
        copy.drop_front(10);
        const Tensor expected = torch::cat({begin.narrow(1, 10, 40), own.expand({2, 20, 3, 1})}, 1);
        if (!torch::equal(copy.view(), expected)) wrong[t] = "round " + std::to_string(round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : wrong) EXPECT_EQ(text, "");
  EXPECT_TRUE(torch::equal(base.view(), begin));
}

}  // namespace
}  // namespace kvphase::compress
