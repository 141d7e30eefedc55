// The idealised induction task of chunked compression (Zhu et al., arXiv 2609.36322) and its exact
// loss.
//
// A prompt is L chunks of S tokens, all distinct, drawn from N equiangular embeddings (inner
// product kappa, of a token with itself kappa + 1). Head h compresses chunk l to one key and one
// value,
//   k = sum_r pK(r) x_r,  v = sum_r pV(r) x_r,  pK and pV on the simplex,
// chosen before the query is known. The query repeats the token at position r of one chunk (r <
// S-1, all equally likely) and asks for the token at r+1. Each head attends to the chunks by a
// softmax of gamma <query, k>; the heads' outputs are summed, and token n gets the logit beta <x_n,
// output>.
//
// With equiangular embeddings kappa leaves both softmaxes, and the loss of given coefficients needs
// no sampling. With the query's chunk written *,
//   a_h  = e^{gamma pK_h*(r)} / (e^{gamma pK_h*(r)} + L - 1)      head h's attention to chunk *
//   c_l(j) = sum_h w_h(l) pV_h,l(j),  w_h(*) = a_h,  w_h(l) = (1 - a_h) / (L - 1)
//   loss(r) = -beta c_*(r+1) + log( sum_l sum_j e^{beta c_l(j)} + N - L S )     in nats,
// and the population loss is its mean over the query's chunk and position. docs/theory.md derives
// it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvphase::lab {

// Lengths are those of the idealised task; `positions` are places in a chunk, 0..S-1.
struct TheorySetting {
  std::int64_t stride = 6;         // S, tokens of a chunk; at least 2
  std::int64_t heads = 3;          // m
  std::int64_t chunks = 8;         // L, at least 2; more: attention must be sharper
  std::int64_t vocabulary = 4096;  // N >= L S; more: heads disturb each other less
  double beta = 1;                 // scale of the logits; larger: heads saturate the output softmax
  double gamma = 4;                // scale of the attention scores; larger: sharper attention
};

// Throws a usage error when a value is outside its range.
void check(const TheorySetting& setting, std::string_view scope);

// Coefficients of all heads in one chunk: [2][m][S], keys then values, each row on the simplex. The
// same layout holds gate logits and gradients.
using Coefficients = std::vector<double>;

enum class Gate { kKey = 0, kValue = 1 };

std::size_t coefficient_count(const TheorySetting& setting);                     // 2 m S
std::size_t row_of(const TheorySetting& setting, Gate gate, std::int64_t head);  // first index

// The one-hot coefficients pK_h = e_r, pV_h = e_(r+1) with r = positions[h] < S-1.
Coefficients one_hot(const TheorySetting& setting, std::span<const std::int64_t> positions);

// Softmax of each row of logits.
Coefficients gates_of(const TheorySetting& setting, std::span<const double> logits);

// The gradient of a loss with respect to logits from that with respect to gates_of(logits).
void to_logit_gradient(const TheorySetting& setting, std::span<const double> gates,
                       std::span<double> gradient);

// Exact loss of coefficients that are the same in every chunk; `gradient` (may be empty) receives
// the derivative with respect to each coefficient.
double static_loss(const TheorySetting& setting, std::span<const double> coefficients,
                   std::span<double> gradient = {});

// Exact loss of one prompt whose chunks have coefficients of their own, [L][2][m][S]: what a rule
// that looks at the chunk's content can choose. Its mean over prompts is the rule's population
// loss.
double chunkwise_loss(const TheorySetting& setting, std::span<const double> coefficients,
                      std::span<double> gradient = {});

// What coefficients that are the same in every chunk do with a query at `position`.
struct PhaseOutcome {
  double loss = 0;         // nats
  double probability = 0;  // that the model gives the right token
  double accuracy = 0;     // top-1: 1, 0, or 1/k where the right token ties with k-1 others
};

// For the positions 0..S-2, in order.
std::vector<PhaseOutcome> static_outcomes(const TheorySetting& setting,
                                          std::span<const double> coefficients);

}  // namespace kvphase::lab
