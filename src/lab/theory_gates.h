// Log-linear gates: the coefficients of a chunk are chosen by its content. Gate g of head h gives
// the token x at offset r the logit <w, x> with a weight vector w of its own for every (g, h, r),
// and the coefficients are their softmax over the chunk's offsets.
//
// With equiangular embeddings x_n = sqrt(kappa) e_0 + e_(n+1) a weight vector is one number for
// what all tokens share and one per token: logit = sqrt(kappa) w[0] + w[n+1]. The population loss
// is a mean over chunk contents and has no closed form; these functions take it over given prompts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/random.h"
#include "lab/theory_model.h"
#include "lab/theory_prompts.h"

namespace kvphase::lab {

struct GatedSetting {
  TheorySetting task;
  double kappa = 1;  // 0: tokens share nothing, and a gate can learn a position only token by token
};

// Weights [2][m][S][N+1].
std::size_t weight_count(const GatedSetting& setting);

// All weights normal with this standard deviation.
std::vector<double> random_weights(const GatedSetting& setting, double scale, base::Random& random);

// Weights whose logits are [2][m][S] for every token: gates that do not look at the content.
std::vector<double> static_weights(const GatedSetting& setting, std::span<const double> logits);

// Coefficients of every chunk of the prompts, [prompts][L][2][m][S].
std::vector<double> gates_of_prompts(const GatedSetting& setting, std::span<const double> weights,
                                     std::span<const TokenId> prompts);

// Mean loss over the prompts and every query of each, in nats; `gradient` (may be empty) by weight.
double sampled_loss(const GatedSetting& setting, std::span<const double> weights,
                    std::span<const TokenId> prompts, std::span<double> gradient = {});

struct GateSummary {
  Coefficients mean;               // E[alpha] over chunks, [2][m][S]
  std::vector<double> per_window;  // E[exp(H(alpha))], [2][m]: per-window effective offsets
};
GateSummary summarise_gates(const GatedSetting& setting, std::span<const double> weights,
                            std::span<const TokenId> prompts);

}  // namespace kvphase::lab
