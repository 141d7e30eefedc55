#include "stats/interval.h"

#include <algorithm>
#include <boost/math/distributions/beta.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "base/error.h"

namespace kvphase::stats {
namespace {

void check(std::int64_t correct, std::int64_t n, double level) {
  if (n < 0 || correct < 0 || correct > n) {
    throw base::usage_error("stats.interval", "expected 0 <= correct <= n, got correct {} of n {}",
                            correct, n);
  }
  if (!(level > 0 && level < 1)) {
    throw base::usage_error("stats.interval", "expected a level between 0 and 1, got {}", level);
  }
}

Estimate share(std::int64_t correct, std::int64_t n, double level, const char* method) {
  check(correct, n, level);
  Estimate e{.n = n, .level = level, .method = method};
  if (n == 0) {
    e.reason = "no observations";
  } else {
    e.value = static_cast<double>(correct) / static_cast<double>(n);
  }
  return e;
}

double lower(std::int64_t correct, std::int64_t n, double alpha) {
  return exact_share_lower(static_cast<double>(correct) / static_cast<double>(n),
                           static_cast<double>(n), alpha);
}

double upper(std::int64_t correct, std::int64_t n, double alpha) {
  return exact_share_upper(static_cast<double>(correct) / static_cast<double>(n),
                           static_cast<double>(n), alpha);
}

}  // namespace

double exact_share_lower(double share, double n, double alpha) {
  if (share == 0) return 0;
  const boost::math::beta_distribution<> beta(share * n, n - share * n + 1);
  return boost::math::quantile(beta, alpha);
}

double exact_share_upper(double share, double n, double alpha) {
  if (share == 1) return 1;
  const boost::math::beta_distribution<> beta(share * n + 1, n - share * n);
  return boost::math::quantile(boost::math::complement(beta, alpha));
}

double student_quantile(double p, double df) {
  return boost::math::quantile(boost::math::students_t_distribution<>(df), p);
}

double normal_quantile(double p) {
  return boost::math::quantile(boost::math::normal_distribution<>(), p);
}

Estimate wilson(std::int64_t correct, std::int64_t n, double level) {
  Estimate e = share(correct, n, level, "Wilson score");
  if (!e.value) return e;
  const double size = static_cast<double>(n);
  const double p = *e.value;
  const double z = -normal_quantile((1 - level) / 2);
  const double scale = 1 + z * z / size;
  const double centre = (p + z * z / (2 * size)) / scale;
  const double half = z / scale * std::sqrt(p * (1 - p) / size + z * z / (4 * size * size));
  e.low = correct == 0 ? 0.0 : std::max(0.0, centre - half);
  e.high = correct == n ? 1.0 : std::min(1.0, centre + half);
  return e;
}

Estimate clopper_pearson(std::int64_t correct, std::int64_t n, double level) {
  Estimate e = share(correct, n, level, "Clopper-Pearson, two-sided");
  if (!e.value) return e;
  e.low = lower(correct, n, (1 - level) / 2);
  e.high = upper(correct, n, (1 - level) / 2);
  return e;
}

Estimate clopper_pearson_lower(std::int64_t correct, std::int64_t n, double alpha) {
  Estimate e = share(correct, n, 1 - alpha, "Clopper-Pearson, one-sided lower");
  if (e.value) e.low = lower(correct, n, alpha);
  return e;
}

Estimate clopper_pearson_upper(std::int64_t correct, std::int64_t n, double alpha) {
  Estimate e = share(correct, n, 1 - alpha, "Clopper-Pearson, one-sided upper");
  if (e.value) e.high = upper(correct, n, alpha);
  return e;
}

}  // namespace kvphase::stats
