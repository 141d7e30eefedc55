#include "report/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "report/contrasts.h"
#include "report/text.h"

namespace kvphase::report {
namespace {

using record::Group;
using record::Result;

constexpr int kNarrowest = 60;
constexpr std::array<std::string_view, 8> kLevels = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

// Columns that text takes; every code point counts as one.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string pad_left(const std::string& text, std::size_t width) {
  const std::size_t used = columns(text);
  return std::string(used < width ? width - used : 0, ' ') + text;
}

std::string pad_right(const std::string& text, std::size_t width) {
  const std::size_t used = columns(text);
  return text + std::string(used < width ? width - used : 0, ' ');
}

// The range that bars and the curve are drawn over.
struct Range {
  double low = 0;
  double high = 1;
  double fraction(double x) const { return std::clamp((x - low) / (high - low), 0.0, 1.0); }
};

Range range_of(const std::vector<Group>& groups, Unit unit) {
  if (unit == Unit::kShare) return {};
  std::optional<double> low, high;
  for (const Group& group : groups) {
    for (const std::optional<double>& x : {group.accuracy, group.low, group.high}) {
      if (!x) continue;
      low = low ? std::min(*low, *x) : *x;
      high = high ? std::max(*high, *x) : *x;
    }
  }
  if (!low || *low == *high) return {low.value_or(0) - 0.5, low.value_or(0) + 0.5};
  return {*low, *high};
}

// Inside a text, a space at which no line may break; printable() keeps it out of outside texts.
constexpr char kGlue = '\x1f';

std::string glued(std::string text) {
  std::replace(text.begin(), text.end(), ' ', kGlue);
  return text;
}

class Report {
 public:
  Report(const Result& result, const TerminalOptions& options)
      : result_(result),
        options_(options),
        width_(static_cast<std::size_t>(std::max(options.width, kNarrowest))),
        unit_(unit_of(result)) {}

  std::string write() {
    verdict();
    table();
    curve();
    numbers();
    if (options_.details) details();
    requirements();
    list("Warning: ", result_.context.warnings, "33");
    if (!result_.verdict.next_step.empty()) {
      out_ += '\n';
      wrapped("Next: ", printable(result_.verdict.next_step));
    }
    return std::move(out_);
  }

 private:
  std::string styled(const std::string& text, std::string_view code) const {
    return options_.color && !code.empty() && !text.empty()
               ? fmt::format("\x1b[{}m{}\x1b[0m", code, text)
               : text;
  }

  void line(std::string text) {
    std::replace(text.begin(), text.end(), kGlue, ' ');
    const std::size_t end = text.find_last_not_of(' ');
    out_ += text.substr(0, end == std::string::npos ? 0 : end + 1);
    out_ += '\n';
  }

  // Words over several lines, indented under the label.
  void wrapped(const std::string& label, const std::string& text, std::string_view code = "") {
    std::string row = label;
    std::size_t used = columns(label);
    bool first = true;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      const std::string word = text.substr(at, end - at);
      at = end + 1;
      if (word.empty()) continue;
      if (!first && used + 1 + columns(word) > width_) {
        line(styled(row, code));
        row = std::string(columns(label), ' ');
        used = columns(label);
        first = true;
      }
      row += (first ? "" : " ") + word;
      used += columns(word) + (first ? 0 : 1);
      first = false;
    }
    line(styled(row, code));
  }

  void list(const std::string& label, const std::vector<std::string>& texts,
            std::string_view code) {
    if (!texts.empty()) out_ += '\n';
    for (const std::string& text : texts) wrapped(label, printable(text), code);
  }

  void verdict() {
    const record::VerdictKind kind = result_.verdict.kind;
    const std::string_view code = kind == record::VerdictKind::kPeriodic   ? "1;31"
                                  : kind == record::VerdictKind::kNoPeriod ? "1;32"
                                                                           : "1;33";
    const std::string sentence = printable(result_.verdict.sentence);
    wrapped("", sentence.empty() ? std::string(label_of(kind)) : sentence, code);
    out_ += '\n';
    wrapped("", printable(result_.title));
    wrapped("", design_text(result_), "2");
  }

