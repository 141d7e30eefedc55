// Gate cycling (Zhu et al., arXiv 2609.36322): the offset-specific gate parameters (Z_i, b_i) of
// every chunked layer are rotated by delta offsets, offset i taking those of (i - delta) mod W,
// while the payload maps stay. If gates choose the phases that can be retrieved, the pattern of
// accuracy moves along: A_delta(r) ~ A_0((r - delta) mod S).
//
// With W = S that is one statement. With W > S a token has several offsets and one phase, and two
// rotations do what the words say: over all W offsets (a token's gate may come from the other side
// of the window), or within each stretch of S offsets (only where S divides W), which keeps a
// token's place among the overlapping windows. Where S divides W both move an offset's phase by
// delta; else a gate that wraps round the window moves by another amount.
//
// On staggered grids every KV head's windows start elsewhere. A rotation moves every head's gates
// by delta phases, so the prediction is the same, but each head has a boundary phase of its own
// that stays where it is: no phase is left out, and at those phases the prediction misses.
//
// A pattern that merely vanishes is predicted, too, by some R^2: both changes hold -A_0(r). What
// that gives stands beside R^2. Knows no tensors here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "lab/lookup_run.h"
#include "record/findings.h"
#include "task/lookup.h"

namespace kvphase::lab {

enum class Rotation { kWindow, kWithinStrides };

struct CycleOptions {
  task::LookupOptions lookup;
  std::int64_t stride = 0;           // S; divides lookup.modulus
  std::vector<std::int64_t> deltas;  // 0 is always asked; empty: -3..3, less than a full turn
  Rotation rotation = Rotation::kWindow;
  std::uint64_t seed = 1;  // of the bootstrap
  std::int64_t replicates = 2000;
  RunOptions run;
};

// Which old offset the gate of each offset comes from: [W].
std::vector<std::int64_t> rotated_offsets(std::int64_t window, std::int64_t stride,
                                          std::int64_t delta, Rotation rotation);

// Rotations that differ: of deltas that turn the gates alike (-3 and 1 of 4 offsets) the smaller
// one is kept, of equally small ones the positive.
struct Rotations {
  struct Same {
    std::int64_t left_out = 0;
    std::int64_t kept = 0;
  };
  std::vector<std::int64_t> deltas;  // without 0
  std::vector<Same> same;
};
// `period`: offsets of a full turn. No deltas: -3..3, as far as they are less than that. Throws a
// usage error for a full turn, for more than one and for 0 alone.
Rotations distinct_rotations(const std::vector<std::int64_t>& deltas, std::int64_t period);

struct CycleAnswers {
  std::int64_t items = 0;
  std::int64_t modulus = 0;  // R
  std::int64_t window = 0;   // W; 0: no chunked layer
  std::int64_t rotated = 0;  // gate tensors that were rotated; 0: there is nothing to rotate
  bool aligned = true;       // every KV head's windows start at multiples of S
  std::vector<std::int64_t> deltas;              // 0 first
  std::vector<Rotations::Same> same;             // that were not asked twice
  std::vector<std::vector<std::uint8_t>> right;  // [delta][items * R]
};

CycleAnswers run_cycle(const std::filesystem::path& checkpoint, const CycleOptions& options,
                       record::RunContext& context, const OnProgress& progress = {});

// How well the predicted change explains the observed one: squared correlation over phases. Empty
// with fewer than 3 phases or where one of them does not vary.
struct CycleFit {
  std::optional<double> without_boundary;  // phase S - 1 left out, W = S only
  std::optional<double> all;
  std::optional<double> interior;     // also without (delta - 1) mod S, where it moves to
  std::optional<double> correlation;  // signed, of the same phases as the main figure
  std::optional<double> vanished;     // what they would give had every phase the mean accuracy
};
// base and observed: accuracy by phase [S]; boundary: whether phase S - 1 is one.
CycleFit fit_of(std::span<const double> base, std::span<const double> observed, std::int64_t delta,
                bool boundary);

record::Findings cycle_findings(const CycleAnswers& answers, const CycleOptions& options,
                                const record::RunContext& context);

}  // namespace kvphase::lab
