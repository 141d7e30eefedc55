#include "lab/theory_prompts.h"

#include <cmath>
#include <numeric>

namespace kvphase::lab {
namespace {

constexpr double kTie = 1e-9;  // logits closer than this tie

using Vector = std::vector<double>;

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void add(Vector& to, double weight, std::span<const double> x) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += weight * x[i];
}

Vector softmax(Vector x) {
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v);
  for (double& v : x) v /= sum;
  return x;
}

}  // namespace

std::vector<TokenId> draw_prompts(const TheorySetting& s, std::int64_t count,
                                  base::Random& random) {
  std::vector<TokenId> tokens;
  for (std::int64_t prompt = 0; prompt < count; ++prompt) {
    for (const std::size_t token :
         random.sample_without_replacement(static_cast<std::size_t>(s.vocabulary),
                                           static_cast<std::size_t>(s.chunks * s.stride))) {
      tokens.push_back(static_cast<TokenId>(token));
    }
  }
  return tokens;
}

Embeddings equiangular(std::int64_t vocabulary, double kappa) {
  const auto width = static_cast<std::size_t>(vocabulary + 1);
  Embeddings e = {.width = vocabulary + 1, .vectors = Vector((width - 1) * width, 0.0)};
  for (std::size_t n = 0; n + 1 < width; ++n) {
    e.vectors[n * width] = std::sqrt(kappa);
    e.vectors[n * width + n + 1] = 1;
  }
  return e;
}

Embeddings nearly_equiangular(std::int64_t vocabulary, double kappa, std::int64_t width,
                              base::Random& random) {
  Embeddings e = {.width = width + 1, .vectors = {}};
  for (std::int64_t n = 0; n < vocabulary; ++n) {
    e.vectors.push_back(std::sqrt(kappa));
    for (std::int64_t i = 0; i < width; ++i) {
      e.vectors.push_back(random.normal() / std::sqrt(static_cast<double>(width)));
    }
  }
  return e;
}

std::vector<PhaseOutcome> network_outcomes(const TheorySetting& s, const Embeddings& embeddings,
                                           std::span<const TokenId> prompt,
                                           std::span<const double> coefficients) {
  const auto S = static_cast<std::size_t>(s.stride), L = static_cast<std::size_t>(s.chunks);
  const auto width = static_cast<std::size_t>(embeddings.width);
  const auto embedding = [&](std::size_t token) {
    return std::span<const double>(embeddings.vectors).subspan(token * width, width);
  };
  const auto compressed = [&](Gate gate, std::int64_t head, std::size_t chunk) {
    const std::size_t row = chunk * coefficient_count(s) + row_of(s, gate, head);
    Vector entry(width, 0.0);
    for (std::size_t r = 0; r < S; ++r) {
      add(entry, coefficients[row + r], embedding(prompt[chunk * S + r]));
    }
    return entry;
  };
  std::vector<std::vector<Vector>> keys, values;  // [m][L]
  for (std::int64_t h = 0; h < s.heads; ++h) {
    keys.emplace_back();
    values.emplace_back();
    for (std::size_t l = 0; l < L; ++l) {
      keys.back().push_back(compressed(Gate::kKey, h, l));
      values.back().push_back(compressed(Gate::kValue, h, l));
    }
  }
  std::vector<PhaseOutcome> outcomes(S - 1);
  const double share = 1 / static_cast<double>(L);
  for (std::size_t l = 0; l < L; ++l) {
    for (std::size_t r = 0; r + 1 < S; ++r) {
      const auto query = embedding(prompt[l * S + r]);
      Vector output(width, 0.0);
      for (std::size_t h = 0; h < keys.size(); ++h) {
        Vector scores;
        for (const Vector& key : keys[h]) scores.push_back(s.gamma * dot(query, key));
        const Vector attention = softmax(scores);
        for (std::size_t c = 0; c < L; ++c) add(output, attention[c], values[h][c]);
      }
      const double right = s.beta * dot(embedding(prompt[l * S + r + 1]), output);
      double sum = 0;
      int better = 0, ties = 0;
      for (std::size_t n = 0; n < static_cast<std::size_t>(s.vocabulary); ++n) {
        const double logit = s.beta * dot(embedding(n), output);
        sum += std::exp(logit);
        ties += std::abs(logit - right) <= kTie;
        better += logit > right + kTie;
      }
      outcomes[r].loss += share * (std::log(sum) - right);
      outcomes[r].probability += share * std::exp(right) / sum;
      outcomes[r].accuracy += better > 0 ? 0 : share / ties;
    }
  }
  return outcomes;
}

}  // namespace kvphase::lab
