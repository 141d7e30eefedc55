// Intervals for one proportion, from `correct` successes in `n` independent trials of equal chance.
// They must not be used for several prompts of one item (those are not independent): use the
// bootstrap over items there. n = 0 gives an empty value with a reason; correct outside 0..n or a
// level outside (0, 1) throws a usage error.
#pragma once

#include <cstdint>

#include "stats/estimate.h"

namespace kvphase::stats {

// Wilson's score interval (Wilson 1927; recommended for small n by Brown, Cai and DasGupta 2001):
// centre (p + z^2/2n) / (1 + z^2/n), half width z/(1 + z^2/n) sqrt(p(1-p)/n + z^2/4n^2).
Estimate wilson(std::int64_t correct, std::int64_t n, double level = 0.95);

// The exact interval of Clopper and Pearson (1934): coverage is never below `level`.
// low = Beta quantile(a/2; x, n-x+1), high = Beta quantile(1-a/2; x+1, n-x), a = 1 - level.
Estimate clopper_pearson(std::int64_t correct, std::int64_t n, double level = 0.95);

// One-sided exact bounds: P(bound > true share) <= alpha, and P(bound < true share) <= alpha.
// The other side of the returned interval is empty; level is 1 - alpha.
Estimate clopper_pearson_lower(std::int64_t correct, std::int64_t n, double alpha = 0.05);
Estimate clopper_pearson_upper(std::int64_t correct, std::int64_t n, double alpha = 0.05);

// The same bounds where n need not be whole: the observations that a cluster sample is worth (Korn
// and Graubard 1998), with `share` of them right. n > 0, 0 <= share <= 1.
double exact_share_lower(double share, double n, double alpha);
double exact_share_upper(double share, double n, double alpha);

// Quantile of the standard normal, 0 < p < 1; of Student's t with df > 0 degrees of freedom.
double normal_quantile(double p);
double student_quantile(double p, double df);

}  // namespace kvphase::stats
