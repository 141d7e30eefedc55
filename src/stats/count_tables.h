// Every way to spread the right answers over residues whose numbers of prompts are given, with its
// probability when all prompts are exchangeable (multivariate hypergeometric): the exact null of
// small counts. Internal to stats.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "stats/score_table.h"

namespace kvphase::stats {

// How many tables have these totals; a double, because it may be astronomical.
double number_of_tables(const ResidueCounts& counts);

// Calls visit(right answers per residue, probability) for each; probabilities add up to 1.
void for_each_table(const ResidueCounts& counts,
                    const std::function<void(std::span<const std::int64_t>, double)>& visit);

}  // namespace kvphase::stats
