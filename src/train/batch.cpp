#include "train/batch.h"

#include <cassert>

namespace kvphase::train {

Batch make_batch(const task::LookupLanguage& language, std::uint64_t seed, std::string_view stream,
                 std::uint64_t step, std::int64_t sequences) {
  base::Random random(base::derive_seed(seed, stream, {step}));
  Batch batch{.tokens = torch::empty({sequences, language.length()}, torch::kInt64),
              .rows = torch::empty({language.queries}, torch::kInt64),
              .targets = torch::empty({sequences, language.queries}, torch::kInt64)};
  auto* tokens = batch.tokens.data_ptr<std::int64_t>();
  auto* rows = batch.rows.data_ptr<std::int64_t>();
  auto* targets = batch.targets.data_ptr<std::int64_t>();
  for (std::int64_t b = 0; b < sequences; ++b) {
    const task::LookupSequence sequence = task::sample_sequence(language, random);
    for (const lm::TokenId token : sequence.tokens) *tokens++ = token;
    for (std::size_t q = 0; q < sequence.query_positions.size(); ++q) {
      const std::int64_t position = sequence.query_positions[q];
      assert(b == 0 || rows[q] == position);
      rows[q] = position;
      *targets++ = sequence.tokens[static_cast<std::size_t>(position + 1)];
    }
  }
  return batch;
}

}  // namespace kvphase::train
