#include "train/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace kvphase::train {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

std::optional<Launch> launch_of(const Variables& variables) {
  return launch_from_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables kFour = {
    {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};

TEST(Launch, WithoutRankAndWorldSizeThereIsOneProcess) {
  EXPECT_FALSE(launch_of({}));
  EXPECT_FALSE(launch_of({{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}}));
}

TEST(Launch, ReadsWhatLaunchersSet) {
  const auto plain = launch_of(kFour);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->rank, 3);
  EXPECT_EQ(plain->ranks, 4);
  EXPECT_EQ(plain->local_rank, 0);
  EXPECT_EQ(plain->address, "node7");
  EXPECT_EQ(plain->port, 29500);
  EXPECT_FALSE(plain->store_is_served);

  Variables torchrun = kFour;
  torchrun.merge(Variables{{"LOCAL_RANK", "1"},
                           {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                           {"TORCHELASTIC_RESTART_COUNT", "2"}});
  const auto served = launch_of(torchrun);
  ASSERT_TRUE(served);
  EXPECT_EQ(served->local_rank, 1);
  EXPECT_TRUE(served->store_is_served);
  EXPECT_EQ(served->attempt, 2);
}

TEST(Launch, RefusesWhatIsNotUsableAndSaysWhich) {
  const auto expect = [](const char* name, const char* value, const char* says) {
    Variables variables = kFour;
    if (value == nullptr) {
      variables.erase(name);
    } else {
      variables.insert_or_assign(name, std::string(value));
    }
    try {
      launch_of(variables);
      ADD_FAILURE() << "expected an error for " << name << "=" << (value ? value : "(unset)");
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(says));
    }
  };
  expect("RANK", nullptr, "got WORLD_SIZE, MASTER_ADDR, MASTER_PORT without RANK;");
  expect("WORLD_SIZE", nullptr, "got RANK, MASTER_ADDR, MASTER_PORT without WORLD_SIZE;");
  expect("MASTER_ADDR", "", "without MASTER_ADDR");
  expect("MASTER_PORT", nullptr, "without MASTER_PORT");
  expect("RANK", "4", "expected RANK of 0 to 3, got '4'");
  expect("RANK", "-1", "expected RANK of 0 to 3, got '-1'");
  expect("RANK", "one", "got 'one'");
  expect("WORLD_SIZE", "0", "expected WORLD_SIZE of 1 to 65536, got '0'");
  expect("MASTER_PORT", "65536", "expected MASTER_PORT of 1 to 65535, got '65536'");
  expect("MASTER_PORT", "80x", "got '80x'");
  expect("LOCAL_RANK", "4", "expected LOCAL_RANK of 0 to 3");
}

}  // namespace
}  // namespace kvphase::train
