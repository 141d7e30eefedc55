// A Folder for tables of any size. A large one is folded in full as it is observed, while its nulls
// are drawn from a random sample of its items and scaled to all of them (large_table.h), on all
// cores; a large one of a single item is folded position by position (position_folder.h). A small
// one is a Folder and nothing else. Internal to stats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "stats/fold.h"
#include "stats/fold_scan.h"
#include "stats/position_folder.h"

namespace kvphase::stats {

class SampledFolder {
 public:
  // Keeps a reference to the table. The seed decides which items a sample holds.
  SampledFolder(const ScoreTable& table, std::vector<std::int64_t> candidates, std::uint64_t seed);

  bool sampled() const { return scan_.has_value(); }
  bool by_position() const { return positions_.has_value(); }
  std::size_t items() const;  // informative, of all
  std::size_t sampled_items() const { return folder_.items(); }
  // Random numbers of one step.
  std::size_t cells() const { return positions_ ? positions_->positions() : folder_.cells(); }
  const std::vector<std::int64_t>& candidates() const { return folder_.candidates(); }
  std::size_t groups(std::size_t candidate) const;  // phases with observations

  void keep_phases();  // as in Folder
  FoldSums observed();
  // `count` draws of a walk of permutations inside (item, residue class mod `classes`).
  std::vector<FoldSums> permuted(std::int64_t classes, std::int64_t count, std::uint64_t seed);
  // `count` draws in which every item's positions move by its own random multiple of `classes`
  // (Folder::shifted). Never asked of a single item.
  std::vector<FoldSums> shifted(std::int64_t classes, std::int64_t count, std::uint64_t seed);

 private:
  SampledFolder(const ScoreTable& table, std::vector<std::size_t> informative,
                std::vector<std::int64_t> candidates, std::uint64_t seed);

  // Expectations of a null, over all items and over the sample.
  struct Null {
    Carried all;
    Carried some;
    bool sizes_change = false;  // from draw to draw; else they are those observed
  };
  using Draw = std::function<Carried(Folder&, base::Random&)>;
  Null expect(std::int64_t classes);
  Null expect_shifted(std::int64_t classes) const;
  FoldSums scale(Carried some, const Null& null) const;
  std::vector<FoldSums> draw(const Null& null, const Draw& next, std::int64_t count,
                             std::uint64_t seed);

  std::optional<PositionFolder> positions_;
  std::optional<FoldScan> scan_;  // of all informative items, when sampled
  Folder folder_;                 // of the sample, or of everything; empty when by position
  Null observed_;
  Null centred_;  // nothing is expected of any phase
};

}  // namespace kvphase::stats
