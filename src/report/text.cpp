#include "report/text.h"

#include <fmt/format.h>

#include "base/number_text.h"

namespace kvphase::report {
namespace {

constexpr double kSmallestShownP = 1e-4;

}  // namespace

Unit unit_of(const record::Result& result) { return unit_of(result.score); }

Unit unit_of(std::string_view score) {
  if (score == "accuracy") return Unit::kShare;
  return score == "logprob" || score == "margin" ? Unit::kNats : Unit::kScore;
}

std::string_view unit_name(Unit unit) {
  return unit == Unit::kShare ? "points" : unit == Unit::kNats ? "nats" : "";
}

std::string value_text(std::optional<double> value, Unit unit) {
  if (!value) return std::string(kUndefined);
  return unit == Unit::kShare ? base::decimal_text(100 * *value, 1) + "%"
                              : base::score_text(*value);
}

std::string difference_text(std::optional<double> value, Unit unit) {
  if (!value) return std::string(kUndefined);
  if (unit == Unit::kShare) return base::decimal_text(100 * *value, 1) + " points";
  return base::score_text(*value) + (unit == Unit::kNats ? " nats" : "");
}

std::string interval_text(std::optional<double> low, std::optional<double> high, Unit unit) {
  if (!low || !high) return "";
  const bool share = unit == Unit::kShare;
  return (share ? base::decimal_text(100 * *low, 1) : base::score_text(*low)) + " to " +
         value_text(high, unit);
}

std::string difference_interval_text(std::optional<double> low, std::optional<double> high,
                                     Unit unit) {
  if (!low || !high) return "";
  const bool share = unit == Unit::kShare;
  return (share ? base::decimal_text(100 * *low, 1) : base::score_text(*low)) + " to " +
         difference_text(high, unit);
}

std::string p_text(std::optional<double> p) {
  if (!p) return "no p-value";
  if (*p < kSmallestShownP) return fmt::format("p < {:.4f}", kSmallestShownP);
  return "p = " + base::decimal_text(*p, *p < 0.001 ? 4 : 3);
}

std::string confidence_text(const record::Result& result) {
  return fmt::format("{:g}%", 100 * result.confidence);
}

std::string period_text(const record::Period& period) {
  if (period.value) return fmt::format("{}", *period.value);
  return period.p_value ? "none found" : "not tested";
}

std::string_view label_of(record::VerdictKind kind) {
  switch (kind) {
    case record::VerdictKind::kPeriodic:
      return "Periodic";
    case record::VerdictKind::kNoPeriod:
      return "No period found";
    case record::VerdictKind::kNotLearned:
      return "Task not learned";
    case record::VerdictKind::kInconclusive:
      return "Inconclusive";
  }
  return "Inconclusive";
}

std::string count_text(std::int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t left = digits.size() - i;
    if (left % 3 == 0 && i > 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

std::string design_text(const record::Result& result) {
  const record::Design& design = result.design;
  std::string text;
  if (design.items > 0) {
    text += count_text(design.items) + (design.items == 1 ? " item x " : " items x ");
  }
  text += fmt::format("{} residues, {} {}", design.modulus, count_text(design.observations),
                      design.observations == 1 ? "prompt" : "prompts");
  if (design.missing > 0) text += fmt::format(" ({} missing)", count_text(design.missing));
  if (!design.padding.empty()) text += fmt::format(", {} padding", printable(design.padding));
  if (!design.mitigation.empty()) text += ", mitigation " + printable(design.mitigation);
  return text;
}

std::optional<std::int64_t> boundary_phase(const record::Result& result) {
  if (!result.folded) return std::nullopt;
  for (const record::Group& phase : result.folded->phases) {
    if (phase.boundary) return phase.index;
  }
  return std::nullopt;
}

std::optional<std::int64_t> phase_of(const record::Result& result, std::int64_t residue) {
  if (!result.folded || result.folded->stride <= 0) return std::nullopt;
  return residue % result.folded->stride;
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xC2 && i + 1 < text.size() &&
                    static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                    static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    out += byte < 0x20 || byte == 0x7F || c1 ? ' ' : text[i];
  }
  return out;
}

std::string estimate_text(const record::Estimate& estimate, Unit unit) {
  if (!estimate.value) {
    return std::string(kUndefined) +
           (estimate.reason.empty() ? "" : ": " + printable(estimate.reason));
  }
  const std::string interval = interval_text(estimate.low, estimate.high, unit);
  return value_text(estimate.value, unit) + (interval.empty() ? "" : " [" + interval + "]");
}

std::string e_value_text(const record::Sequential& s) {
  const std::string value =
      s.e_value < 1000 ? fmt::format("{:.3g}", s.e_value) : fmt::format("{:.1e}", s.e_value);
  return fmt::format("{} that phases differ ({:g} needed){}", value, s.e_needed,
                     s.known_after ? fmt::format(", reached after {} items", *s.known_after)
                                   : std::string(", not reached"));
}

std::string saving_text(const record::Sequential& s) {
  return fmt::format("{} of {} planned ({:.0f}% saved), {} of {} items", count_text(s.prompts),
                     count_text(s.planned), 100 * s.saving, count_text(s.items),
                     count_text(s.max_items));
}

}  // namespace kvphase::report
