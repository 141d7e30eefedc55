#include "report/csv.h"

#include <fmt/format.h>

#include "report/text.h"

namespace kvphase::report {
namespace {

template <typename T>
std::string field(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value)
               : "";  // doubles: the shortest text that reads back equal
}

}  // namespace

std::string residues_csv(const record::Result& result) {
  std::string csv = "residue,n,correct,accuracy,low,high,phase,mean_logprob\n";
  for (const record::Group& group : result.residues) {
    csv += fmt::format("{},{},{},{},{},{},{},{}\n", group.index, group.n, field(group.correct),
                       field(group.accuracy), field(group.low), field(group.high),
                       field(phase_of(result, group.index)), field(group.mean_logprob));
  }
  return csv;
}

}  // namespace kvphase::report
