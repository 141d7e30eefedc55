#include "engine/checkpoint_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "base/nearest.h"
#include "base/random.h"
#include "lm/byte_tokens.h"
#include "model/checkpoint.h"
#include "model/threads.h"
#include "model/transformer.h"

namespace kvphase::engine {
namespace {

using base::usage_error;
using lm::TokenId;

constexpr const char* kScope = "engine";

// log P(token) of one row of logits: softmax in double.
std::vector<double> log_probabilities(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const double normalizer = largest + std::log(sum);
  std::vector<double> result;
  result.reserve(logits.size());
  for (const float logit : logits) result.push_back(logit - normalizer);
  return result;
}

TokenId argmax(const std::vector<double>& values) {  // the smallest id of equals
  return static_cast<TokenId>(std::max_element(values.begin(), values.end()) - values.begin());
}

lm::ScoreReply reply_to(const std::vector<double>& logprobs, TokenId target) {
  const auto wanted = static_cast<std::size_t>(target);
  double other = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    if (i != wanted) other = std::max(other, logprobs[i]);
  }
  return {.top = argmax(logprobs),
          .target_logprob = logprobs[wanted],
          .margin = logprobs[wanted] - other};
}

// Index drawn with probability proportional to exp(logprob / temperature).
TokenId sample(const std::vector<double>& logprobs, double temperature, base::Random& random) {
  const double largest = *std::max_element(logprobs.begin(), logprobs.end());
  std::vector<double> cumulative;
  double sum = 0;
  for (const double logprob : logprobs) {
    sum += std::exp((logprob - largest) / temperature);
    cumulative.push_back(sum);
  }
  const double drawn = random.uniform() * sum;
  const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), drawn);
  return static_cast<TokenId>(std::min(found - cumulative.begin(), std::ssize(cumulative) - 1));
}

std::vector<lm::TokenLogprob> likeliest(const std::vector<double>& logprobs, std::int64_t count) {
  std::vector<TokenId> order(logprobs.size());
  std::iota(order.begin(), order.end(), 0);
  const auto kept = std::clamp<std::int64_t>(count, 0, std::ssize(order));
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](TokenId a, TokenId b) {
    const double pa = logprobs[static_cast<std::size_t>(a)];
    const double pb = logprobs[static_cast<std::size_t>(b)];
    return pa != pb ? pa > pb : a < b;
  });
  std::vector<lm::TokenLogprob> result;
  for (std::int64_t i = 0; i < kept; ++i) {
    const TokenId token = order[static_cast<std::size_t>(i)];
    result.push_back({.token = token, .logprob = logprobs[static_cast<std::size_t>(token)]});
  }
  return result;
}

class CheckpointModel final : public lm::LanguageModel {
 public:
  CheckpointModel(const std::filesystem::path& folder, model::Checkpoint checkpoint,
                  const EngineOptions& options)
      : options_(options),
        config_(std::move(checkpoint.config)),
        sha256_(std::move(checkpoint.sha256)),
        token_names_(std::move(checkpoint.token_names)),
        network_(config_, 0) {
    model::compute_on_calling_thread();
    model::load_weights(network_, checkpoint.weights, folder.string());
    if (options_.name.empty()) {
      const std::filesystem::path clean = std::filesystem::absolute(folder).lexically_normal();
      options_.name =
          (clean.has_filename() ? clean.filename() : clean.parent_path().filename()).string();
    }
    bytes_ = token_names_ == lm::byte_token_names();
    for (std::size_t i = 0; i < token_names_.size(); ++i) {
      token_ids_.emplace(token_names_[i], static_cast<TokenId>(i));
    }
  }

  lm::ModelIdentity identity() const override {
    return {.name = options_.name,
            .kind = "checkpoint",
            .sha256 = sha256_,
            .config = model::to_json(config_)};
  }