  std::string bar(const Group& group, const Range& range, std::size_t width) const {
    const std::array<std::string_view, 3> cells =
        options_.unicode ? std::array<std::string_view, 3>{"█", "▓", "░"}
                         : std::array<std::string_view, 3>{"#", "=", "-"};
    if (!group.accuracy) return std::string(width, ' ');
    const auto cell = [&](double x) {
      return static_cast<std::size_t>(std::lround(range.fraction(x) * static_cast<double>(width)));
    };
    const std::size_t value = cell(*group.accuracy);
    const std::size_t low = std::min(cell(group.low.value_or(*group.accuracy)), value);
    const std::size_t high = std::max(cell(group.high.value_or(*group.accuracy)), value);
    std::string text;
    for (std::size_t i = 0; i < width; ++i) {
      text += i < low ? cells[0] : i < value ? cells[1] : i < high ? cells[2] : " ";
    }
    return text;
  }

  void table() {
    const bool folded = result_.folded && !result_.folded->phases.empty();
    const std::vector<Group>& groups = folded ? result_.folded->phases : result_.residues;
    out_ += '\n';
    if (groups.empty()) {
      line("No residues: there is nothing to tabulate.");
      return;
    }
    const record::Extreme& worst = folded ? result_.folded->worst : result_.worst;
    const record::Extreme& best = folded ? result_.folded->best : result_.best;
    const Range range = range_of(groups, unit_);
    std::vector<std::array<std::string, 4>> rows;
    rows.push_back({folded ? "phase" : "residue", "n",
                    unit_ == Unit::kShare ? "accuracy" : printable(result_.score),
                    confidence_text(result_) + " interval"});
    std::vector<std::string> marks = {""};
    for (const Group& group : groups) {
      rows.push_back({std::to_string(group.index), count_text(group.n),
                      value_text(group.accuracy, unit_),
                      interval_text(group.low, group.high, unit_)});
      std::string mark;
      if (group.index == worst.group && worst.group != best.group) mark = "worst";
      if (group.index == best.group && worst.group != best.group) mark = "best";
      if (group.boundary) mark += mark.empty() ? "boundary" : ", boundary";
      marks.push_back(mark);
    }
    std::array<std::size_t, 4> widths{};
    std::size_t mark_width = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < 4; ++j) widths[j] = std::max(widths[j], columns(rows[i][j]));
      mark_width = std::max(mark_width, columns(marks[i]));
    }
    std::size_t used = mark_width + 2;
    for (const std::size_t width : widths) used += width + 2;
    const std::size_t bar_width = width_ > used + 8 ? width_ - used : 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::string text;
      for (std::size_t j = 0; j < 4; ++j) {
        text +=
            (j == 3 ? pad_right(rows[i][j], widths[j]) : pad_left(rows[i][j], widths[j])) + "  ";
      }
      if (i == 0) {
        line(styled(text + axis(range, bar_width), "2"));
        continue;
      }
      const Group& group = groups[i - 1];
      const std::string_view code = group.boundary ? "35" : "34";
      line(text + styled(bar(group, range, bar_width), code) + (bar_width > 0 ? "  " : "") +
           styled(marks[i], "1"));
    }
  }

  std::string axis(const Range& range, std::size_t width) const {
    const std::string low = unit_ == Unit::kShare ? "0%" : value_text(range.low, unit_);
    const std::string high = unit_ == Unit::kShare ? "100%" : value_text(range.high, unit_);
    if (width < low.size() + high.size() + 1) return "";
    return low + std::string(width - low.size() - high.size(), ' ') + high;
  }

  void curve() {
    if (result_.residues.empty() || !result_.folded) return;  // else the table shows the curve
    const Range range = range_of(result_.residues, unit_);
    constexpr std::size_t kLabel = 16;
    const auto stride = static_cast<std::size_t>(std::max<std::int64_t>(result_.folded->stride, 1));
    std::size_t per_row = width_ - kLabel;
    if (stride < per_row) per_row -= per_row % stride;
    out_ += '\n';
    for (std::size_t start = 0; start < result_.residues.size(); start += per_row) {
      const std::size_t end = std::min(start + per_row, result_.residues.size());
      std::string text = pad_right(fmt::format("residues {}-{}", result_.residues[start].index,
                                               result_.residues[end - 1].index),
                                   kLabel);
      for (std::size_t i = start; i < end; ++i) {
        const Group& group = result_.residues[i];
        if (!group.accuracy) {
          text += ' ';
        } else if (options_.unicode) {
          text += styled(std::string(kLevels[step(range.fraction(*group.accuracy), 8)]),
                         group.boundary ? "35" : "34");
        } else {
          text += static_cast<char>('0' + step(range.fraction(*group.accuracy), 10));
        }
      }
      line(text);
    }
  }

  static std::size_t step(double fraction, std::size_t count) {
    return std::min(static_cast<std::size_t>(fraction * static_cast<double>(count)), count - 1);
  }

  void entry(const std::string& name, const std::string& text) {
    wrapped(pad_right(name, 8), text);
  }

  static std::string at(const record::Extreme& extreme, std::string_view group) {
    return extreme.group ? fmt::format(", {} {}", group, *extreme.group) : "";
  }

  // Key numbers over phases when the curve is folded, else over residues.
  void numbers() {
    const bool folded = result_.folded.has_value();
    const std::string_view group = folded ? "phase" : "residue";
    const record::Extreme& worst = folded ? result_.folded->worst : result_.worst;
    const record::Extreme& best = folded ? result_.folded->best : result_.best;
    const record::Gap& gap = folded ? result_.folded->gap : result_.gap;
    out_ += '\n';
    entry("mean", estimate_text(result_.mean, unit_));
    entry("worst", estimate_text(worst.estimate, unit_) + at(worst, group));
    entry("best", estimate_text(best.estimate, unit_) + at(best, group));
    entry("gap", gap_text(gap));
    std::string period = period_text(result_.period);
    if (result_.period.p_value) {
      period +=
          fmt::format(", {} (level {:g})", p_text(result_.period.p_value), result_.period.level);
    }
    if (!result_.period.reason.empty()) period += "; " + printable(result_.period.reason);
    entry("period", period);
    if (result_.other_stride) {
      const record::Folded& other = *result_.other_stride;
      entry("stride",
            fmt::format("by {}, which the period contradicts: worst {}{}; best {}{}; gap {}",
                        other.stride, estimate_text(other.worst.estimate, unit_),
                        at(other.worst, "phase"), estimate_text(other.best.estimate, unit_),
                        at(other.best, "phase"), gap_text(other.gap)));
    }
    if (result_.confirmation) entry("confirm", printable(result_.confirmation->sentence));
    if (!result_.sequential) return;
    const record::Sequential& s = *result_.sequential;
    entry("e-value", e_value_text(s));
    entry("prompts", saving_text(s) + "; " + printable(s.rule));
  }

  void details() {
    const auto lines = contrast_lines(result_);
    out_ += '\n';
    if (lines.empty()) {
      line("No comparison of groups: the audit stopped early.");
      return;
    }
    line(fmt::format("Comparing {}s", result_.contrasts->groups));
    std::size_t width = 8;
    for (const auto& [name, text] : lines) width = std::max(width, columns(name) + 2);
    for (const auto& [name, text] : lines) wrapped(pad_right(name, width), text);
  }

  // What was demanded, its outcome and why, a line each.
  void requirements() {
    std::size_t width = 0;
    for (const record::Requirement& r : result_.requirements) {
      width = std::max(width, columns(printable(r.text)));
    }
    if (width > 0) out_ += '\n';
    for (const record::Requirement& r : result_.requirements) {
      const std::string_view code = r.outcome == "pass" ? "32" : r.outcome == "fail" ? "31" : "33";
      wrapped(pad_right(printable(r.text), width + 2) + pad_right(r.outcome, 14),
              printable(r.sentence), code);
    }
  }

  std::string gap_text(const record::Gap& gap) const {
    if (!gap.estimate.value) return estimate_text(gap.estimate, unit_);
    std::string text = difference_text(gap.estimate.value, unit_);
    const std::string interval =
        difference_interval_text(gap.estimate.low, gap.estimate.high, unit_);
    if (!interval.empty()) text += " [" + interval + "]";
    if (gap.noise) text += "; noise alone gives " + glued(difference_text(gap.noise, unit_));
    if (gap.p_value) text += ", " + glued(p_text(gap.p_value));
    if (gap.cross_fitted) {
      text += "; cross-fitted " + glued(difference_text(gap.cross_fitted, unit_));
    }
    return text;
  }

  const Result& result_;
  const TerminalOptions& options_;
  std::size_t width_;
  Unit unit_;
  std::string out_;
};

}  // namespace

std::string terminal_report(const Result& result, const TerminalOptions& options) {
  return Report(result, options).write();
}

}  // namespace kvphase::report
