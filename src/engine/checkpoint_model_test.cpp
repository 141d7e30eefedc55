#include "engine/checkpoint_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "model/checkpoint.h"

namespace kvphase::engine {
namespace {

namespace fs = std::filesystem;
using lm::TokenId;
using ::testing::HasSubstr;

model::ModelConfig config_of(model::AttentionKind kind) {
  model::ModelConfig config;
  config.vocab_size = 13;
  config.context_length = 24;
  config.width = 16;
  config.head_width = 8;
  config.rope_dims = 8;
  config.ff_width = 24;
  config.local_window = 5;
  config.chunk.window = 6;
  config.chunk.stride = 3;
  config.attention = {model::AttentionKind::kLocal, kind};
  return config;
}

class CheckpointModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "kvphase-engine-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A checkpoint of random weights; `change` may edit them before they are written.
  std::unique_ptr<lm::LanguageModel> open(
      const EngineOptions& options = {}, model::AttentionKind kind = model::AttentionKind::kChunked,
      const std::function<void(model::Transformer&)>& change = nullptr) {
    model::Checkpoint checkpoint{.config = config_of(kind)};
    network_ = std::make_unique<model::Transformer>(checkpoint.config, 3);
    if (change) change(*network_);
    for (int i = 0; i < 13; ++i) checkpoint.token_names.push_back(fmt::format("t{}", i));
    checkpoint.weights = model::weights_of(*network_);
    checkpoint.card.language = base::Json::object();
    checkpoint.card.options = base::Json::object();
    sha256_ = model::write_checkpoint(folder_, checkpoint);
    return open_checkpoint(folder_, options);
  }

  // Requests of random lengths 1..24.
  static std::vector<lm::ScoreRequest> random_requests(std::size_t count) {
    base::Random random(base::derive_seed(1, "engine test"));
    std::vector<lm::ScoreRequest> requests(count);
    for (lm::ScoreRequest& request : requests) {
      request.prompt.resize(1 + random.uniform_index(24));
      for (TokenId& token : request.prompt) {
        token = static_cast<TokenId>(random.uniform_index(13));
      }
      request.target = static_cast<TokenId>(random.uniform_index(13));
    }
    return requests;
  }

  static std::string refusal(const std::function<void()>& action) {
    try {
      action();
    } catch (const base::Error& error) {
      EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
      return error.what();
    }
    return "no error";
  }

  fs::path folder_;
  std::unique_ptr<model::Transformer> network_;
  std::string sha256_;
};

TEST_F(CheckpointModelTest, ScoresAreThoseOfTheWholeForwardPass) {
  const auto model = open();
  const std::vector<lm::ScoreRequest> requests = random_requests(60);
  const std::vector<lm::ScoreReply> replies = model->score_next(requests);
  ASSERT_EQ(replies.size(), requests.size());
  const torch::NoGradGuard no_grad;
  double largest = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::vector<std::int64_t> wide(requests[i].prompt.begin(), requests[i].prompt.end());
    const torch::Tensor logits =
        network_->forward(torch::tensor(wide).unsqueeze(0))[0][-1].to(torch::kDouble);
    const torch::Tensor logprobs = logits.log_softmax(0);
    EXPECT_EQ(replies[i].top, logits.argmax().item<std::int64_t>()) << "request " << i;
    const double target = logprobs[requests[i].target].item<double>();
    torch::Tensor others = logprobs.clone();
    others[requests[i].target] = -INFINITY;
    const double margin = target - others.max().item<double>();
    largest = std::max(largest, std::abs(*replies[i].target_logprob - target));
    EXPECT_NEAR(*replies[i].target_logprob, target, 1e-5) << "request " << i;
    EXPECT_NEAR(*replies[i].margin, margin, 1e-5) << "request " << i;
    EXPECT_EQ(*replies[i].margin > 0, replies[i].top == requests[i].target);
  }
  std::printf("largest difference of a log-probability: %.2g nats\n", largest);
}

TEST_F(CheckpointModelTest, ReplyDoesNotDependOnTheOtherRequests) {
  const std::vector<lm::ScoreRequest> requests = random_requests(50);
  const std::vector<lm::ScoreReply> together = open()->score_next(requests);
  double largest = 0;
  for (const EngineOptions& options :
       {EngineOptions{.batch_tokens = 1}, EngineOptions{.threads = 3, .batch_tokens = 50}}) {
    const std::vector<lm::ScoreReply> apart = open(options)->score_next(requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(apart[i].top, together[i].top) << "request " << i;
      largest = std::max(largest, std::abs(*apart[i].target_logprob - *together[i].target_logprob));
    }
  }
  std::printf("largest difference of a log-probability: %.2g nats\n", largest);
  EXPECT_LT(largest, 1e-5);
}

