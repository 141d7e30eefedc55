// Numbers and names of a result as people read them, the same words in every report. Knows nothing
// about terminals or HTML.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "record/result.h"

namespace kvphase::report {

// What `accuracy` fields hold: a share 0..1 (shown in percent), a log-probability or margin in
// nats, or a score of a scale of its own, shown bare.
enum class Unit { kShare, kNats, kScore };
Unit unit_of(const record::Result& result);
Unit unit_of(std::string_view score);   // "accuracy" | "logprob" | "margin" | any other
std::string_view unit_name(Unit unit);  // of a difference: "points" | "nats" | ""

inline constexpr std::string_view kUndefined = "undefined";

// 0.803 -> "80.3%" or "0.803"; empty -> "undefined".
std::string value_text(std::optional<double> value, Unit unit);
// 0.797 -> "79.7 points", "0.797 nats" or "0.797"; empty -> "undefined".
std::string difference_text(std::optional<double> value, Unit unit);
// "76.5 to 85.3%"; empty when either end is undefined.
std::string interval_text(std::optional<double> low, std::optional<double> high, Unit unit);
std::string difference_interval_text(std::optional<double> low, std::optional<double> high,
                                     Unit unit);
// "p = 0.034", "p < 0.0001"; empty -> "no p-value".
std::string p_text(std::optional<double> p);
// "95%": the nominal coverage of the result's intervals.
std::string confidence_text(const record::Result& result);
// "4", or why there is none: "none found", "not tested".
std::string period_text(const record::Period& period);

// "Periodic", "No period found", "Task not learned", "Inconclusive".
std::string_view label_of(record::VerdictKind kind);

// "50 items x 24 residues, 1,200 prompts (3 missing), prefix padding"
std::string design_text(const record::Result& result);
std::string count_text(std::int64_t count);  // 12345 -> "12,345"

// The boundary phase of a folded curve, where there is one.
std::optional<std::int64_t> boundary_phase(const record::Result& result);

// The phase of a residue when the curve is folded.
std::optional<std::int64_t> phase_of(const record::Result& result, std::int64_t residue);

// Text from outside (model names, notes) without control characters, so that it can neither move a
// terminal's cursor nor break a line.
std::string printable(std::string_view text);

// {"80.3%", " [78.0 to 82.4%]"} joined, or "undefined: reason".
std::string estimate_text(const record::Estimate& estimate, Unit unit);

// "1.6e+03 that phases differ (20 needed), reached after 16 items" of a sequential audit.
std::string e_value_text(const record::Sequential& s);
// "96 of 256 planned (62% saved), 24 of 64 items".
std::string saving_text(const record::Sequential& s);

}  // namespace kvphase::report
