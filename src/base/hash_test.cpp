#include "base/hash.h"

#include <gtest/gtest.h>

namespace kvphase::base {
namespace {

TEST(Sha256, MatchesThePublishedExamples) {  // FIPS 180-4 examples
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, PartsGiveTheSameAsTheWhole) {
  Sha256 hash;
  hash.update("a");
  hash.update("bc");
  EXPECT_EQ(hash.finish_hex(), sha256_hex("abc"));
}

}  // namespace
}  // namespace kvphase::base
