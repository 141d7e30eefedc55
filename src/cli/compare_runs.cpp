#include "cli/compare_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "audit/analysis.h"
#include "audit/claims.h"
#include "audit/run_comparison.h"
#include "base/error.h"
#include "base/files.h"
#include "base/nearest.h"
#include "cli/run_folders.h"
#include "model/presets.h"
#include "record/journal.h"
#include "record/published.h"
#include "report/claims.h"
#include "report/run_comparison.h"
#include "report/run_comparison_html.h"
#include "stats/paired.h"
#include "task/lookup.h"

namespace kvphase::cli {
namespace {

namespace fs = std::filesystem;
using record::ComparedRun;
using record::kStaggeredSuffix;
using record::RunComparison;

// Any shape: a design's attention is the same at all of them.
model::ModelConfig config_of(const std::string& design) {
  return model::preset(model::shape_names().front() + "/" + design);
}

// Design by design in the family's order; unknown designs behind, in the order given.
void sort_runs(std::vector<ComparedRun>& runs) {
  const auto& designs = model::design_names();
  const std::vector<std::string> paddings = task::padding_names();
  std::ranges::stable_sort(runs, {}, [&](const ComparedRun& run) {
    const std::size_t known =
        static_cast<std::size_t>(std::ranges::find(designs, run.design) - designs.begin());
    return std::tuple(known, known < designs.size() ? std::string() : run.design, run.variant,
                      run.training.steps.value_or(0),
                      std::ranges::find(paddings, run.result.design.padding) - paddings.begin(),
                      run.result.design.padding, run.result.design.modulus, run.published,
                      run.seed.value_or(0), !run.result.design.mitigation.empty());
  });
}

// Published curves of the designs, paddings and moduli at hand.
void add_published(std::vector<ComparedRun>& runs, std::uint64_t seed) {
  std::set<std::tuple<std::string, std::string, std::int64_t>> wanted;
  for (const ComparedRun& run : runs) {
    const record::Design& design = run.result.design;
    if (design.task == "lookup" && run.result.score == "accuracy" && !run.design.empty()) {
      wanted.emplace(run.design, design.padding, design.modulus);
    }
  }
  for (const record::PublishedCurve& curve : record::published_curves()) {
    for (const auto& [design, padding, modulus] : wanted) {
      if (curve.design != design || curve.padding != padding || curve.modulus % modulus != 0) {
        continue;
      }
      const model::ModelConfig config = config_of(design);
      ComparedRun run{
          .name = fmt::format("{}{}/{} (published)", design,
                              curve.seed ? fmt::format("-seed{}", *curve.seed) : "", padding),
          .design = design,
          .seed = curve.seed,
          .published = true,
          .control = !model::has_chunked_layer(config)};
      record::Dataset data = record::published_dataset(curve, modulus);
      if (!run.control && modulus % config.chunk.stride == 0) {
        data.stride = run.stride = config.chunk.stride;
        data.window = run.window = config.chunk.window;
      }
      run.cache.reason = run.training.reason = "published at another size";
      run.result = audit::analyse(data, {.seed = seed});
      runs.push_back(std::move(run));
    }
  }
}

struct Reference {
  std::optional<std::size_t> index;
  std::string rule;
  std::string reason;  // why there is none; empty: none is due
};

// What was asked, whatever the prompts went through.
base::Json plain_options(const record::Design& design) {
  base::Json options = design.options;
  if (options.is_object()) options.erase("mitigation");
  return options;
}

bool same_items(const ComparedRun& a, const ComparedRun& b) {
  return a.result.design.task == b.result.design.task &&
         plain_options(a.result.design) == plain_options(b.result.design);
}

bool same_model(const ComparedRun& a, const ComparedRun& b) {
  const record::RunContext& x = a.result.context;
  const record::RunContext& y = b.result.context;
  return x.model_kind == y.model_kind && x.model_name == y.model_name &&
         x.model_sha256 == y.model_sha256 && x.model_config == y.model_config;
}

bool same_folder(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return !a.empty() && fs::weakly_canonical(a, ignored) == fs::weakly_canonical(b, ignored);
}

class References {
 public:
  // first: the run given first, for designs that are not known.
  References(const std::vector<ComparedRun>& runs, std::string wanted, std::size_t first)
      : runs_(runs), wanted_(std::move(wanted)), first_(first) {
    if (wanted_.empty()) return;
    const auto named = std::ranges::find_if(runs_, [&](const ComparedRun& run) {
      return !run.published && (run.name == wanted_ || same_folder(run.folder, wanted_));
    });
    if (named != runs_.end()) {
      given_ = static_cast<std::size_t>(named - runs_.begin());
      return;
    }
    std::vector<std::string> known;
    for (const ComparedRun& run : runs_) {
      if (run.published) continue;
      if (run.design == wanted_) return;
      known.push_back(run.name);
      if (!run.design.empty()) known.push_back(run.design);
    }
    throw base::usage_error("compare",
                            "expected --reference to name one of the runs or their designs, got "
                            "'{}'; did you mean '{}'?",
                            wanted_, base::nearest_name(wanted_, known));
  }

