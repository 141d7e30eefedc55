#include "endpoint/url.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace kvphase::endpoint {
namespace {

Environment variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

std::string refusal(const std::string& text) {
  try {
    parse_base_url(text);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Url, TakesAddressesAsPeopleTypeThem) {
  EXPECT_EQ(parse_base_url("http://LocalHost:8080/").root.text(), "http://localhost:8080");
  EXPECT_EQ(parse_base_url("http://[::1]:8080/v1/").root.origin(), "http://[::1]:8080");
  const BaseUrl router = parse_base_url("https://openrouter.ai/api/v1");
  EXPECT_EQ(router.root.text(), "https://openrouter.ai/api");
  EXPECT_EQ(router.root.port, 443);
  EXPECT_EQ(router.version, "/v1");
  EXPECT_EQ(parse_base_url("https://a.test/paas/v4").version, "/v4");
  EXPECT_EQ(parse_base_url("https://a.test/vision").root.path, "/vision");
}

TEST(Url, RefusesWhatIsNoAddressAndSaysWhy) {
  EXPECT_NE(refusal("localhost:8080").find("http://"), std::string::npos);
  for (const std::string text :
       {"ftp://a", "http://", "http://a:99999", "http://a:b", "http://a b", "http://a/\n", "",
        "http://[::1", "http://a/?key=1", "http://a#b"}) {
    EXPECT_NE(refusal(text), "accepted") << text;
  }
}

TEST(Url, RefusesAUserNameOrKeyWithoutRepeatingIt) {
  for (const std::string text :
       {"http://user:hunter2secret@a.test", "http://a.test/v1?key=hunter2secret"}) {
    const std::string message = refusal(text);
    EXPECT_NE(message, "accepted");
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
}

TEST(Url, ResolvesRedirects) {
  const Url from = parse_base_url("https://a.test:1/x/y").root;
  EXPECT_EQ(resolve_redirect(from, "/z?q=1")->text(), "https://a.test:1/z?q=1");
  EXPECT_EQ(resolve_redirect(from, "z")->text(), "https://a.test:1/x/z");
  EXPECT_EQ(resolve_redirect(from, "//b.test/z")->text(), "https://b.test/z");
  EXPECT_EQ(resolve_redirect(from, "http://c.test")->text(), "http://c.test");
  EXPECT_FALSE(resolve_redirect(from, "file:///etc/passwd"));
  EXPECT_FALSE(resolve_redirect(from, ""));
}

TEST(Url, FindsTheProxyAsCurlDoes) {
  const Url http = parse_base_url("http://model.corp.test").root;
  const Url https = parse_base_url("https://model.corp.test:444").root;
  EXPECT_FALSE(proxy_for(http, variables({})));
  EXPECT_EQ(proxy_for(http, variables({{"http_proxy", "p:1"}, {"HTTP_PROXY", "q:2"}}))->origin(),
            "http://p:1");
  EXPECT_EQ(proxy_for(https, variables({{"HTTPS_PROXY", "http://u:pw@q:2"}}))->password, "pw");
  EXPECT_FALSE(proxy_for(https, variables({{"HTTP_PROXY", "q:2"}})));
  for (const std::string exception : {"*", "x, corp.test", ".corp.test", "*.corp.test",
                                      "model.corp.test:444", "MODEL.corp.test"}) {
    EXPECT_FALSE(proxy_for(https, variables({{"https_proxy", "p:1"}, {"no_proxy", exception}})))
        << exception;
  }
  for (const std::string exception : {"", "rp.test", "model.corp.test:443", "other"}) {
    EXPECT_TRUE(proxy_for(https, variables({{"https_proxy", "p:1"}, {"NO_PROXY", exception}})))
        << exception;
  }
}

TEST(Url, NeverAsksAProxyForThisMachine) {
  for (const std::string host : {"localhost", "127.0.0.1", "127.1.2.3", "[::1]"}) {
    EXPECT_FALSE(
        proxy_for(parse_base_url("http://" + host).root, variables({{"http_proxy", "p:1"}})))
        << host;
  }
}

TEST(Url, RefusesABrokenProxyWithoutShowingIt) {
  try {
    proxy_for(parse_base_url("http://a.test").root,
              variables({{"http_proxy", "http://u:hunter2@:x"}}));
    FAIL() << "expected a refusal";
  } catch (const base::Error& error) {
    EXPECT_EQ(std::string(error.what()).find("hunter2"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace kvphase::endpoint
