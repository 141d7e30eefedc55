// How the answers of two models to the same prompts differ: comparison.json of `kvphase compare`.
// Shares are fractions 0..1; undefined is empty with a reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "record/context.h"

namespace kvphase::record {

inline constexpr const char* kComparisonSchema = "kvphase.comparison/1";

enum class DifferenceKind {
  kNone,          // no more than the noise floor
  kRotation,      // the other's curve, shifted: hidden tokens in front
  kPeriod,        // the difference follows the position
  kThreshold,     // it starts at a prompt length
  kEverywhere,    // it is there, alike at all positions
  kInconclusive,  // too little data, or none in pairs
};
std::string_view name_of(DifferenceKind kind);  // "none" | "rotation" | ...

// Prompts of one residue, or of one length.
struct ComparedGroup {
  std::int64_t index = 0;  // residue, or length in tokens
  std::int64_t n = 0;      // prompts with a usable reply of both
  std::int64_t correct_a = 0;
  std::int64_t correct_b = 0;
  std::int64_t flips = 0;           // the two answers differ
  std::optional<double> variation;  // mean total variation distance of the first token's
                                    // distributions, where both sides say it
};

struct Rotation {
  std::int64_t shift = 0;  // B at a residue answers as A does `shift` residues later
  std::int64_t every = 0;  // and shift + every, ...: the curve repeats. R: it does not
  double p_here = 1;       // of "B answers as A, shifted": not rejected
  double p_unshifted = 1;  // of "B answers as A at the same residue": rejected
};

struct Comparison {
  std::string name_a;
  std::string name_b;
  RunContext context;
  std::int64_t modulus = 0;  // R
  std::int64_t planned = 0;  // prompts
  ComparedGroup all;         // index unused
  std::int64_t missing_a = 0;
  std::int64_t missing_b = 0;
  // A asked twice: what differs without any difference between models. Empty: not measured.
  std::optional<ComparedGroup> noise;

  double level = 0.05;
  std::optional<double> p_correct;  // the two are right alike at every residue
  std::optional<double> p_flips;    // answers differ as often as those of A asked twice
  std::optional<Rotation> rotation;
  std::optional<std::int64_t> period;  // of the difference
  std::optional<double> p_period;
  std::optional<std::int64_t> threshold;  // answers differ more often from this length on, tokens
  std::optional<double> p_threshold;

  std::vector<ComparedGroup> residues;  // R of them
  std::vector<ComparedGroup> lengths;   // where prompts have several, increasing
  DifferenceKind kind = DifferenceKind::kInconclusive;
  std::string sentence;
  std::string next_step;
  std::vector<std::string> notes;
};

base::Json to_json(const Comparison& comparison);

}  // namespace kvphase::record
