#include "cli/endpoint_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace kvphase::cli {
namespace {

// Right answers among the replies of one kind.
struct Share {
  std::int64_t n = 0;
  std::int64_t right = 0;
  std::string text() const {
    return n == 0 ? "none scored"
                  : fmt::format("{:.1f}% of {} right",
                                100 * static_cast<double>(right) / static_cast<double>(n), n);
  }
};

// Cold and warm replies may differ for reasons of the cache: their mix must not go unnoticed.
void note_cache(const audit::AuditRun& run, const endpoint::Client& client,
                record::Result& result) {
  Share warm, cold;
  for (const record::Observation& o : run.observations) {
    if (!o.correct) continue;
    Share& share = o.cached > 0 ? warm : cold;
    ++share.n;
    share.right += *o.correct ? 1 : 0;
  }
  if (warm.n == 0) return;
  const std::string& how = client.api().capabilities().cache_note;
  if (cold.n == 0) {
    result.notes.push_back(
        fmt::format("Every reply used the server's prompt cache ({}).", warm.text()));
    return;
  }
  const auto a = static_cast<double>(warm.right) / static_cast<double>(warm.n);
  const auto b = static_cast<double>(cold.right) / static_cast<double>(cold.n);
  const double both =
      static_cast<double>(warm.right + cold.right) / static_cast<double>(warm.n + cold.n);
  const double error = std::sqrt(
      both * (1 - both) * (1 / static_cast<double>(warm.n) + 1 / static_cast<double>(cold.n)));
  const std::string mixed = fmt::format(
      "Cold and warm replies are mixed: {} used the server's prompt cache ({}), {} did not ({}).",
      warm.n, warm.text(), cold.n, cold.text());
  result.notes.push_back(mixed);
  if (std::abs(a - b) > 3 * error || warm.n > cold.n / 20) {
    result.context.warnings.push_back(mixed +
                                      " A difference between them is the cache's, not the phase's" +
                                      (how.empty() ? "." : ": " + how + "."));
  }
}

void note_positions(const ProvenPositions& proven, record::Result& result) {
  const endpoint::PositionProof& proof = proven.proof;
  std::string note =
      fmt::format("Positions on the server ({}): {}.", endpoint::name_of(proof.route), proof.note);
  if (!result.positions.note.empty()) note = result.positions.note + " " + note;
  if (!proven.relative_reason.empty()) note += " But " + proven.relative_reason + ".";
  result.positions.note = note;
  if (!proven.relative) return;
  const std::string relative =
      "Phases are relative: all positions may be off by one unknown constant, so a phase's number "
      "says nothing by itself; the period, the gap and the worst accuracy do not depend on it.";
  result.context.warnings.push_back(relative);
  result.notes.push_back(relative);
  result.verdict.next_step += (result.verdict.next_step.empty() ? "" : " ") +
                              std::string("Phase numbers are relative (right up to one rotation).");
}

}  // namespace

std::vector<std::string> error_lines(const endpoint::Client& client) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> lines;
  const auto entries = client.errors().entries();
  for (const auto& entry : entries) {
    if (lines.size() == kMost) {
      lines.push_back(fmt::format("and {} more kinds of failure", entries.size() - kMost));
      break;
    }
    lines.push_back(fmt::format(
        "{} failed attempts: {}{}, the first: {}", entry.count, endpoint::name_of(entry.outcome),
        entry.status > 0 ? fmt::format(" (status {})", entry.status) : "", entry.first_detail));
  }
  return lines;
}

void add_endpoint_notes(const audit::AuditRun& run, const ProvenPositions& proven,
                        const endpoint::Client& client, const EndpointChoices& choices,
                        record::Result& result) {
  note_positions(proven, result);
  note_cache(run, client, result);
  std::map<std::string, std::int64_t> missing;
  for (const record::Observation& o : run.observations) {
    if (!o.correct) ++missing[o.reply_class];
  }
  for (const auto& [cause, count] : missing) {
    result.notes.push_back(fmt::format("Missing replies: {} {}.", count, cause));
  }
  if (run.asked_again > 0) {
    result.notes.push_back(fmt::format(
        "{} prompts without a reply were asked again (--retry-errors).", run.asked_again));
  }
  for (const std::string& line : error_lines(client)) {
    result.notes.push_back("In the last session: " + line + ".");
  }
  const endpoint::Spent spent = client.spent();
  result.notes.push_back(fmt::format(
      "The last session sent {} requests with {} prompt tokens ({} of them cached) and got {} "
      "tokens{}.",
      spent.requests, spent.prompt_tokens, spent.cached_tokens, spent.completion_tokens,
      choices.priced ? fmt::format(", for {:.4g}", endpoint::cost_of(spent, choices.prices)) : ""));
}

}  // namespace kvphase::cli
