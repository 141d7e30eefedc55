// Notes of a result: what its numbers do not say, and what missing replies could change. Internal
// to audit/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/result.h"
#include "record/table.h"
#include "stats/missing.h"

namespace kvphase::audit {

// What phases are folded by.
struct Stride {
  std::int64_t value = 0;
  std::string source;  // "given" | "model" | "detected"

  std::string_view whose() const { return source == "given" ? "given" : "model's"; }
};

// Replies or rows that are absent at some residues more than at others, which alone may make a
// period or hide one.
struct Uneven {
  std::string note;      // what must be found out first; empty: nothing is uneven
  std::string sentence;  // for the verdict
};

// stats::bound_missing() of a result's residues or phases: planned prompts without a reply.
stats::MissingResult bound_missing(const std::vector<record::Group>& groups, std::int64_t draws,
                                   std::uint64_t seed = 1);

// Each adds what it has to say to the result's notes.
void note_stride(record::Result& r, const std::optional<Stride>& stride);
void note_groups(record::Result& r);
void note_counts(record::Result& r);
void note_rows(record::Result& r, const record::Dataset& data, bool paired);
void note_resolution(record::Result& r, std::int64_t permutations, std::int64_t wanted);
Uneven note_missing(record::Result& r, std::uint64_t seed);

// Positions inside an item's run that have no row at all, as when failed replies were dropped. The
// item's positions are taken for a run of equal steps; where more are absent than present they were
// never planned. rows must be prepared.
Uneven note_left_out(record::Result& r, const record::Dataset& data, std::uint64_t seed);

}  // namespace kvphase::audit