  lm::ModelTraits traits() const override {
    const auto has = [&](model::AttentionKind kind) {
      return std::find(config_.attention.begin(), config_.attention.end(), kind) !=
             config_.attention.end();
    };
    lm::ModelTraits traits{.vocab_size = config_.vocab_size,
                           .context_length = config_.context_length};
    const bool chunked = has(model::AttentionKind::kChunked);
    if (chunked) {
      traits.window = config_.chunk.window;
      traits.stride = config_.chunk.stride;
      traits.staggered_grid = config_.chunk.grid != model::GridKind::kAligned;
    }
    if (has(model::AttentionKind::kLocal) ||
        (chunked && config_.chunk.recent == model::RecentKind::kLocalWindow)) {
      traits.local_window = config_.local_window;
    }
    traits.full_attention = !chunked;
    return traits;
  }

  std::vector<TokenId> tokenize(std::string_view text) override;
  std::string detokenize(std::span<const TokenId> tokens) override;
  void score_each(std::span<const lm::ScoreRequest> requests, const OnScore& on_reply) override;
  void generate(const lm::GenerateRequest& request,
                const std::function<bool(const lm::GeneratedToken&)>& on_token) override;

 private:
  void check_prompt(std::span<const TokenId> prompt) const;
  void check_token(TokenId token) const;
  // Logits after the last token of prompts of equal length: [B,V] float32.
  torch::Tensor last_logits(const std::vector<std::span<const TokenId>>& prompts);
  // Blocks of a prompt that end before its last token.
  std::int64_t whole_blocks(std::span<const TokenId> prompt) const {
    return (std::ssize(prompt) - 1) / options_.block_tokens;
  }
  // Log probabilities after tokens that follow what state has seen, at least one: read up to the
  // ends of blocks, and the last one by itself.
  std::vector<double> read_on(std::span<const TokenId> tokens, model::DecodeState& state);
  // Replies to requests longer than a block, sorted by their prompts.
  void score_long(std::span<const lm::ScoreRequest> requests, std::span<const std::size_t> order,
                  std::vector<lm::ScoreReply>& replies);

  EngineOptions options_;
  model::ModelConfig config_;
  std::string sha256_;
  std::vector<std::string> token_names_;
  bool bytes_ = false;  // text is read byte by byte
  std::unordered_map<std::string, TokenId> token_ids_;
  model::Transformer network_;
};

std::span<const float> row(const torch::Tensor& logits, std::int64_t index) {
  const auto width = static_cast<std::size_t>(logits.size(1));
  return {logits.data_ptr<float>() + static_cast<std::size_t>(index) * width, width};
}

void CheckpointModel::check_token(TokenId token) const {
  if (token < 0 || token >= config_.vocab_size) {
    throw usage_error(kScope, "expected token ids of 0..{}, got {}", config_.vocab_size - 1, token);
  }
}

void CheckpointModel::check_prompt(std::span<const TokenId> prompt) const {
  if (prompt.empty() || std::ssize(prompt) > config_.context_length) {
    throw usage_error(kScope, "expected a prompt of 1 to {} tokens, got {}; the context of '{}'",
                      config_.context_length, prompt.size(), options_.name);
  }
  for (const TokenId token : prompt) check_token(token);
}

torch::Tensor CheckpointModel::last_logits(const std::vector<std::span<const TokenId>>& prompts) {
  const torch::NoGradGuard no_grad;
  const auto count = static_cast<std::int64_t>(prompts.size());
  const auto length = static_cast<std::int64_t>(prompts.front().size());
  torch::Tensor tokens = torch::empty({count, length}, torch::kInt64);
  auto* next = tokens.data_ptr<std::int64_t>();
  for (const auto& prompt : prompts) next = std::copy(prompt.begin(), prompt.end(), next);
  const torch::Tensor rows = torch::full({1}, length - 1, torch::kInt64);
  return network_.forward_at(tokens, rows).select(1, 0).contiguous();
}

