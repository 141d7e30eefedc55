#include "model/test_support.h"

#include <cmath>
#include <map>

namespace kvphase::model::testing {
namespace {

using Vector = std::vector<double>;
using Rows = std::vector<Vector>;  // [T][width]

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

template <typename Enum>
Enum pick(base::Random& random, std::initializer_list<Enum> choices) {
  return *(choices.begin() + random.uniform_index(choices.size()));
}

bool coin(base::Random& random) { return random.uniform_index(2) == 1; }

// The network, one scalar at a time.
class Naive {
 public:
  explicit Naive(Transformer& model) : c_(model.config()) {
    for (const auto& item : model.named_parameters()) {
      const torch::Tensor flat = item.value().detach().to(torch::kDouble).contiguous().view(-1);
      const double* data = flat.data_ptr<double>();
      weights_[item.key()] = Vector(data, data + flat.numel());
    }
  }

  Rows logits(const std::vector<std::int64_t>& tokens) const {
    const Vector& embedding = weights_.at("model.embed_tokens.weight");
    Rows x;
    for (const std::int64_t token : tokens) {
      Vector row;
      for (std::int64_t i = 0; i < c_.width; ++i) {
        row.push_back(embedding[size(token * c_.width + i)] * c_.embedding_scale);
      }
      x.push_back(row);
    }
    for (std::int64_t layer = 0; layer < c_.layers; ++layer) x = layer_output(x, layer);
    Rows logits;
    for (const Vector& row : x) {
      const Vector normed = norm(row, "model.norm.weight");
      logits.push_back(c_.tied_embeddings ? map(normed, "model.embed_tokens.weight")
                                          : map(normed, "lm_head.weight"));
    }
    return logits;
  }

 private:
  Vector map(const Vector& x, const std::string& name, std::int64_t first_row = 0,
             std::int64_t rows = -1) const {
    const Vector& w = weights_.at(name);
    const std::size_t inputs = x.size();
    const std::size_t count = rows < 0 ? w.size() / inputs : size(rows);
    Vector y(count);
    for (std::size_t o = 0; o < count; ++o) {
      for (std::size_t i = 0; i < inputs; ++i) y[o] += w[(size(first_row) + o) * inputs + i] * x[i];
    }
    return y;
  }

  Vector norm(const Vector& x, const std::string& name) const {
    const Vector& w = weights_.at(name);
    double sum = 0;
    for (const double value : x) sum += value * value;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + c_.norm_epsilon);
    Vector y;
    for (std::size_t i = 0; i < x.size(); ++i) y.push_back(x[i] * scale * w[i]);
    return y;
  }

  Vector head_of(const Vector& x, std::int64_t head) const {
    const auto begin = x.begin() + head * c_.head_width;
    return Vector(begin, begin + c_.head_width);
  }

  Vector rotate(const Vector& x, std::int64_t position) const {
    Vector y = x;
    const std::int64_t half = c_.rope_dims / 2;
    for (std::int64_t i = 0; i < half; ++i) {
      const double power = -2.0 * static_cast<double>(i) / static_cast<double>(c_.rope_dims);
      const double angle = static_cast<double>(position) * std::pow(c_.rope_base, power);
      y[size(i)] = x[size(i)] * std::cos(angle) - x[size(i + half)] * std::sin(angle);
      y[size(i + half)] = x[size(i + half)] * std::cos(angle) + x[size(i)] * std::sin(angle);
    }
    return y;
  }

  Vector key(const Vector& raw, std::int64_t position, const std::string& attention) const {
    return rotate(c_.qk_norm ? norm(raw, attention + "k_norm.weight") : raw, position);
  }

  // The pooled vector of the window [start, start + W) of one KV head, start maybe negative.
  Vector pooled(const Rows& inputs, std::int64_t start, std::int64_t head, bool of_values,
                const std::string& attention) const {
    const std::string branch = attention + "compressor." + (of_values ? "v" : "k");
    const std::int64_t d = c_.head_width, kv = c_.kv_heads;
    const ChunkConfig& chunk = c_.chunk;
    const std::int64_t e = chunk.gate == GateKind::kVector ? d : 1;
    Vector sum(size(d)), total(size(d));
    for (std::int64_t offset = 0; offset < chunk.window; ++offset) {
      if (start + offset < 0) continue;
      const Vector& x = inputs[size(start + offset)];
      Vector payload;
      if (chunk.payload == PayloadKind::kShared) {
        payload = map(x, attention + (of_values ? "v_proj.weight" : "k_proj.weight"), head * d, d);
      } else {
        const std::int64_t m =
            chunk.payload == PayloadKind::kPerOffset ? offset : offset / chunk.stride;
        payload = map(x, branch + "_payload.weight", (m * kv + head) * d, d);
      }
      Vector score(size(e));
      if (chunk.gate != GateKind::kUniform) {
        const std::int64_t m = chunk.gate_maps == GateMaps::kShared      ? 0
                               : chunk.gate_maps == GateMaps::kPerOffset ? offset
                                                                         : offset / chunk.stride;
        score = map(x, branch + "_gate.weight", (m * kv + head) * e, e);
        if (chunk.gate_bias) {
          for (std::int64_t i = 0; i < e; ++i) {
            score[size(i)] +=
                weights_.at(branch + "_gate.bias")[size(offset * kv * e + head * e + i)];
          }
        }
      }
      for (std::int64_t i = 0; i < d; ++i) {
        const double weight = std::exp(score[size(e == 1 ? 0 : i)]);
        sum[size(i)] += weight * payload[size(i)];
        total[size(i)] += weight;
      }
    }
    for (std::int64_t i = 0; i < d; ++i) sum[size(i)] /= total[size(i)];
    return sum;
  }

