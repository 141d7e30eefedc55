#include "audit/position_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/stop.h"

namespace kvphase::audit {
namespace {

template <typename T>
std::string_view bytes_of(const T* data, std::size_t count) {
  return {reinterpret_cast<const char*>(data), count * sizeof(T)};
}

}  // namespace

PlanCheck check_plan(const task::Task& task) {
  const std::int64_t R = task.modulus();
  PlanCheck check;
  record::PositionCheck& positions = check.positions;
  positions.checked = true;
  positions.query_position_fixed = true;
  positions.length_fixed = true;
  bool at_residue = true;
  std::vector<double> sums(static_cast<std::size_t>(R));
  std::vector<double> squares(static_cast<std::size_t>(R));
  base::Sha256 hash;
  std::int64_t query_position = -1;
  std::int64_t length = 0;
  for (std::int64_t item = 0; item < task.items() && !base::stop_requested(); ++item) {
    for (std::int64_t residue = 0; residue < R; ++residue) {
      const task::Prompt prompt = task.prompt(item, residue);
      const auto& tokens = prompt.request.prompt;
      if (query_position < 0) {
        query_position = prompt.query_position;
        length = prompt.length;
      }
      positions.query_position_fixed &= prompt.query_position == query_position;
      positions.length_fixed &=
          prompt.length == length && (prompt.words || std::ssize(tokens) == length);
      at_residue &= prompt.target_position % R == residue;
      const auto position = static_cast<double>(prompt.target_position);
      sums[static_cast<std::size_t>(residue)] += position;
      squares[static_cast<std::size_t>(residue)] += position * position;
      const std::int64_t place[2] = {item, residue};
      hash.update(bytes_of(place, 2));
      hash.update(bytes_of(tokens.data(), tokens.size()));
      hash.update(bytes_of(&prompt.request.target, 1));
      if (prompt.words) {
        for (const std::string& piece : prompt.words->pieces) hash.update(piece);
        hash.update(prompt.expected);
      }
    }
  }
  check.prompt_set_sha256 = hash.finish_hex();

  const auto n = static_cast<double>(task.items());
  std::vector<double> means;
  std::vector<double> variances;
  for (std::size_t r = 0; r < sums.size(); ++r) {
    means.push_back(sums[r] / n);
    variances.push_back(std::max(0.0, squares[r] / n - means[r] * means[r]));
  }
  const auto [mean_low, mean_high] = std::minmax_element(means.begin(), means.end());
  const auto [variance_low, variance_high] =
      std::minmax_element(variances.begin(), variances.end());
  positions.mean_low = *mean_low;
  positions.mean_high = *mean_high;
  positions.variance_low = *variance_low;
  positions.variance_high = *variance_high;
  const bool means_equal = positions.mean_high - positions.mean_low <= 1e-6;
  const bool variances_equal = positions.variance_high - positions.variance_low <=
                               kVarianceTolerance * positions.variance_high + 1e-6;
  positions.ok = at_residue && positions.query_position_fixed && positions.length_fixed &&
                 means_equal && variances_equal;
  positions.note = fmt::format(
      "checked on all {} prompts: mean of the target position {:.2f} to {:.2f} tokens, variance "
      "{:.1f} to {:.1f} "
      "tokens^2 over residues (allowed: equal means, variances within {:.0f}%)",
      task.items() * R, positions.mean_low, positions.mean_high, positions.variance_low,
      positions.variance_high, 100 * kVarianceTolerance);
  return check;
}

}  // namespace kvphase::audit
