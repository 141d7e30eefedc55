// Where the query's attention goes, and what a wrong answer is due to, by phase.
//
// Reading. Per layer whose attention reaches beyond a local window: the share of the query's
// softmax (mean over its query heads) on entries that hold the answer, on other entries, on exact
// recent tokens and on the sink. In full attention an entry is a token.
//
// Causes, by intervention (not by correlation): at the query position the output of the reading
// heads is replaced by the value of what they should have read, and the answer is taken again.
//   hand the entry   the value of the entry that holds the answer, as it was written. Right now:
//                    the entry held the answer and it could be used, so it was NOT FOUND. So too
//                    where one KV head alone, or another layer, makes it right when handed its own
//                    entry: heads that are handed theirs at once may disturb each other.
//   hand the token   else the value that this entry would have if its gate kept the answer's token
//                    alone: the exact, uncompressed token. Right now: it was NOT WRITTEN.
//                    Still wrong: NOT READ OUT, whatever is handed over.
// The reading heads of a phase are one KV head or all of a layer, whichever most often makes the
// answer another record's value when handed that record's exact token, on calibration prompts.
//
// Three checks say what such a flip is worth: the same on prompts that were right (they should
// stay right), handing another entry (right by luck), and handing another record's token (the
// answer should become that record's). Knows no tensors here.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lab/lookup_run.h"
#include "record/findings.h"
#include "task/lookup.h"

namespace kvphase::lab {

struct ReadoutOptions {
  task::LookupOptions lookup;
  std::int64_t stride = 0;
  std::int64_t calibration = 480;  // prompts that choose the reading heads
  std::uint64_t seed = 1;
  std::int64_t replicates = 2000;
  RunOptions run;
};

// Query heads first_head .. first_head + heads - 1 of one layer.
struct Reader {
  std::int64_t layer = 0;
  std::int64_t first_head = 0;
  std::int64_t heads = 0;
  std::string name;
};

// What was done to a prompt's last position; the order of ReadoutAnswers::right. Any: every
// candidate reader tried by itself, 1 where one of them makes it right.
enum class Handed { kNothing, kEntry, kToken, kOtherEntry, kOtherToken, kAnyEntry, kAnyOtherEntry };
inline constexpr std::size_t kHandedCount = 7;

// Shares of one layer's attention at the query.
struct Shares {
  std::int64_t layer = 0;
  std::vector<double> answer_entries, other_entries, exact, sink;  // [prompts]
};

struct ReadoutAnswers {
  std::int64_t items = 0;
  std::int64_t modulus = 0;
  std::vector<Reader> readers;                  // all candidates
  std::vector<std::size_t> reader_of_phase;     // [S]
  std::vector<std::vector<double>> calibrated;  // [reader][S] share
  // [handed][items * R]: 1 where the answer is the right one; of kOtherToken: the handed one.
  std::array<std::vector<std::uint8_t>, kHandedCount> right;
  std::vector<Shares> shares;
};

ReadoutAnswers run_readout(const std::filesystem::path& checkpoint, const ReadoutOptions& options,
                           record::RunContext& context, const OnProgress& progress = {});

record::Findings readout_findings(const ReadoutAnswers& answers, const ReadoutOptions& options,
                                  const record::RunContext& context);

}  // namespace kvphase::lab
