#include "task/completion.h"

#include "base/error.h"

namespace kvphase::task {
namespace {

constexpr std::string_view kFiller = "{filler}";

// Our own code; what it is about is the paper's: everything above the last line says 8 bits.
constexpr std::string_view kSnippet =
    R"("""Row-wise quantisation helpers.

{filler}

to_fp8 stores each row of a matrix in 8 bits per entry with one scale per row.
The scale maps the largest magnitude of the row to the largest FP8 value, 448.
"""
import torch

FP8_LARGEST = 448.0
FP32_SMALLEST = 1e-12


def row_scales(x: torch.Tensor) -> torch.Tensor:
    largest = x.float().abs().amax(dim=-1, keepdim=True)
    return largest.clamp(min=FP32_SMALLEST) / FP8_LARGEST


def to_fp8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Cast each row of x to FP8; returns the rows and their FP32 scales."""
    scale = row_scales(x)
    rows = (x.float() / scale).clamp(-FP8_LARGEST, FP8_LARGEST)
    # The rows fit now: store them as FP)";

}  // namespace

std::string_view fp8_snippet() { return kSnippet; }

std::vector<FillerFamily> filler_families(std::vector<std::string> words) {
  return {{.name = "equals", .words = {"="}},
          {.name = "dashes", .words = {"-"}},
          {.name = "hashes", .words = {"#"}},
          {.name = "words", .words = std::move(words)}};
}

FilledOptions completion_options(const CompletionOptions& options) {
  const std::string_view text = options.text.empty() ? kSnippet : options.text;
  const std::size_t slot = text.find(kFiller);
  if (slot == std::string_view::npos ||
      text.find(kFiller, slot + kFiller.size()) != std::string_view::npos) {
    throw base::usage_error("completion", "expected {{filler}} in the text exactly once, got it {}",
                            slot == std::string_view::npos ? "nowhere" : "again");
  }
  std::vector<std::string> candidates = options.candidates;
  if (candidates.empty() && options.text.empty()) candidates = {"8", "32"};
  if (candidates.size() < 2) {
    throw base::usage_error("completion",
                            "expected at least two candidates, the right one first, got {}",
                            candidates.size());
  }
  FilledOptions o;
  o.name = "completion";
  if (slot > 0)
    o.segments.push_back({.slot = Slot::kText, .text = std::string(text.substr(0, slot))});
  o.segments.push_back({.slot = Slot::kFillerBefore, .text = {}});
  o.segments.push_back(
      {.slot = Slot::kText, .text = std::string(text.substr(slot + kFiller.size()))});
  o.entries = {{.needle = "",
                .question = "",
                .answer = candidates.front(),
                .others = {candidates.begin() + 1, candidates.end()}}};
  o.candidates = std::move(candidates);
  o.pad_at = PadAt::kStart;
  o.max_tokens = 4;
  return o;
}

}  // namespace kvphase::task