torch::Tensor tensor_of(std::span<const TokenId> tokens) {  // [1, n]
  torch::Tensor result = torch::empty({1, std::ssize(tokens)}, torch::kInt64);
  std::copy(tokens.begin(), tokens.end(), result.data_ptr<std::int64_t>());
  return result;
}

std::vector<double> CheckpointModel::read_on(std::span<const TokenId> tokens,
                                             model::DecodeState& state) {
  while (tokens.size() > 1) {
    const std::int64_t to_block_end = options_.block_tokens - state.tokens % options_.block_tokens;
    const auto count = static_cast<std::size_t>(std::min(to_block_end, std::ssize(tokens) - 1));
    network_.prefill(tensor_of(tokens.first(count)), state);
    tokens = tokens.subspan(count);
  }
  return log_probabilities(row(network_.decode(tensor_of(tokens), state).select(1, 0), 0));
}

void CheckpointModel::score_long(std::span<const lm::ScoreRequest> requests,
                                 std::span<const std::size_t> order,
                                 std::vector<lm::ScoreReply>& replies) {
  const auto block = static_cast<std::size_t>(options_.block_tokens);
  std::int64_t longest = 0;
  for (const std::size_t i : order) longest = std::max(longest, std::ssize(requests[i].prompt));
  std::vector<model::DecodeState> after;  // after[k]: the first k blocks of the prompt before
  after.push_back(network_.start(1, longest));
  for (std::size_t n = 0; n < order.size(); ++n) {
    const std::span<const TokenId> prompt = requests[order[n]].prompt;
    std::size_t shared_with_next = 0;  // blocks
    if (n + 1 < order.size()) {
      const std::span<const TokenId> next = requests[order[n + 1]].prompt;
      const auto end = std::ranges::mismatch(prompt, next).in1;
      shared_with_next =
          static_cast<std::size_t>(std::min({(end - prompt.begin()) / options_.block_tokens,
                                             whole_blocks(prompt), whole_blocks(next)}));
    }
    std::size_t done = after.size() - 1;
    model::DecodeState state = after.back();
    after.resize(std::min(after.size(), shared_with_next + 1));
    while (done < shared_with_next) {
      network_.prefill(tensor_of(prompt.subspan(done * block, block)), state);
      after.push_back(state);
      ++done;
    }
    const std::vector<double> logprobs = read_on(prompt.subspan(done * block), state);
    replies[order[n]] = reply_to(logprobs, requests[order[n]].target);
  }
}

void CheckpointModel::score_each(std::span<const lm::ScoreRequest> requests,
                                 const OnScore& on_reply) {
  for (const lm::ScoreRequest& request : requests) {
    check_prompt(request.prompt);
    check_token(request.target);
  }
  std::vector<std::size_t> order, of_long;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const bool is_long = std::ssize(requests[i].prompt) > options_.block_tokens;
    (is_long ? of_long : order).push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return requests[i].prompt.size(); });
  std::ranges::stable_sort(of_long, [&](std::size_t a, std::size_t b) {
    return requests[a].prompt < requests[b].prompt;
  });

  std::vector<std::span<const std::size_t>> batches;  // of equal length
  for (std::size_t begin = 0; begin < order.size();) {
    const std::size_t length = requests[order[begin]].prompt.size();
    const std::size_t most =
        std::max<std::size_t>(1, static_cast<std::size_t>(options_.batch_tokens) / length);
    std::size_t end = begin;
    while (end < order.size() && end - begin < most &&
           requests[order[end]].prompt.size() == length) {
      ++end;
    }
    batches.push_back(std::span<const std::size_t>(order).subspan(begin, end - begin));
    begin = end;
  }

  std::vector<lm::ScoreReply> replies(requests.size());
  const auto batch_count = static_cast<std::int64_t>(batches.size());
  const std::int64_t shards =
      std::clamp<std::int64_t>(std::max(batch_count, std::ssize(of_long)), 1, options_.threads);
  model::run_shards(shards, [&](std::int64_t shard) {
    const std::int64_t end = model::shard_begin(batch_count, shards, shard + 1);
    for (std::int64_t b = model::shard_begin(batch_count, shards, shard); b < end; ++b) {
      const auto batch = batches[static_cast<std::size_t>(b)];
      std::vector<std::span<const TokenId>> prompts;
      for (const std::size_t i : batch) prompts.emplace_back(requests[i].prompt);
      const torch::Tensor logits = last_logits(prompts);
      for (std::size_t k = 0; k < batch.size(); ++k) {
        replies[batch[k]] = reply_to(log_probabilities(row(logits, static_cast<std::int64_t>(k))),
                                     requests[batch[k]].target);
      }
    }
    const auto first_long = model::shard_begin(std::ssize(of_long), shards, shard);
    const auto end_long = model::shard_begin(std::ssize(of_long), shards, shard + 1);
    if (first_long == end_long) return;
    score_long(
        requests,
        std::span<const std::size_t>(of_long).subspan(
            static_cast<std::size_t>(first_long), static_cast<std::size_t>(end_long - first_long)),
        replies);
  });
  for (std::size_t i = 0; i < replies.size(); ++i) on_reply(i, replies[i]);
}

