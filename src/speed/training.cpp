#include "speed/training.h"

#include <algorithm>

#include "base/error.h"

namespace kvphase::speed {
namespace {

constexpr std::int64_t kRecords = 64;
constexpr std::int64_t kPerRecord = 4;  // key and value, and again in the question

}  // namespace

train::TrainOptions training_of(const Cell& cell) {
  if (cell.tokens < kShortestTraining) {
    throw base::usage_error("bench", "expected sequences of at least {} tokens to train on, got {}",
                            kShortestTraining, cell.tokens);
  }
  const std::int64_t records = std::min(kRecords, (cell.tokens - 1) / kPerRecord);
  train::TrainOptions options;
  options.model = cell.config;
  options.model.context_length = cell.tokens;
  options.language.records = records;
  options.language.queries = records;
  options.language.haystack = cell.tokens - 1 - 2 * records;
  options.batch = cell.batch;
  options.threads = cell.threads;
  options.model.vocab_size = std::max(options.model.vocab_size, options.language.vocab_size());
  return options;
}

std::vector<std::int64_t> asked_rows(const train::TrainOptions& options) {
  std::vector<std::int64_t> rows;
  for (std::int64_t query = 0; query < options.language.queries; ++query) {
    rows.push_back(options.language.haystack + 1 + 2 * query);
  }
  return rows;
}

}  // namespace kvphase::speed
