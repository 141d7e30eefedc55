// Prefill and decoding of one full-attention network beside llama.cpp on its export, in one run on
// the same threads, float32 on both sides (weights, cache, no half-precision flash attention).
// First both compute the next token's log-probabilities behind every prompt; different ones end the
// program. Then rounds alternate, ours first, then the peer in a fresh process.
// Timed windows. Prefill: from the prompt's token ids to the logits behind it, ours by
// Transformer::prefill and decode of the last token, theirs as the server says (prompt_ms).
// Decoding: a token, ours with the choice of the likeliest, theirs as the server says
// (predicted_ms, whose first token comes of the prompt). Neither holds HTTP or tokenizing; theirs
// holds its sampler, which is greedy. What the number is not: llama.cpp at its best, with quantised
// weights or a half-precision cache.
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "base/clock.h"
#include "base/files.h"
#include "base/random.h"
#include "model/checkpoint.h"
#include "model/gguf_export.h"
#include "model/threads.h"
#include "model/transformer.h"
#include "peers/peer.h"
#include "task/lookup_language.h"

namespace {

using namespace kvphase;
namespace fs = std::filesystem;

struct Options {
  std::vector<std::int64_t> contexts = {1024, 4096};
  std::int64_t width = 128;
  std::int64_t layers = 4;
  std::int64_t threads = 1;
  std::int64_t steps = 64;
  std::int64_t rounds = 3;
  std::string python = KVPHASE_PYTHON;
  std::string peer = KVPHASE_PEERS "/prompt_peer.py";
};

constexpr std::uint64_t kSeed = 7;
constexpr double kTolerance = 1e-3;  // nats

model::Checkpoint make_checkpoint(model::Transformer& network) {
  model::Checkpoint checkpoint{.config = network.config()};
  const task::LookupLanguage language;
  for (std::int64_t token = 0; token < language.vocab_size(); ++token) {
    checkpoint.token_names.push_back(language.token_name(static_cast<lm::TokenId>(token)));
  }
  checkpoint.card.recipe = "random weights";
  checkpoint.card.options = base::Json::object();
  checkpoint.card.language = task::to_json(language);
  checkpoint.weights = model::weights_of(network);
  return checkpoint;
}

model::ModelConfig config_of(const Options& options) {
  constexpr std::int64_t kHead = 32;
  model::ModelConfig config{
      .vocab_size = task::LookupLanguage{}.vocab_size(),
      .context_length = *std::ranges::max_element(options.contexts) + options.steps + 1,
      .layers = options.layers,
      .width = options.width,
      .query_heads = options.width / kHead,
      .kv_heads = 1,
      .head_width = kHead,
      .ff_width = 2 * options.width,
      .embedding_scale = 0.5 * std::sqrt(static_cast<double>(options.width)),
      .rope_dims = kHead};
  config.attention.assign(static_cast<std::size_t>(config.layers), model::AttentionKind::kFull);
  return config;
}

struct Ours {
  std::vector<double> log_probabilities;  // of the next token
  double prefill = 0;                     // seconds
  double token = 0;                       // seconds, mean over the steps
};

Ours measure(model::Transformer& network, const std::vector<std::int64_t>& prompt,
             std::int64_t steps) {
  const torch::Tensor ids = torch::tensor(prompt).unsqueeze(0);
  const std::int64_t length = ids.size(1);
  Ours ours;
  model::DecodeState state = network.start(1);
  const base::Stopwatch prefill;
  network.prefill(ids.narrow(1, 0, length - 1), state);
  torch::Tensor logits = network.decode(ids.narrow(1, length - 1, 1), state);
  ours.prefill = prefill.seconds();
  const torch::Tensor p = logits.flatten().to(torch::kDouble).log_softmax(0);
  ours.log_probabilities.assign(p.data_ptr<double>(), p.data_ptr<double>() + p.numel());
  const base::Stopwatch decoding;
  for (std::int64_t step = 0; step < steps; ++step) {
    logits = network.decode(logits.argmax(-1), state);
  }
  ours.token = decoding.seconds() / static_cast<double>(steps);
  return ours;
}

void expect_equal(const Ours& ours, const base::Json& theirs, std::int64_t length) {
  double worst = 0;
  for (std::size_t token = 0; token < ours.log_probabilities.size(); ++token) {
    const double other = theirs.at("log_probabilities").at(token).get<double>();
    worst = std::max(worst, std::abs(ours.log_probabilities[token] - other));
  }
  fmt::print(stderr, "log-probabilities behind {} tokens: largest gap {:.1e} nats\n", length,
             worst);
  if (worst <= kTolerance) return;
  throw base::environment_error("bench",
                                "expected llama.cpp's log-probabilities within {:g} nats "
                                "of ours behind {} tokens, got a gap of {:g}",
                                kTolerance, length, worst);
}

int run(const Options& options) {
  const torch::NoGradGuard no_grad;
  model::compute_on_threads(options.threads);
  model::Transformer network(config_of(options), kSeed);
  const peers::Scratch scratch;
  const fs::path gguf = scratch.path() / "model.gguf";
  base::write_file_atomically(gguf, model::gguf_bytes(make_checkpoint(network), "full-attention"));
  std::vector<std::vector<std::int64_t>> prompts;
  base::Random random(base::derive_seed(kSeed, "prompts"));
  for (const std::int64_t length : options.contexts) {
    prompts.emplace_back();
    for (std::int64_t i = 0; i < length; ++i) {
      prompts.back().push_back(static_cast<std::int64_t>(
          random.uniform_index(static_cast<std::uint64_t>(network.config().vocab_size))));
    }
  }
  base::write_file_atomically(scratch.path() / "prompts.json", base::Json(prompts).dump());
  const std::string command =
      fmt::format("'{}' '{}' '{}' '{}' --threads {} --steps {} --context {}", options.python,
                  options.peer, gguf.string(), (scratch.path() / "prompts.json").string(),
                  options.threads, options.steps, network.config().context_length);

  const std::size_t count = prompts.size();
  std::vector<std::vector<double>> ours(2 * count), theirs(2 * count);  // prefill, decode by prompt
  std::string version;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    std::vector<Ours> mine;
    for (const auto& prompt : prompts) {
      measure(network, prompt, 2);  // the allocator and the caches
      mine.push_back(measure(network, prompt, options.steps));
    }
    const base::Json peer = peers::run_peer(options.threads, command);
    version = peer.at("version").get<std::string>();
    for (std::size_t i = 0; i < count; ++i) {
      const base::Json& other = peer.at("prompts").at(i);
      if (round == 0) expect_equal(mine[i], other, options.contexts[i]);
      ours[2 * i].push_back(mine[i].prefill);
      ours[2 * i + 1].push_back(mine[i].token);
      theirs[2 * i].push_back(other.at("prefill_seconds").get<double>());
      theirs[2 * i + 1].push_back(other.at("token_seconds").get<double>());
    }
    fmt::print(stderr, "round {} done\n", round + 1);
  }
  fmt::print(
      "full attention, {} layers, width {}, float32, {} thread(s), {} tokens decoded; "
      "llama.cpp by xllamacpp {}\n",
      options.layers, options.width, options.threads, options.steps, version);
  fmt::print("  {:<8} {:<8} {:>17} {:>19}  {}\n", "context", "", "kvphase tokens/s",
             "llama.cpp tokens/s", "times as fast");
  for (std::size_t i = 0; i < count; ++i) {
    for (const bool decode : {false, true}) {
      const std::size_t at = 2 * i + (decode ? 1 : 0);
      const double tokens = decode ? 1 : static_cast<double>(options.contexts[i]);
      fmt::print("  {:<8} {:<8} {:>17.0f} {:>19.0f}  {}\n", options.contexts[i],
                 decode ? "decode" : "prefill", tokens / peers::median(ours[at]),
                 tokens / peers::median(theirs[at]), peers::ratio_of(ours[at], theirs[at]).text());
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Prefill and decoding of kvphase and of llama.cpp on the same full attention");
  app.add_option("--contexts", options.contexts, "Tokens of the prompts")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--width", options.width, "C, a multiple of 32")->capture_default_str();
  app.add_option("--layers", options.layers, "Layers")->capture_default_str();
  app.add_option("--threads", options.threads, "Threads of both sides")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--steps", options.steps, "Tokens decoded")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  app.add_option("--rounds", options.rounds, "Rounds")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--python", options.python, "Python with xllamacpp")->capture_default_str();
  app.add_option("--peer", options.peer, "The peer's script")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return peers::exit_code_of([&] { return run(options); });
}
