// What to train, on which data, and how: one plain aggregate that can be written to JSON and back.
// Knows no tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/config.h"
#include "task/lookup_language.h"

namespace kvphase::train {

// What a step's sequences are: lookups, text, or some of each.
struct DataOptions {
  // Folders of token shards (train/token_set.h); empty: lookups only.
  std::vector<std::string> text;
  std::int64_t sequence = 256;  // tokens of a text sequence; every next one is predicted
  // Share of a step's sequences that are lookups, and the weight of their loss (the mean over
  // answers) beside that of the text (the mean over next tokens). 0: text only, and an audit's
  // lookups are zero-shot.
  double lookup_share = 0;

  friend bool operator==(const DataOptions&, const DataOptions&) = default;
};

// A checkpoint that the training begins from, in place of random weights.
struct InitialWeights {
  std::string folder;  // of the checkpoint; empty: none
  std::string sha256;  // of its weights

  friend bool operator==(const InitialWeights&, const InitialWeights&) = default;
};

struct TrainOptions {
  std::string recipe;        // the preset it came from; recorded, without effect
  model::ModelConfig model;  // vocab_size and context_length must hold language and text
  task::LookupLanguage language;
  DataOptions data;

  std::int64_t steps = 700;  // optimiser steps: longer training makes weak phases rarer
  std::int64_t batch = 64;   // sequences per step
  // Records and haystack tokens per sequence during the first curriculum_hold steps, then rising
  // evenly to all of them over curriculum_steps. Full attention in every layer hardly learns
  // without, nor does anything at 64 records. 0: no curriculum.
  std::int64_t first_records = 0;
  std::int64_t first_haystack = 0;
  std::int64_t first_batch = 0;  // sequences per step during the hold; 0: `batch`
  std::int64_t curriculum_hold = 0;
  std::int64_t curriculum_steps = 0;
  double learning_rate = 3e-3;     // at its highest, right after warm-up
  std::int64_t warmup_steps = 50;  // linear rise from 0
  double final_fraction = 0.05;    // of learning_rate that the cosine ends at
  double beta1 = 0.9;              // AdamW's memory of gradients
  double beta2 = 0.98;             // ... and of their squares
  double epsilon = 1e-8;           // keeps AdamW's step finite for tiny gradients
  double weight_decay = 0;         // decoupled; on matrices and vectors alike
  double clip_norm = 1;            // longest gradient; 0: no clipping
  std::uint64_t seed = 1;          // of the initial weights and of the data
  std::int64_t threads = 1;        // share out a step's sequences; of all processes
  // Where the network computes: "cpu", "cuda" or "cuda:0", "cuda:1", ...
  std::string device = "cpu";
  // Computes every layer twice and keeps the activations of one instead of all: for networks that
  // would not fit (model/recompute.h). The same results.
  bool recompute_layers = false;
  // Linear maps and their gradients multiply numbers rounded to bfloat16 and add in float32
  // (kernels/linear.h): faster where the CPU can; weights, validation and audits stay float32.
  bool bfloat16_products = false;
  std::int64_t checkpoint_interval = 100;   // steps between states to resume from; 0: none
  std::int64_t validation_sequences = 512;  // fresh sequences for the card's loss and accuracy
  // What every step's lookups have in front of them: k tokens of filler, k drawn evenly from
  // 0..random_offset-1, step by step. 0: nothing.
  std::int64_t random_offset = 0;
  // Every step's chunk grids are 0..S-1 tokens later than the model's configuration says, drawn
  // evenly; afterwards the model has the grids of its configuration.
  bool random_grid = false;
  // Steps between two looks at the gates (train/gate_trace.h), without effect on the weights; 0:
  // none.
  std::int64_t trace_gates = 0;
  InitialWeights initial;
};

// Throws a usage error naming the options that are out of range or contradict each other.
void validate(const TrainOptions& options, std::string_view scope);

base::Json to_json(const TrainOptions& options);
// Unknown keys are refused with the nearest valid one; the result is validated.
TrainOptions train_options_from_json(const base::Json& json, std::string_view scope);

// Sets vocab_size and context_length to the least that language and text need;
// `text_vocabulary` is the shards', 0 without text.
void fit_model_to_language(TrainOptions& options, std::int64_t text_vocabulary = 0);

// Lookup sequences of optimiser step `step` (0-based): all without text, else such that the first n
// steps together have lookup_share of their sequences, rounded down.
std::int64_t lookups_at(const TrainOptions& options, std::int64_t step);

// The language of optimiser step `step` (0-based): during the curriculum a shorter haystack, fewer
// records and at most as many queries.
task::LookupLanguage language_at(const TrainOptions& options, std::int64_t step);

// Filler tokens in front of the lookups of optimiser step `step`, and how much later its grids are.
std::int64_t offset_at(const TrainOptions& options, std::int64_t step);
std::int64_t grid_shift_at(const TrainOptions& options, std::int64_t step);

// Sequences of optimiser step `step` (0-based).
std::int64_t batch_at(const TrainOptions& options, std::int64_t step);

// Learning rate of optimiser step `step` (0-based): linear warm-up, then half a cosine from
// learning_rate down to final_fraction of it at the last step.
double learning_rate_at(const TrainOptions& options, std::int64_t step);

}  // namespace kvphase::train
