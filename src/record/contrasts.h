// Groups of a curve against each other, as records hold it: the mean with its standard error, a
// test over all groups, their spread without sampling noise, and every group against the worst.
// Each part names its method; undefined is empty with a reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "record/estimate.h"

namespace kvphase::record {

// One group minus the worst.
struct Contrast {
  std::int64_t group = 0;
  Estimate difference;                     // its interval holds for all pairs of groups at once
  std::optional<std::int64_t> only_group;  // items right at one of the two groups only; empty: the
  std::optional<std::int64_t> only_worst;  // method does not count them
  std::optional<double> p;                 // of this pair alone
  std::optional<double> p_holm;            // over all pairs of groups
};

struct Contrasts {
  std::string data;          // "paired" | "unpaired" | "counts": what was used
  std::string limits;        // what it cannot know
  std::string groups;        // "phase" | "residue"
  std::int64_t modulus = 0;  // groups are position mod modulus

  Estimate mean;  // clustered over items, where there are any
  std::optional<double> standard_error;

  struct Test {  // do the groups differ at all?
    std::string method;
    std::optional<double> statistic;
    std::optional<std::int64_t> freedom;  // degrees of freedom behind p_chi_squared
    std::optional<double> p_chi_squared;
    std::optional<double> p_permutation;  // by what `method` says: shifts, permutations or deals
    // Paired: items with every group, those whose groups differ, those that miss one.
    std::optional<std::int64_t> items;
    std::optional<std::int64_t> informative;
    std::optional<std::int64_t> dropped;
    std::string reason;
  } test;

  struct Spread {  // standard deviation of the groups' true means
    std::string method;
    std::optional<double> sd;                   // 0: no more than sampling adds
    std::optional<double> standard_error;       // of a group's mean, for comparing groups
    std::optional<double> shrinkage;            // 1: means as they are, 0: all at the common mean
    std::vector<std::optional<double>> shrunk;  // modulus of them, or none
    std::string reason;
  } spread;

  std::optional<std::int64_t> worst;  // the group that `pairs` are compared with
  std::vector<Contrast> pairs;
  std::string pairs_method;
  std::string pairs_reason;  // why there are no pairs
};

base::Json to_json(const Contrasts& contrasts);
Contrasts contrasts_from_json(const base::Json& json, const std::string& scope);

}  // namespace kvphase::record