TEST_F(CheckpointModelTest, LongPromptsShareBlocksAndReplyTheSameBitsAlone) {
  base::Random random(base::derive_seed(2, "engine test"));
  for (const model::AttentionKind kind :
       {model::AttentionKind::kChunked, model::AttentionKind::kFull}) {
    // A tree: prompts begin as an earlier one does, for some tokens.
    std::vector<lm::ScoreRequest> requests = random_requests(60);
    for (std::size_t i = 1; i < requests.size(); ++i) {
      const std::vector<TokenId>& other = requests[random.uniform_index(i)].prompt;
      std::vector<TokenId>& own = requests[i].prompt;
      const std::size_t shared = random.uniform_index(std::min(own.size(), other.size()) + 1);
      std::copy_n(other.begin(), shared, own.begin());
    }
    const EngineOptions options{.threads = 2, .batch_tokens = 1, .block_tokens = 4};
    const auto model = open(options, kind);
    const std::vector<lm::ScoreReply> together = model->score_next(requests);
    const std::vector<lm::ScoreReply> whole =
        open({.block_tokens = 24}, kind)->score_next(requests);
    double largest = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const lm::ScoreReply alone = model->score_next(std::span(&requests[i], 1)).front();
      EXPECT_EQ(alone.top, together[i].top) << "request " << i;
      EXPECT_EQ(*alone.target_logprob, *together[i].target_logprob) << "request " << i;
      EXPECT_EQ(*alone.margin, *together[i].margin) << "request " << i;
      EXPECT_EQ(together[i].top, whole[i].top) << "request " << i;
      EXPECT_NEAR(*together[i].target_logprob, *whole[i].target_logprob, 1e-5) << "request " << i;
      largest = std::max(largest, std::abs(*together[i].target_logprob - *whole[i].target_logprob));
    }
    std::printf("largest difference by blocks and at once: %.2g nats\n", largest);
  }
}

TEST_F(CheckpointModelTest, GeneratesByCacheWhatWholePromptsSay) {
  base::Random random(base::derive_seed(3, "engine test"));
  for (const model::AttentionKind kind :
       {model::AttentionKind::kChunked, model::AttentionKind::kFull}) {
    for (int trial = 0; trial < 10; ++trial) {
      const auto model = open({.block_tokens = 1 + trial % 5}, kind);
      std::vector<std::int64_t> text(1 + random.uniform_index(12));
      for (std::int64_t& token : text) token = static_cast<std::int64_t>(random.uniform_index(13));
      const torch::NoGradGuard no_grad;
      model->generate({.prompt = {text.begin(), text.end()},
                       .max_tokens = 50,
                       .temperature = trial % 2 == 0 ? 0.0 : 2.0,
                       .seed = 5},
                      [&](const lm::GeneratedToken& token) {
                        const torch::Tensor logprobs =
                            network_->forward(torch::tensor(text).unsqueeze(0))[0][-1]
                                .to(torch::kDouble)
                                .log_softmax(0);
                        EXPECT_NEAR(token.logprob, logprobs[token.token].item<double>(), 1e-5);
                        if (trial % 2 == 0) {
                          EXPECT_EQ(token.token, logprobs.argmax().item<std::int64_t>());
                        }
                        text.push_back(token.token);
                        return true;
                      });
      EXPECT_EQ(text.size(), 25U);
    }
  }
}

TEST_F(CheckpointModelTest, TopOfEqualTokensIsTheSmallestId) {
  // A zero final norm makes all logits equal.
  const auto model = open({}, model::AttentionKind::kChunked, [](model::Transformer& network) {
    const torch::NoGradGuard no_grad;
    network.named_parameters()["model.norm.weight"].zero_();
  });
  const std::vector<lm::ScoreRequest> requests = {{.prompt = {5, 6}, .target = 4}};
  const lm::ScoreReply reply = model->score_next(requests).front();
  EXPECT_EQ(reply.top, 0);
  EXPECT_DOUBLE_EQ(*reply.target_logprob, -std::log(13.0));
  EXPECT_DOUBLE_EQ(*reply.margin, 0);
}

TEST_F(CheckpointModelTest, NoRequestsGetNoReplies) { EXPECT_TRUE(open()->score_next({}).empty()); }

