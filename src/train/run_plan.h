// What a training folder was begun with, and how the processes of one training make sure that all
// of them mean the same one.
#pragma once

#include <filesystem>
#include <string>

#include "train/options.h"
#include "train/ranks.h"

namespace kvphase::train {

// What train.json holds.
struct RunHeader {
  TrainOptions options;
  std::string started;  // UTC
  std::string commit;
  base::Json data;  // the text's shards (TrainingData::identity); null: none
};

void write_header(const std::filesystem::path& folder, const RunHeader& header);
// Throws a usage error when the folder holds no training.
RunHeader read_header(const std::filesystem::path& folder);

struct RunPlan {
  bool resume = false;
  bool complete = false;         // nothing is left to do
  std::filesystem::path folder;  // of rank 0
  RunHeader header;              // to resume: known to rank 0 alone before they agree
};

// Rank 0's plan, on every rank. Throws a usage error on a rank that was told something else, and on
// every rank when there are more of them than threads.
RunPlan agree_on(RunPlan mine, Ranks& ranks);

}  // namespace kvphase::train