  std::int64_t shift_of(std::int64_t layer, std::int64_t head) const {
    const std::int64_t stride = c_.chunk.stride;
    if (c_.chunk.grid == GridKind::kStaggered) return head * stride / c_.kv_heads;
    if (c_.chunk.grid == GridKind::kAligned) return 0;
    std::int64_t before = 0, all = 0;
    for (std::int64_t l = 0; l < c_.layers; ++l) {
      if (c_.attention[size(l)] != AttentionKind::kChunked) continue;
      ++all;
      if (l < layer) ++before;
    }
    return before * stride / all;
  }

  Vector attend(const Rows& inputs, std::int64_t t, std::int64_t layer) const {
    const std::string name = "model.layers." + std::to_string(layer) + ".self_attn.";
    const AttentionKind kind = c_.attention[size(layer)];
    const bool chunked = kind == AttentionKind::kChunked;
    const bool tied = chunked && c_.chunk.tied_kv;
    const std::int64_t d = c_.head_width, window = c_.chunk.window, stride = c_.chunk.stride;
    Vector joined;
    for (std::int64_t h = 0; h < c_.query_heads; ++h) {
      const std::int64_t g = h / (c_.query_heads / c_.kv_heads);
      Vector q = map(inputs[size(t)], name + "q_proj.weight", h * d, d);
      if (c_.qk_norm) q = norm(q, name + "q_norm.weight");
      q = rotate(q, t);
      Rows keys, values;
      std::int64_t tail_begin = 0;
      if (chunked) {
        const std::int64_t shift = shift_of(layer, g);
        for (std::int64_t start = shift - 10 * window * stride; start + window - 1 <= t;
             start += stride) {
          if (start + window - 1 < 0) continue;
          tail_begin = start + window;
          const bool at_start = c_.chunk.entry_position == EntryPosition::kWindowStart;
          const std::int64_t position = at_start ? (start < 0 ? 0 : start) : start + window - 1;
          keys.push_back(key(pooled(inputs, start, g, false, name), position, name));
          values.push_back(tied ? keys.back() : pooled(inputs, start, g, true, name));
        }
      }
      for (std::int64_t u = 0; u <= t; ++u) {
        const bool tail = chunked && c_.chunk.recent == RecentKind::kUncompressedTail;
        const bool seen =
            kind == AttentionKind::kFull || (tail ? u >= tail_begin : t - u < c_.local_window);
        if (!seen) continue;
        keys.push_back(key(map(inputs[size(u)], name + "k_proj.weight", g * d, d), u, name));
        values.push_back(tied ? keys.back()
                              : map(inputs[size(u)], name + "v_proj.weight", g * d, d));
      }
      double total = c_.attention_sink ? std::exp(weights_.at(name + "sinks")[size(h)]) : 0;
      Vector out(size(d));
      for (std::size_t n = 0; n < keys.size(); ++n) {
        double score = 0;
        for (std::size_t i = 0; i < size(d); ++i) score += q[i] * keys[n][i];
        const double weight = std::exp(score / std::sqrt(static_cast<double>(d)));
        total += weight;
        for (std::size_t i = 0; i < size(d); ++i) out[i] += weight * values[n][i];
      }
      for (const double value : out) joined.push_back(value / total);
    }
    return map(joined, name + "o_proj.weight");
  }

  Rows layer_output(const Rows& x, std::int64_t layer) const {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    Rows inputs;
    for (const Vector& row : x) inputs.push_back(norm(row, name + "input_layernorm.weight"));
    Rows result;
    for (std::size_t t = 0; t < x.size(); ++t) {
      Vector y = attend(inputs, static_cast<std::int64_t>(t), layer);
      if (c_.post_norm) y = norm(y, name + "post_self_attn_layernorm.weight");
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[t][i];
      const Vector normed = norm(y, name + "post_attention_layernorm.weight");
      Vector inner = map(normed, name + "mlp.gate_proj.weight");
      const Vector up = map(normed, name + "mlp.up_proj.weight");
      for (std::size_t i = 0; i < inner.size(); ++i) {
        inner[i] = inner[i] / (1 + std::exp(-inner[i])) * up[i];
      }
      Vector down = map(inner, name + "mlp.down_proj.weight");
      if (c_.post_norm) down = norm(down, name + "post_mlp_layernorm.weight");
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += down[i];
      result.push_back(y);
    }
    return result;
  }

