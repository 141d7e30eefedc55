#include "lab/theory_model.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/error.h"

namespace kvphase::lab {
namespace {

struct Sizes {
  std::size_t S, m, L;
  double beta, gamma;
  double rest;  // tokens outside the prompt, all of logit 0
};

Sizes sizes_of(const TheorySetting& s) {
  return {.S = static_cast<std::size_t>(s.stride),
          .m = static_cast<std::size_t>(s.heads),
          .L = static_cast<std::size_t>(s.chunks),
          .beta = s.beta,
          .gamma = s.gamma,
          .rest = static_cast<double>(s.vocabulary - s.chunks * s.stride)};
}

// e^x / (e^x + others) without overflow.
double attention(double x, double others) { return 1 / (1 + others * std::exp(-x)); }

bool equal_within_rounding(double a, double b) { return std::abs(a - b) <= 1e-12; }

}  // namespace

void check(const TheorySetting& s, std::string_view scope) {
  const auto need = [&](bool ok, const char* what, double got) {
    if (!ok) throw base::usage_error(scope, "expected {}, got {:g}", what, got);
  };
  need(s.stride >= 2 && s.stride <= 64, "a stride of 2 to 64", static_cast<double>(s.stride));
  need(s.heads >= 1 && s.heads <= 64, "1 to 64 heads", static_cast<double>(s.heads));
  need(s.chunks >= 2 && s.chunks <= 1024, "2 to 1024 chunks", static_cast<double>(s.chunks));
  need(s.beta > 0 && s.beta <= 100, "beta above 0 and at most 100", s.beta);
  need(s.gamma > 0 && s.gamma <= 100, "gamma above 0 and at most 100", s.gamma);
  if (s.vocabulary < s.chunks * s.stride || s.vocabulary > 1'000'000'000) {
    throw base::usage_error(scope,
                            "expected a vocabulary of at least chunks x stride = {} tokens (all "
                            "tokens of a prompt are distinct) and at most 1e9, got {}",
                            s.chunks * s.stride, s.vocabulary);
  }
}

std::size_t coefficient_count(const TheorySetting& s) {
  return static_cast<std::size_t>(2 * s.heads * s.stride);
}

std::size_t row_of(const TheorySetting& s, Gate gate, std::int64_t head) {
  return static_cast<std::size_t>((static_cast<std::int64_t>(gate) * s.heads + head) * s.stride);
}

Coefficients one_hot(const TheorySetting& s, std::span<const std::int64_t> positions) {
  assert(std::ssize(positions) == s.heads);
  Coefficients p(coefficient_count(s), 0.0);
  for (std::int64_t h = 0; h < s.heads; ++h) {
    const auto r = static_cast<std::size_t>(positions[static_cast<std::size_t>(h)]);
    assert(r + 1 < static_cast<std::size_t>(s.stride));
    p[row_of(s, Gate::kKey, h) + r] = 1;
    p[row_of(s, Gate::kValue, h) + r + 1] = 1;
  }
  return p;
}

Coefficients gates_of(const TheorySetting& s, std::span<const double> logits) {
  const auto S = static_cast<std::size_t>(s.stride);
  Coefficients p(logits.begin(), logits.end());
  for (std::size_t row = 0; row < p.size(); row += S) {
    const auto begin = p.begin() + static_cast<std::ptrdiff_t>(row);
    const auto end = begin + static_cast<std::ptrdiff_t>(S);
    const double top = *std::max_element(begin, end);
    double sum = 0;
    std::for_each(begin, end, [&](double& x) { sum += x = std::exp(x - top); });
    std::for_each(begin, end, [&](double& x) { x /= sum; });
  }
  return p;
}

void to_logit_gradient(const TheorySetting& s, std::span<const double> gates,
                       std::span<double> gradient) {
  const auto S = static_cast<std::size_t>(s.stride);
  for (std::size_t row = 0; row < gates.size(); row += S) {
    double mean = 0;
    for (std::size_t r = row; r < row + S; ++r) mean += gates[r] * gradient[r];
    for (std::size_t r = row; r < row + S; ++r) gradient[r] = gates[r] * (gradient[r] - mean);
  }
}

double static_loss(const TheorySetting& setting, std::span<const double> p,
                   std::span<double> gradient) {
  const auto [S, m, L, beta, gamma, rest] = sizes_of(setting);
  assert(p.size() == 2 * m * S && (gradient.empty() || gradient.size() == p.size()));
  const double others = static_cast<double>(L - 1);
  const double share = 1 / static_cast<double>(S - 1);
  const double* key = p.data();
  const double* value = p.data() + m * S;
  std::fill(gradient.begin(), gradient.end(), 0.0);
  std::vector<double> a(m), in(S), out(S);  // c of the query's chunk and of each other chunk
  double loss = 0;
  for (std::size_t r = 0; r + 1 < S; ++r) {
    std::fill(in.begin(), in.end(), 0.0);
    std::fill(out.begin(), out.end(), 0.0);
    for (std::size_t h = 0; h < m; ++h) {
      a[h] = attention(gamma * key[h * S + r], others);
      for (std::size_t j = 0; j < S; ++j) {
        in[j] += a[h] * value[h * S + j];
        out[j] += (1 - a[h]) / others * value[h * S + j];
      }
    }
    double sum = rest;
    for (std::size_t j = 0; j < S; ++j) {
      sum += std::exp(beta * in[j]) + others * std::exp(beta * out[j]);
    }
    loss += share * (std::log(sum) - beta * in[r + 1]);
    if (gradient.empty()) continue;
    for (std::size_t j = 0; j < S; ++j) {  // now the derivatives by c; `out` of all other chunks
      in[j] = beta * std::exp(beta * in[j]) / sum - (j == r + 1 ? beta : 0);
      out[j] = beta * others * std::exp(beta * out[j]) / sum;
    }
    for (std::size_t h = 0; h < m; ++h) {
      double by_attention = 0;
      for (std::size_t j = 0; j < S; ++j) {
        gradient[m * S + h * S + j] += share * (a[h] * in[j] + (1 - a[h]) / others * out[j]);
        by_attention += value[h * S + j] * (in[j] - out[j] / others);
      }
      gradient[h * S + r] += share * by_attention * gamma * a[h] * (1 - a[h]);
    }
  }
  return loss;
}

double chunkwise_loss(const TheorySetting& setting, std::span<const double> p,
                      std::span<double> gradient) {
  const auto [S, m, L, beta, gamma, rest] = sizes_of(setting);
  const std::size_t chunk = 2 * m * S;
  assert(p.size() == L * chunk && (gradient.empty() || gradient.size() == p.size()));
  const double others = static_cast<double>(L - 1);
  const double share = 1 / static_cast<double>((S - 1) * L);
  std::fill(gradient.begin(), gradient.end(), 0.0);
  std::vector<double> a(m), c(L * S);
  double loss = 0;
  for (std::size_t asked = 0; asked < L; ++asked) {
    for (std::size_t r = 0; r + 1 < S; ++r) {
      for (std::size_t h = 0; h < m; ++h) {
        a[h] = attention(gamma * p[asked * chunk + h * S + r], others);
      }
      std::fill(c.begin(), c.end(), 0.0);
      double sum = rest;
      for (std::size_t l = 0; l < L; ++l) {
        const double* value = p.data() + l * chunk + m * S;
        for (std::size_t h = 0; h < m; ++h) {
          const double w = l == asked ? a[h] : (1 - a[h]) / others;
          for (std::size_t j = 0; j < S; ++j) c[l * S + j] += w * value[h * S + j];
        }
        for (std::size_t j = 0; j < S; ++j) sum += std::exp(beta * c[l * S + j]);
      }
      const std::size_t target = asked * S + r + 1;
      loss += share * (std::log(sum) - beta * c[target]);
      if (gradient.empty()) continue;
      for (double& x : c) x = beta * std::exp(beta * x) / sum;
      c[target] -= beta;
      for (std::size_t h = 0; h < m; ++h) {
        double by_attention = 0;
        for (std::size_t l = 0; l < L; ++l) {
          const double w = l == asked ? a[h] : (1 - a[h]) / others;
          const double dw = l == asked ? 1 : -1 / others;
          const std::size_t row = l * chunk + (m + h) * S;
          for (std::size_t j = 0; j < S; ++j) {
            gradient[row + j] += share * w * c[l * S + j];
            by_attention += dw * p[row + j] * c[l * S + j];
          }
        }
        gradient[asked * chunk + h * S + r] += share * by_attention * gamma * a[h] * (1 - a[h]);
      }
    }
  }
  return loss;
}

std::vector<PhaseOutcome> static_outcomes(const TheorySetting& setting, std::span<const double> p) {
  const auto [S, m, L, beta, gamma, rest] = sizes_of(setting);
  const double others = static_cast<double>(L - 1);
  std::vector<PhaseOutcome> outcomes;
  for (std::size_t r = 0; r + 1 < S; ++r) {
    std::vector<double> in(S, 0.0), out(S, 0.0);
    for (std::size_t h = 0; h < m; ++h) {
      const double a = attention(gamma * p[h * S + r], others);
      for (std::size_t j = 0; j < S; ++j) {
        in[j] += a * p[(m + h) * S + j];
        out[j] += (1 - a) / others * p[(m + h) * S + j];
      }
    }
    const double right = in[r + 1];
    double sum = rest;
    double better = 0, ties = equal_within_rounding(right, 0) ? rest : 0;
    const auto meet = [&](double c, double count) {
      sum += count * std::exp(beta * c);
      if (equal_within_rounding(c, right)) {
        ties += count;
      } else if (c > right) {
        better += count;
      }
    };
    for (std::size_t j = 0; j < S; ++j) {
      meet(in[j], 1);  // counts the right token among the ties
      meet(out[j], others);
    }
    outcomes.push_back({.loss = std::log(sum) - beta * right,
                        .probability = std::exp(beta * right) / sum,
                        .accuracy = better > 0 ? 0 : 1 / ties});
  }
  return outcomes;
}

}  // namespace kvphase::lab
