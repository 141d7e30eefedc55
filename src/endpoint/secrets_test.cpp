#include "endpoint/secrets.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"

namespace kvphase::endpoint {
namespace {

const std::string kKey = "sk-test/4f9a0c77+d1e2==";

std::string message(const std::string& text) {
  Redactor redactor;
  redactor.add(kKey);
  return redactor.message(text);
}

TEST(Secrets, Row30HidesTheKeyInEveryFormAServerEchoesIt) {
  for (const std::string& text :
       {"Invalid key " + kKey + " given", "Authorization: Bearer " + kKey,
        R"({"error":"bad header 'Bearer )" + kKey + R"('"})",
        std::string("key sk-test%2F4f9a0c77%2Bd1e2%3D%3D"), "basic " + base64(kKey),
        std::string(R"("sk-test\/4f9a0c77+d1e2==")"), "starts with " + kKey.substr(0, 12) + "...",
        "ends with " + kKey.substr(12)}) {
    const std::string shown = message(text);
    EXPECT_NE(shown.find("[redacted]"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("4f9a0c77"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("77+d1e2"), std::string::npos) << shown;
  }
}

TEST(Secrets, HidesKeysItWasNeverTold) {
  const Redactor redactor;
  for (const std::string text :
       {"Authorization: Bearer abcdefgh12345678", "you sent sk-proj-abcdefgh12345678",
        "GET /v1/x?key=abcdefgh12345678 failed", "{\"api_key\": \"abcdefgh12345678\"}",
        "proxy http://me:abcdefgh12345678@10.0.0.1:3128 refused"}) {
    const std::string shown = redactor.message(text);
    EXPECT_EQ(shown.find("abcdefgh"), std::string::npos) << shown;
  }
  const std::string harmless = "a task-specific error at http://a.test/b@c: risk-free";
  EXPECT_EQ(redactor.message(harmless), harmless);
}

TEST(Secrets, LeavesAnswersAloneButForTheKeyItself) {
  Redactor redactor;
  redactor.add(kKey);
  const std::string needle = "the code is sk-aaaabbbbccccdddd, api_key=0123456789abcdef";
  EXPECT_EQ(redactor.answer(needle), needle);
  EXPECT_EQ(redactor.answer("x " + kKey + " y"), "x [redacted] y");
}

TEST(Secrets, ReadsTheKeyFromTheVariableFirstAndThenFromTheEnvFile) {
  std::string pattern = (std::filesystem::temp_directory_path() / "kvphase-env-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const std::filesystem::path file = std::filesystem::path(pattern) / ".env";
  std::ofstream(file) << "# comment\nOTHER=x\nexport A_KEY=\"quoted value\"\nB_KEY = plain # why\n"
                         "C_KEY='sk-1'\r\n";
  const Environment none = [](const std::string&) { return std::nullopt; };
  EXPECT_EQ(find_api_key("B_KEY", none, file).reveal(), "plain");
  EXPECT_EQ(find_api_key("C_KEY", none, file).reveal(), "sk-1");
  EXPECT_TRUE(find_api_key("D_KEY", none, file).empty());
  EXPECT_EQ(find_api_key(
                "B_KEY", [](const std::string&) { return std::optional("env\n"); }, file)
                .reveal(),
            "env");
  try {
    find_api_key("A_KEY", none, file);
    FAIL() << "expected a refusal of a space";
  } catch (const base::Error& error) {
    EXPECT_EQ(std::string(error.what()).find("quoted"), std::string::npos) << error.what();
  }
  std::filesystem::remove_all(pattern);
}

TEST(Secrets, EncodesBase64) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
}

}  // namespace
}  // namespace kvphase::endpoint