TEST_F(CheckpointModelTest, PromptsItCannotReadAreRefused) {
  const auto model = open();
  const auto score = [&](std::vector<TokenId> prompt, TokenId target) {
    return refusal([&] {
      model->score_next(std::vector<lm::ScoreRequest>{{.prompt = prompt, .target = target}});
    });
  };
  EXPECT_EQ(score(std::vector<TokenId>(24, 1), 0), "no error");
  EXPECT_THAT(score(std::vector<TokenId>(25, 1), 0), HasSubstr("1 to 24 tokens, got 25"));
  EXPECT_THAT(score({}, 0), HasSubstr("got 0"));
  EXPECT_THAT(score({13}, 0), HasSubstr("0..12, got 13"));
  EXPECT_THAT(score({-1}, 0), HasSubstr("got -1"));
  EXPECT_THAT(score({1}, 13), HasSubstr("got 13"));
}

TEST_F(CheckpointModelTest, GeneratesTheTopTokensOneByOne) {
  const auto model = open();
  std::vector<TokenId> text = {3, 1, 4};
  std::vector<TokenId> generated;
  model->generate({.prompt = text, .max_tokens = 6, .top_logprobs = 3},
                  [&](const lm::GeneratedToken& token) {
                    generated.push_back(token.token);
                    EXPECT_EQ(token.top.size(), 3U);
                    EXPECT_EQ(token.top[0].token, token.token);
                    EXPECT_EQ(token.top[0].logprob, token.logprob);
                    EXPECT_GE(token.top[0].logprob, token.top[1].logprob);
                    return true;
                  });
  ASSERT_EQ(generated.size(), 6U);
  for (const TokenId token : generated) {
    const std::vector<lm::ScoreRequest> request = {{.prompt = text, .target = 0}};
    EXPECT_EQ(model->score_next(request).front().top, token);
    text.push_back(token);
  }
}

TEST_F(CheckpointModelTest, GenerationEndsWithTheContextOrTheCallersWish) {
  const auto model = open();
  int count = 0;
  const auto keep = [&](const lm::GeneratedToken&) { return ++count > 0; };
  model->generate({.prompt = std::vector<TokenId>(20, 1), .max_tokens = 100}, keep);
  EXPECT_EQ(count, 5);  // the last one follows all 24 tokens of the context
  count = 0;
  model->generate({.prompt = std::vector<TokenId>(24, 1), .max_tokens = 100}, keep);
  EXPECT_EQ(count, 1);
  count = 0;
  model->generate({.prompt = {1}, .max_tokens = 100},
                  [&](const lm::GeneratedToken&) { return ++count < 2; });
  EXPECT_EQ(count, 2);
}

TEST_F(CheckpointModelTest, SamplingRepeatsForEqualSeedsAndVariesOtherwise) {
  const auto model = open();
  const auto sample = [&](std::uint64_t seed) {
    std::vector<TokenId> tokens;
    model->generate({.prompt = {1}, .max_tokens = 20, .temperature = 3, .seed = seed},
                    [&](const lm::GeneratedToken& token) {
                      tokens.push_back(token.token);
                      return true;
                    });
    return tokens;
  };
  EXPECT_EQ(sample(1), sample(1));
  EXPECT_NE(sample(1), sample(2));
}

TEST_F(CheckpointModelTest, TextIsTokenNamesAndBlanks) {
  const auto model = open();
  EXPECT_EQ(model->tokenize("  t3 t12\n\tt0 "), (std::vector<TokenId>{3, 12, 0}));
  EXPECT_TRUE(model->tokenize(" ").empty());
  EXPECT_EQ(model->detokenize(std::vector<TokenId>{3, 12, 0}), "t3 t12 t0");
  EXPECT_THAT(refusal([&] { model->tokenize("t3 tt2"); }), HasSubstr("did you mean 't2'?"));
}

TEST_F(CheckpointModelTest, TellsWhoItIsAndHowItCompresses) {
  const auto chunked = open();
  EXPECT_EQ(chunked->identity().kind, "checkpoint");
  EXPECT_EQ(chunked->identity().sha256, sha256_);
  EXPECT_EQ(chunked->identity().name, folder_.filename().string());
  EXPECT_EQ(chunked->traits().window, 6);
  EXPECT_EQ(chunked->traits().stride, 3);
  EXPECT_EQ(chunked->traits().local_window, 5);
  EXPECT_EQ(chunked->traits().context_length, 24);
  EXPECT_FALSE(chunked->traits().full_attention);

  const auto full = open({.name = "control"}, model::AttentionKind::kFull);
  EXPECT_EQ(full->identity().name, "control");
  EXPECT_FALSE(full->traits().stride.has_value());
  EXPECT_TRUE(full->traits().full_attention);
}

}  // namespace
}  // namespace kvphase::engine