  Reference of(std::size_t at) const {
    const ComparedRun& run = runs_[at];
    if (run.published) return {};
    if (given_) {
      if (*given_ == at) return {};
      return {.index = given_, .rule = "given"};
    }
    if (!run.result.design.mitigation.empty() && wanted_.empty()) return plain_twin(run);
    if (!wanted_.empty()) {
      if (run.design == wanted_) return {};
      return with_design(run, wanted_, "given");
    }
    if (run.design.empty()) {
      if (first_ == at || !runs_[first_].result.design.mitigation.empty()) return {};
      return {.index = first_, .rule = "first"};
    }
    Reference twin;
    if (run.design.ends_with(kStaggeredSuffix)) {
      twin = with_design(run, run.design.substr(0, run.design.size() - kStaggeredSuffix.size()),
                         "aligned twin");
    }
    if (twin.index || (run.variant.empty() && !twin.reason.empty())) return twin;
    if (!run.variant.empty()) {
      const Reference plain = with_design(run, run.design, "unchanged design", "");
      if (plain.index) return plain;
    }
    if (run.control) return {};
    return with_design(run, fmt::format("full-{}kv", config_of(run.design).kv_heads), "control");
  }

 private:
  Reference plain_twin(const ComparedRun& run) const {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const ComparedRun& other = runs_[i];
      if (!other.published && other.result.design.mitigation.empty() && same_model(run, other) &&
          same_items(run, other)) {
        return {.index = i, .rule = "plain prompts"};
      }
    }
    return {.reason = "no run of the same model with the same items in plain prompts"};
  }

  // With the run's own variant, seed, padding, modulus and mitigation; of several the one whose
  // training is nearest in steps, then in tokens.
  Reference with_design(const ComparedRun& run, const std::string& design, const char* rule) const {
    Reference reference = with_design(run, design, rule, run.variant);
    if (reference.index || run.variant.empty()) return reference;
    return with_design(run, design, rule, "");
  }

  Reference with_design(const ComparedRun& run, const std::string& design, const char* rule,
                        const std::string& variant) const {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const ComparedRun& other = runs_[i];
      if (other.published || other.design != design || other.variant != variant ||
          other.seed != run.seed || other.result.design.padding != run.result.design.padding ||
          other.result.design.modulus != run.result.design.modulus ||
          other.result.design.mitigation != run.result.design.mitigation) {
        continue;
      }
      const auto unlike = [&](const ComparedRun& candidate) {
        const auto apart = [](std::optional<std::int64_t> a, std::optional<std::int64_t> b) {
          return std::abs(a.value_or(0) - b.value_or(0));
        };
        return std::pair(apart(candidate.training.steps, run.training.steps),
                         apart(candidate.training.tokens, run.training.tokens));
      };
      if (!found || unlike(other) < unlike(runs_[*found])) found = i;
    }
    if (found) return {.index = found, .rule = rule};
    return {.reason = fmt::format("no run of the {} {} with the same seed, padding and modulus",
                                  rule == std::string("given") ? "given" : rule, design)};
  }

  const std::vector<ComparedRun>& runs_;
  std::string wanted_;
  std::size_t first_;
  std::optional<std::size_t> given_;
};

