#include "stats/item_shift.h"

#include "stats/sampling.h"

namespace kvphase::stats {

void draw_shifts(const ItemShifts& items, base::Random& random, std::vector<double>& total_sum,
                 std::vector<double>& total_size) {
  const std::size_t m = items.groups;
  const bool sized = !items.size.empty();
  // Twice as long, so that no row wraps around while it is added.
  total_sum.assign(2 * m, 0);
  total_size.assign(sized ? 2 * m : 0, 0);
  for (std::size_t first = 0; first < items.sum.size(); first += m) {
    const std::size_t by =
        small_index(static_cast<std::uint32_t>(random.next() >> 32), static_cast<std::uint32_t>(m));
    const auto add = [&](const std::vector<double>& rows, std::vector<double>& total) {
      const double* row = rows.data() + first;
      double* to = total.data() + by;
      for (std::size_t g = 0; g < m; ++g) to[g] += row[g];
    };
    add(items.sum, total_sum);
    if (sized) add(items.size, total_size);
  }
  for (std::vector<double>* total : {&total_sum, &total_size}) {
    if (total->empty()) continue;
    for (std::size_t g = 0; g < m; ++g) (*total)[g] += (*total)[m + g];
    total->resize(m);
  }
}

}  // namespace kvphase::stats
