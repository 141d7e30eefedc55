#include "report/comparison.h"

#include <fmt/format.h>

#include <string_view>

#include "report/text.h"

namespace kvphase::report {
namespace {

using record::ComparedGroup;

constexpr std::string_view kNone = "-";

std::string number(const std::optional<double>& value) {
  return value ? fmt::format("{:.3f}", *value) : fmt::format("{}", kNone);
}

std::string share(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return fmt::format("{}", kNone);
  return fmt::format("{:.1f}%", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string line(std::string_view name, const ComparedGroup& group) {
  // A mark per 5% of answers that differ.
  const std::int64_t marks = group.n == 0 ? 0 : (20 * group.flips + group.n - 1) / group.n;
  std::string row =
      fmt::format("{:>8}  {:>7}  {:>7}  {:>7}  {:>8}  {:>7}  ", name, count_text(group.n),
                  share(group.correct_a, group.n), share(group.correct_b, group.n),
                  share(group.flips, group.n), number(group.variation));
  for (std::int64_t i = 0; i < marks; ++i) row += "█";
  while (row.ends_with(' ')) row.pop_back();
  return row + "\n";
}

std::string header(std::string_view group) {
  return fmt::format("{:>8}  {:>7}  {:>7}  {:>7}  {:>8}  {:>7}\n", group, "n", "A", "B", "differ",
                     "TV");
}

}  // namespace

std::string comparison_text(const record::Comparison& c) {
  std::string text = fmt::format("{}\n\n", printable(c.sentence));
  text += fmt::format("A  {}\nB  {}\n\n", printable(c.name_a), printable(c.name_b));
  text += header("residue");
  for (const ComparedGroup& group : c.residues) text += line(std::to_string(group.index), group);
  text += line("all", c.all);
  if (c.noise) text += line("A twice", *c.noise);
  if (!c.lengths.empty()) {
    text += fmt::format("\n{}", header("tokens"));
    for (const ComparedGroup& group : c.lengths) text += line(count_text(group.index), group);
  }
  text += "\n";
  const auto test = [&](std::string_view question, const std::optional<double>& p) {
    if (p) text += fmt::format("{:<44}{}\n", question, p_text(p));
  };
  test("right alike at every residue", c.p_correct);
  test("answers differ no oftener than A's own", c.p_flips);
  if (c.rotation) test("alike when shifted", c.rotation->p_here);
  test("the difference follows no period", c.p_period);
  test("the difference starts at no length", c.p_threshold);
  if (c.missing_a + c.missing_b > 0) {
    text += fmt::format("missing replies: {} of A, {} of B, of {} prompts each\n",
                        count_text(c.missing_a), count_text(c.missing_b), count_text(c.planned));
  }
  for (const std::string& note : c.notes) text += fmt::format("Note: {}\n", printable(note));
  text +=
      "\nTV: mean total variation distance of the first token's distributions, a lower bound\n"
      "where the servers name only their likeliest tokens.\n";
  text += fmt::format("\nNext: {}\n", printable(c.next_step));
  return text;
}

}  // namespace kvphase::report