// Every run's journal is read once.
class Journals {
 public:
  explicit Journals(const std::vector<ComparedRun>& runs) : runs_(runs) {}

  const std::vector<audit::PromptReply>& of(std::size_t at) {
    const auto known = replies_.find(at);
    if (known != replies_.end()) return known->second;
    const fs::path folder = runs_[at].folder;
    return replies_[at] = audit::prompt_replies(record::read_journal(folder / "journal.jsonl"),
                                                position_offset_of(folder));
  }

 private:
  const std::vector<ComparedRun>& runs_;
  std::map<std::size_t, std::vector<audit::PromptReply>> replies_;
};

// Why these two cannot be paired; empty: they can.
std::string unpaired_reason(const ComparedRun& run, const ComparedRun& reference) {
  const record::RunContext& a = run.result.context;
  const record::RunContext& b = reference.result.context;
  for (const ComparedRun* side : {&run, &reference}) {
    if (side->result.score != "accuracy") return "replies are not right or wrong";
    if (side->result.sequential) return "an audit that stopped early has no fixed sample";
    std::error_code absent;
    if (!fs::exists(fs::path(side->folder) / "journal.jsonl", absent)) {
      return "no journal.jsonl in " + side->folder;
    }
  }
  if (run.result.design.modulus != reference.result.design.modulus) return "another modulus";
  if (run.result.design.mitigation != reference.result.design.mitigation) {
    return same_items(run, reference) ? "" : "other items (the tasks' options differ)";
  }
  if (a.prompt_set_sha256.empty() || a.prompt_set_sha256 != b.prompt_set_sha256) {
    return "other prompts (the prompt-set hashes differ)";
  }
  return "";
}

std::int64_t modulus_for(const ComparedRun& run, const ComparedRun& reference) {
  const std::int64_t R = run.result.design.modulus;
  for (const auto& stride : {run.stride, reference.stride}) {
    if (stride && *stride > 1 && R % *stride == 0) return *stride;
  }
  return R;
}

void add_pairs(RunComparison& comparison, const References& references, Journals& journals) {
  std::map<std::string, std::vector<std::string>> left_out;  // names by reason
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    const ComparedRun& run = comparison.runs[i];
    const Reference reference = references.of(i);
    if (!reference.index) {
      if (!reference.reason.empty()) left_out[reference.reason].push_back(run.name);
      continue;
    }
    const ComparedRun& other = comparison.runs[*reference.index];
    const std::string reason = unpaired_reason(run, other);
    if (!reason.empty()) {
      left_out[reason].push_back(run.name);
      continue;
    }
    std::vector<audit::PromptReply> of_run = journals.of(i);
    std::vector<audit::PromptReply> of_other = journals.of(*reference.index);
    if (run.result.design.mitigation != other.result.design.mitigation) {
      of_run = audit::by_residue(std::move(of_run));
      of_other = audit::by_residue(std::move(of_other));
    }
    record::PairedRuns pair =
        audit::compare_replies(of_run, of_other, modulus_for(run, other), comparison.level);
    const auto& tokens = run.result.design.tokens_per_answer;
    const auto& other_tokens = other.result.design.tokens_per_answer;
    if (tokens && other_tokens) pair.tokens = *tokens - *other_tokens;
    pair.run = i;
    pair.reference = *reference.index;
    pair.rule = reference.rule;
    comparison.pairs.push_back(std::move(pair));
  }
  for (const auto& [reason, names] : left_out) {
    constexpr std::size_t kShown = 6;
    const auto shown = static_cast<std::ptrdiff_t>(std::min(kShown, names.size()));
    comparison.notes.push_back(fmt::format(
        "No paired test of {}{}: {}.", fmt::join(names.begin(), names.begin() + shown, ", "),
        names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "", reason));
  }
}

// Items x phases of a chunked run, where its replies are known.
std::optional<stats::PhaseMatrix> phases_of(const ComparedRun& run, std::size_t at,
                                            Journals& journals) {
  std::error_code absent;
  if (!run.stride || run.published || run.result.score != "accuracy" || run.result.sequential ||
      !fs::exists(fs::path(run.folder) / "journal.jsonl", absent)) {
    return std::nullopt;
  }
  std::vector<stats::ScoreRow> rows;
  for (const audit::PromptReply& reply : journals.of(at)) {
    rows.push_back({.item = reply.item,
                    .position = reply.target_position,
                    .score = reply.correct ? 1.0 : 0.0});
  }
  return stats::phase_matrix(stats::make_score_table(std::move(rows), run.folder), *run.stride);
}