  ModelConfig c_;
  std::map<std::string, Vector> weights_;
};

}  // namespace

ModelConfig random_config(base::Random& random) {
  ModelConfig config;
  config.vocab_size = 7;
  config.context_length = 64;
  config.layers = 1 + static_cast<std::int64_t>(random.uniform_index(2));
  config.width = 6;
  config.kv_heads = pick(random, {1, 2, 3});
  config.query_heads = config.kv_heads * pick(random, {1, 2});
  config.head_width = 4;
  config.ff_width = 5;
  config.tied_embeddings = coin(random);
  config.embedding_scale = pick(random, {1.0, 1.5});
  config.qk_norm = coin(random);
  config.post_norm = coin(random);
  config.attention_sink = coin(random);
  config.rope_dims = pick(random, {0, 2, 4});
  config.rope_base = 100;
  config.local_window = pick(random, {1, 2, 5});
  config.init = pick(random, {Init::kScaled, Init::kNormal002, Init::kMatched});
  config.attention.assign(size(config.layers), AttentionKind::kChunked);
  config.attention[0] =
      config.layers == 1
          ? AttentionKind::kChunked
          : pick(random, {AttentionKind::kFull, AttentionKind::kLocal, AttentionKind::kChunked});
  ChunkConfig& chunk = config.chunk;
  chunk.window = 1 + static_cast<std::int64_t>(random.uniform_index(6));
  chunk.stride = coin(random)
                     ? chunk.window
                     : 1 + static_cast<std::int64_t>(random.uniform_index(size(chunk.window)));
  chunk.grid = config.kv_heads > 1 && coin(random) ? GridKind::kStaggered : GridKind::kAligned;
  if (std::ranges::count(config.attention, AttentionKind::kChunked) > 1 && coin(random)) {
    chunk.grid = GridKind::kStaggeredLayers;
  }
  chunk.gate = pick(random, {GateKind::kScalar, GateKind::kVector, GateKind::kUniform});
  chunk.gate_maps = pick(random, {GateMaps::kShared, GateMaps::kPerStride, GateMaps::kPerOffset});
  chunk.gate_bias = chunk.gate != GateKind::kUniform && coin(random);
  chunk.payload =
      pick(random, {PayloadKind::kPerOffset, PayloadKind::kPerStride, PayloadKind::kShared});
  chunk.tied_kv = coin(random);
  chunk.entry_position = pick(random, {EntryPosition::kWindowStart, EntryPosition::kWindowEnd});
  chunk.recent = pick(random, {RecentKind::kLocalWindow, RecentKind::kUncompressedTail});
  return config;
}

std::shared_ptr<Transformer> random_model(const ModelConfig& config, std::uint64_t seed) {
  auto model = std::make_shared<Transformer>(config, seed);
  model->to(torch::kDouble);
  base::Random random(base::derive_seed(seed, "perturbation"));
  torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : model->parameters()) {
    double* const values = parameter.data_ptr<double>();
    for (std::int64_t i = 0; i < parameter.numel(); ++i) values[i] += 0.4 * random.normal();
  }
  return model;
}

torch::Tensor random_tokens(const ModelConfig& config, std::int64_t batch, std::int64_t tokens,
                            base::Random& random) {
  torch::Tensor result = torch::empty({batch, tokens}, torch::kLong);
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    result.data_ptr<std::int64_t>()[i] =
        static_cast<std::int64_t>(random.uniform_index(size(config.vocab_size)));
  }
  return result;
}

std::vector<std::vector<double>> naive_logits(Transformer& model,
                                              const std::vector<std::int64_t>& tokens) {
  return Naive(model).logits(tokens);
}

std::string difference(const torch::Tensor& got, const torch::Tensor& expected, double tolerance) {
  if (got.sizes() != expected.sizes()) return "the shapes differ";
  if (got.numel() == 0) return "";
  const torch::Tensor gap = (got - expected).abs().flatten();
  // NaN compares false with everything, so ask for "within", not for "beyond".
  const torch::Tensor within = gap <= tolerance * (1 + expected.abs().flatten());
  if (within.all().item<bool>()) return "";
  const auto place = within.to(torch::kInt).argmin().item<std::int64_t>();
  return "element " + std::to_string(place) + " of " + std::to_string(got.numel()) + ": got " +
         std::to_string(got.flatten()[place].item<double>()) + ", expected " +
         std::to_string(expected.flatten()[place].item<double>());
}

}  // namespace kvphase::model::testing