void CheckpointModel::generate(const lm::GenerateRequest& request,
                               const std::function<bool(const lm::GeneratedToken&)>& on_token) {
  check_prompt(request.prompt);
  if (!(request.temperature >= 0) || std::isinf(request.temperature)) {
    throw usage_error(kScope, "expected a temperature of at least 0 and finite, got {}",
                      request.temperature);
  }
  base::Random random(base::derive_seed(request.seed, "generate"));
  std::int64_t length = std::ssize(request.prompt);
  model::DecodeState state = network_.start(
      1, length + std::clamp<std::int64_t>(request.max_tokens, 0, config_.context_length - length));
  std::vector<TokenId> unread = request.prompt;
  for (std::int64_t i = 0; i < request.max_tokens && length <= config_.context_length; ++i) {
    const std::vector<double> logprobs = read_on(unread, state);
    const TokenId token =
        request.temperature > 0 ? sample(logprobs, request.temperature, random) : argmax(logprobs);
    unread = {token};
    ++length;
    if (!on_token({.token = token,
                   .logprob = logprobs[static_cast<std::size_t>(token)],
                   .top = likeliest(logprobs, request.top_logprobs)})) {
      return;
    }
  }
}

std::vector<TokenId> CheckpointModel::tokenize(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  if (bytes_) return lm::byte_tokens(text);
  std::vector<TokenId> tokens;
  for (std::size_t begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    const std::string name(text.substr(begin, end - begin));
    const auto found = token_ids_.find(name);
    if (found == token_ids_.end()) {
      throw usage_error(kScope,
                        "expected token names of '{}' separated by blanks, got '{}'; did you mean "
                        "'{}'?",
                        options_.name, name, base::nearest_name(name, token_names_));
    }
    tokens.push_back(found->second);
    begin = text.find_first_not_of(kBlanks, end);
  }
  return tokens;
}

std::string CheckpointModel::detokenize(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) check_token(token);
  if (bytes_) return lm::byte_text(tokens);
  std::vector<std::string_view> names;
  for (const TokenId token : tokens) {
    names.emplace_back(token_names_[static_cast<std::size_t>(token)]);
  }
  return fmt::format("{}", fmt::join(names, " "));
}

}  // namespace

std::unique_ptr<lm::LanguageModel> open_checkpoint(const std::filesystem::path& folder,
                                                   const EngineOptions& options) {
  if (options.threads < 1 || options.batch_tokens < 1 || options.block_tokens < 1) {
    throw usage_error(kScope,
                      "expected 'threads', 'batch_tokens' and 'block_tokens' of at least 1, got "
                      "{}, {} and {}",
                      options.threads, options.batch_tokens, options.block_tokens);
  }
  return std::make_unique<CheckpointModel>(folder, model::read_checkpoint(folder), options);
}

}  // namespace kvphase::engine