// The published claims, tested on our own runs of unchanged designs on the lookup.
void add_claims(RunComparison& comparison, Journals& journals) {
  std::vector<audit::ClaimRun> runs;
  std::map<std::size_t, std::size_t> place;  // in `runs`, by index into comparison.runs
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    const ComparedRun& run = comparison.runs[i];
    if (run.published || run.design.empty() || !run.variant.empty() || !run.seed ||
        run.result.design.task != "lookup" || !run.result.design.mitigation.empty()) {
      continue;
    }
    place[i] = runs.size();
    runs.push_back({.design = run.design,
                    .seed = *run.seed,
                    .padding = run.result.design.padding,
                    .window = run.window,
                    .stride = run.stride,
                    .staggered = run.design.ends_with(kStaggeredSuffix),
                    .steps = run.training.steps.value_or(0),
                    .result = run.result,
                    .phases = phases_of(run, i, journals)});
  }
  std::vector<audit::ClaimPair> pairs;
  for (const record::PairedRuns& pair : comparison.pairs) {
    if (!place.contains(pair.run) || !place.contains(pair.reference)) continue;
    pairs.push_back({.run = place.at(pair.run),
                     .reference = place.at(pair.reference),
                     .mean = pair.mean.estimate,
                     .worst = pair.worst.estimate,
                     .gap = pair.gap.estimate});
  }
  if (!runs.empty()) comparison.claims = audit::test_claims(runs, pairs);
}

}  // namespace

ExitCode compare_runs(const RunsToCompare& wanted, const Session& session) {
  std::error_code ignored;
  if (fs::exists(wanted.out, ignored)) {
    throw base::usage_error("compare", "expected a new folder, got {}, which exists",
                            wanted.out.string());
  }
  FoundRuns found = find_runs(wanted.folders);
  RunComparison comparison;
  comparison.context = record::make_context();
  comparison.context.command = session.command_line;
  comparison.context.seed = wanted.seed;
  comparison.notes = std::move(found.notes);
  comparison.runs = std::move(found.runs);
  const std::string first = comparison.runs.front().folder;
  add_published(comparison.runs, wanted.seed);
  sort_runs(comparison.runs);
  record::label_runs(comparison.runs);
  if (std::ranges::any_of(comparison.runs, &ComparedRun::published)) {
    comparison.notes.push_back(
        fmt::format("Published: {}. {}", record::published_source(), record::published_note()));
  }
  const auto at = std::ranges::find(comparison.runs, first, &ComparedRun::folder);
  Journals journals(comparison.runs);
  add_pairs(comparison,
            References(comparison.runs, wanted.reference,
                       static_cast<std::size_t>(at - comparison.runs.begin())),
            journals);
  add_claims(comparison, journals);
  audit::correct_for_all(comparison);
  comparison.sentence = audit::summary_sentence(comparison);

  const std::string json = record::to_json(comparison).dump(2) + "\n";
  const std::string text = report::run_comparison_text(comparison);
  const std::string page = report::run_comparison_html(comparison);
  base::NewFolder folder(wanted.out, "compare");
  base::write_file_atomically(folder.part() / "table.csv", report::runs_csv(comparison));
  base::write_file_atomically(folder.part() / "pairs.csv", report::pairs_csv(comparison));
  base::write_file_atomically(folder.part() / "compare.html", page);
  if (const std::string claims = report::claims_markdown(comparison.claims); !claims.empty()) {
    base::write_file_atomically(folder.part() / "claims.md", claims);
  }
  base::write_file_atomically(folder.part() / "comparison.txt", text);
  base::write_file_atomically(folder.part() / "comparison.json", json);
  session.console.result(wanted.json ? json : text);
  session.console.finish();
  folder.publish();
  session.console.progress(fmt::format("page: {}", (wanted.out / "compare.html").string()));
  return kSuccess;
}

}  // namespace kvphase::cli
