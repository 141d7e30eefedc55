#include "endpoint/positions.h"

#include <gtest/gtest.h>

#include "endpoint/test_support.h"
#include "tests/scripted_server/engines.h"

namespace kvphase::endpoint {
namespace {

using scripted::EngineOptions;
using scripted::Request;
using scripted::ScriptedServer;

EngineOptions engine() {
  return {.model = scripted::lookup_model([](std::int64_t) { return false; })};
}

std::vector<std::vector<lm::TokenId>> token_prompts() {
  return {std::vector<lm::TokenId>(20, 5), std::vector<lm::TokenId>(200, 6)};
}

PositionProof prove_tokens(const scripted::Handler& handler) {
  ScriptedServer server(handler);
  Client client(server.url(), quiet());
  return prove_token_prompts(client, token_prompts());
}

std::string filler_text(std::int64_t item, std::int64_t fillers) {
  std::string text;
  for (std::int64_t i = 0; i < fillers; ++i) text += " w40";
  for (std::int64_t i = 0; i < 10 + 20 * item; ++i) text += " w" + std::to_string(100 + i);
  return text;
}

CompletionRequest raw(std::int64_t item, std::int64_t fillers) {
  return {.text = filler_text(item, fillers)};
}
CompletionRequest chat(std::int64_t item, std::int64_t fillers) {
  return {.messages = {{"user", filler_text(item, fillers)}}};
}

PositionProof prove_text(const scripted::Handler& handler, const TextPrompt& prompt,
                         std::int64_t items = 3) {
  ScriptedServer server(handler);
  Client client(server.url(), quiet());
  return prove_text_prompts(client, prompt, items);
}

TEST(Positions, TokenPromptsAreProvenOnEveryEngineThatTakesThem) {
  for (const auto& handler : {scripted::vllm_engine(engine()), scripted::sglang_engine(engine()),
                              scripted::llama_cpp_engine(engine())}) {
    const PositionProof proof = prove_tokens(handler);
    EXPECT_TRUE(proof.absolute()) << proof.failed;
    EXPECT_EQ(proof.overhead, 0);
    EXPECT_EQ(proof.offset, 0);
    EXPECT_EQ(proof.requests, 2);
  }
  const PositionProof refused = prove_tokens(scripted::chat_api(engine()));
  EXPECT_FALSE(refused.ok);
  EXPECT_NE(refused.failed.find("takes no token-id prompts"), std::string::npos);
}

TEST(Positions, Row2AConstantBosMakesPhasesRelativeUnlessTheIdsShowIt) {
  for (const std::int64_t extra : {1, 3}) {
    EngineOptions options = engine();
    options.usage = [extra](std::int64_t n, const Request&) { return n + extra; };
    const PositionProof proof = prove_tokens(scripted::sglang_engine(options));
    EXPECT_TRUE(proof.ok) << proof.failed;
    EXPECT_EQ(proof.overhead, extra);
    EXPECT_FALSE(proof.absolute());
    EXPECT_NE(proof.note.find("relative"), std::string::npos) << proof.note;
  }
  EngineOptions with_bos = engine();
  with_bos.bos = 1;
  const PositionProof shown = prove_text(scripted::vllm_engine(with_bos), raw);
  EXPECT_EQ(name_of(shown.route), "returned token ids");
  EXPECT_TRUE(shown.absolute()) << shown.failed;
}

TEST(Positions, Row2ADoubleBosBetweenTokenizerAndServerIsSeen) {
  EngineOptions options = engine();
  options.bos = 1;
  options.usage = [](std::int64_t n, const Request&) { return n + 1; };
  const PositionProof proof = prove_text(scripted::llama_cpp_engine(options), raw);
  EXPECT_TRUE(proof.ok) << proof.failed;
  EXPECT_EQ(name_of(proof.route), "the server's tokenizer");
  EXPECT_EQ(proof.overhead, 1) << "the tokenizer counts one BOS, the server read two";
  EXPECT_FALSE(proof.absolute());
}

TEST(Positions, Row3AConstantTemplateIsAcceptedAsRelative) {
  EngineOptions options = engine();
  options.template_overhead = 11;
  const PositionProof counted = prove_text(scripted::chat_api(options), chat);
  EXPECT_TRUE(counted.ok) << counted.failed;
  EXPECT_EQ(name_of(counted.route), "usage counts");
  EXPECT_FALSE(counted.absolute());
  EXPECT_FALSE(counted.overhead) << "counts alone do not tell it";
  EXPECT_EQ(counted.requests, 27);
  // A vLLM that returns no ids but has a tokenizer tells the overhead.
  ScriptedServer server([handler = scripted::vllm_engine(options)](const Request& request) {
    Request without = request;
    if (const auto at = without.body.find("\"return_token_ids\":true"); at != std::string::npos) {
      without.body.replace(at, 23, "\"return_token_ids\":false");
    }
    return handler(without);
  });
  Client client(server.url(), quiet());
  const PositionProof measured = prove_text_prompts(client, chat, 3);
  EXPECT_TRUE(measured.ok) << measured.failed;
  EXPECT_EQ(measured.overhead, 11);
  EXPECT_FALSE(measured.absolute());
}

TEST(Positions, Row5SilentTruncationStopsTheRun) {
  EngineOptions options = engine();
  options.context = 40;  // items of 10, 30 and 50 words: the last is cut to 22
  const PositionProof proof = prove_text(scripted::ollama_engine(options), raw);
  EXPECT_FALSE(proof.ok);
  EXPECT_NE(proof.failed.find("truncated"), std::string::npos) << proof.failed;
  EngineOptions cut = engine();
  cut.usage = [](std::int64_t n, const Request&) { return std::min<std::int64_t>(n, 100); };
  const PositionProof tokens = prove_tokens(scripted::sglang_engine(cut));
  EXPECT_FALSE(tokens.ok);
  EXPECT_NE(tokens.failed.find("read 100 of 200 tokens"), std::string::npos) << tokens.failed;
}

TEST(Positions, Row17AServerThatCountsNothingProvesNothing) {
  EngineOptions options = engine();
  options.report_usage = false;
  const PositionProof proof = prove_text(scripted::chat_api(options), chat);
  EXPECT_FALSE(proof.ok);
  EXPECT_NE(proof.failed.find("neither usage nor"), std::string::npos) << proof.failed;
}

TEST(Positions, Row23DriftThatDependsOnTheItemStopsTheRun) {
  EngineOptions options = engine();
  options.usage = [](std::int64_t n, const Request& request) {
    return n + (request.body.find("w120") != std::string::npos ? 1 : 0);  // items 1 and 2
  };
  const PositionProof tokenizer = prove_text(scripted::llama_cpp_engine(options), raw);
  EXPECT_FALSE(tokenizer.ok);
  EXPECT_NE(tokenizer.failed.find("not constant"), std::string::npos) << tokenizer.failed;
}

TEST(Positions, Row23AFillerThatIsNotOneTokenStopsTheRun) {
  const TextPrompt two = [](std::int64_t item, std::int64_t fillers) {
    CompletionRequest request = chat(item, 0);
    for (std::int64_t i = 0; i < fillers; ++i) request.messages[0].content += " abcdefgh";
    return request;
  };
  const PositionProof proof = prove_text(scripted::chat_api(engine()), two, 1);
  EXPECT_FALSE(proof.ok);
  EXPECT_NE(proof.failed.find("moves the count by 2"), std::string::npos) << proof.failed;
}

TEST(Positions, Row24WordsThatAreOneTokenAreFoundThroughTheServer) {
  const std::vector<std::string> candidates = {"w7", "a3f9-77c2-0e", "w8", "abcdefg", "table"};
  for (const auto& [handler, tokenizer] : {std::pair{scripted::llama_cpp_engine(engine()), true},
                                           std::pair{scripted::chat_api(engine()), false}}) {
    ScriptedServer server(handler);
    Client client(server.url(), quiet());
    const SingleTokenWords found =
        find_single_token_words(client, candidates, 3, [](std::string_view text) {
          return CompletionRequest{.messages = {{"user", std::string(text)}}};
        });
    EXPECT_EQ(found.words, (std::vector<std::string>{"w7", "w8", "table"})) << found.failed;
    EXPECT_EQ(found.rejected, (std::vector<std::string>{"a3f9-77c2-0e", "abcdefg"}));
    ASSERT_EQ(found.ids.size(), tokenizer ? 3U : 0U);
    EXPECT_EQ(found.ids, tokenizer ? (std::vector<lm::TokenId>{7, 8, found.ids.back()})
                                   : std::vector<lm::TokenId>{});
    const SingleTokenWords few =
        find_single_token_words(client, candidates, 9, [](std::string_view text) {
          return CompletionRequest{.messages = {{"user", std::string(text)}}};
        });
    EXPECT_NE(few.failed.find("3 of 5"), std::string::npos) << few.failed;
  }
}

TEST(Positions, AServerThatFailsDuringTheProofIsNamed) {
  EngineOptions options = engine();
  options.fault = [](const Request& request) -> std::optional<scripted::Reply> {
    if (request.body.find("w120") == std::string::npos) return std::nullopt;
    return scripted::json_reply({{"error", "out of memory"}}, 500);
  };
  const PositionProof proof = prove_text(scripted::chat_api(options), chat);
  EXPECT_FALSE(proof.ok);
  EXPECT_NE(proof.failed.find("item 1 with 0 fillers: server_error"), std::string::npos)
      << proof.failed;
}

}  // namespace
}  // namespace kvphase::endpoint
