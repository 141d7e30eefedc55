// One exact identifier at a chosen depth in filler, asked for at the end: for engines that return
// it with a character wrong at some prompt lengths.
#pragma once

#include "task/filled.h"
#include "task/identifier.h"

namespace kvphase::task {

struct NeedleOptions {
  IdentifierKind identifier = IdentifierKind::kCode;
  std::int64_t entries = 64;  // different identifiers
  std::uint64_t seed = 1;
};

// Segments, entries and limits of a FilledTask; words and sizes are the caller's.
FilledOptions needle_options(const NeedleOptions& options);

}  // namespace kvphase::task
