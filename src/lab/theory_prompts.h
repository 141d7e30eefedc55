// Prompts of the idealised task and the network run on them as it stands, vector by vector: the
// plain version beside the closed form of theory_model.h, and the way to embeddings that are only
// nearly equiangular, for which there is no closed form.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "lab/theory_model.h"

namespace kvphase::lab {

using TokenId = std::uint32_t;

// Tokens of `count` prompts, [count][L][S], those of a prompt distinct.
std::vector<TokenId> draw_prompts(const TheorySetting& setting, std::int64_t count,
                                  base::Random& random);

// N vectors of `width` numbers, row by row.
struct Embeddings {
  std::int64_t width = 0;
  std::vector<double> vectors;
};

// x_n = sqrt(kappa) e_0 + e_(n+1): inner products are kappa, and kappa + 1 with itself. kappa >= 0.
Embeddings equiangular(std::int64_t vocabulary, double kappa);

// x_n = sqrt(kappa) e_0 + g_n / sqrt(width), g_n standard normal: equiangular up to about
// 1 / sqrt(width).
Embeddings nearly_equiangular(std::int64_t vocabulary, double kappa, std::int64_t width,
                              base::Random& random);

// What the network does with the queries at positions 0..S-2 of one prompt ([L][S] tokens), the
// mean over the chunks; every chunk has its own coefficients, [L][2][m][S].
std::vector<PhaseOutcome> network_outcomes(const TheorySetting& setting,
                                           const Embeddings& embeddings,
                                           std::span<const TokenId> prompt,
                                           std::span<const double> coefficients);

}  // namespace kvphase::lab
