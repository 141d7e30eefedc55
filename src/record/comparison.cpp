#include "record/comparison.h"

namespace kvphase::record {

using base::Json;
using base::number_or_null;

namespace {

Json group_json(const ComparedGroup& group, const char* index) {
  Json json = {{"n", group.n},
               {"correct_a", group.correct_a},
               {"correct_b", group.correct_b},
               {"flips", group.flips},
               {"total_variation", number_or_null(group.variation)}};
  if (index != nullptr) json[index] = group.index;
  return json;
}

Json groups_json(const std::vector<ComparedGroup>& groups, const char* index) {
  Json json = Json::array();
  for (const ComparedGroup& group : groups) json.push_back(group_json(group, index));
  return json;
}

Json integer_or_null(const std::optional<std::int64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

std::string_view name_of(DifferenceKind kind) {
  switch (kind) {
    case DifferenceKind::kNone:
      return "none";
    case DifferenceKind::kRotation:
      return "rotation";
    case DifferenceKind::kPeriod:
      return "period";
    case DifferenceKind::kThreshold:
      return "threshold";
    case DifferenceKind::kEverywhere:
      return "everywhere";
    case DifferenceKind::kInconclusive:
      return "inconclusive";
  }
  return "inconclusive";
}

Json to_json(const Comparison& c) {
  Json rotation = nullptr;
  if (c.rotation) {
    rotation = {{"shift", c.rotation->shift},
                {"every", c.rotation->every},
                {"p", c.rotation->p_here},
                {"p_unshifted", c.rotation->p_unshifted}};
  }
  return {{"schema", kComparisonSchema},
          {"context", to_json(c.context)},
          {"a", c.name_a},
          {"b", c.name_b},
          {"kind", name_of(c.kind)},
          {"sentence", c.sentence},
          {"next_step", c.next_step},
          {"modulus", c.modulus},
          {"planned", c.planned},
          {"missing_a", c.missing_a},
          {"missing_b", c.missing_b},
          {"all", group_json(c.all, nullptr)},
          {"noise", c.noise ? group_json(*c.noise, nullptr) : Json(nullptr)},
          {"level", c.level},
          {"p_correct", number_or_null(c.p_correct)},
          {"p_flips", number_or_null(c.p_flips)},
          {"rotation", rotation},
          {"period", integer_or_null(c.period)},
          {"p_period", number_or_null(c.p_period)},
          {"threshold", integer_or_null(c.threshold)},
          {"p_threshold", number_or_null(c.p_threshold)},
          {"residues", groups_json(c.residues, "residue")},
          {"lengths", groups_json(c.lengths, "length")},
          {"notes", c.notes}};
}

}  // namespace kvphase::record
