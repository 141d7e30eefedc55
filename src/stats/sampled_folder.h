// A Folder for tables of any size. A large one is folded in full as it is observed, while its nulls
// are drawn from a random sample of its items and scaled to all of them (large_table.h). A small
// one is a Folder and nothing else. Internal to stats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stats/fold.h"

namespace kvphase::stats {

class SampledFolder {
 public:
  // Keeps a reference to the table. The seed decides which items a sample holds.
  SampledFolder(const ScoreTable& table, std::vector<std::int64_t> candidates, std::uint64_t seed);

  bool sampled() const { return sampled_; }
  std::size_t items() const;  // informative, of all
  std::size_t sampled_items() const { return folder_.items(); }
  std::size_t cells() const { return folder_.cells(); }  // permuted in one step
  const std::vector<std::int64_t>& candidates() const { return folder_.candidates(); }
  std::size_t groups(std::size_t candidate) const;  // phases with observations

  FoldSums observed();
  void start_permuting(std::int64_t classes);
  FoldSums permuted(base::Random& random);
  FoldSums turned(base::Random& random);

 private:
  // Expectations of a null, over all items and over the sample.
  struct Null {
    Carried all;
    Carried some;
  };
  Null expect(std::int64_t classes);
  FoldSums scale(Carried some, const Null& null) const;

  const ScoreTable& table_;
  bool sampled_ = false;
  std::vector<std::size_t> informative_;  // items, when sampled
  Folder folder_;                         // of the sample, or of everything
  Null observed_;
  Null centred_;  // nothing is expected of any phase
  Null permuting_;
};

}  // namespace kvphase::stats
