// Curves that others published, to be drawn beside ours where the design is the same:
// published_curves.json, facts of the paper on phase sensitivity (Zhu et al., arXiv 2609.36322),
// carried inside the program. Only right answers by residue are published, no single prompts: they
// can be described, not paired with ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/table.h"

namespace kvphase::record {

struct PublishedCurve {
  std::string design;                 // the preset's name here: "w8s8-1kv"
  std::optional<std::uint64_t> seed;  // empty: not published
  std::string padding;                // "prefix" | "in-sequence"
  double validation_loss = 0;         // of the model on text, nats per token
  std::int64_t modulus = 0;           // R
  std::int64_t prompts_per_residue = 0;
  double mean_percent = 0;            // as printed: two decimals
  double gap_points = 0;              // as printed: one decimal
  std::vector<std::int64_t> correct;  // [R]
};

const std::vector<PublishedCurve>& published_curves();
const std::string& published_source();  // the citation
const std::string& published_note();    // how they were measured

// As counts, folded to a divisor `modulus` of R (usage error otherwise).
Dataset published_dataset(const PublishedCurve& curve, std::int64_t modulus);

}  // namespace kvphase::record
