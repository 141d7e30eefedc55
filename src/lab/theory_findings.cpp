#include "lab/theory_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lab/theory_claims.h"
#include "lab/theory_figures.h"
#include "lab/theory_json.h"

namespace kvphase::lab {
namespace {

using record::FindingsTable;

std::string p_cell(const Fit& fit) {
  if (!fit.p) return "-";
  return *fit.p < 1e-4 ? std::string("< 0.0001") : fmt::format("{:.3f}", *fit.p);
}

std::string joined(const std::vector<double>& values) {
  std::string text;
  for (const double x : values) text += fmt::format("{}{:.2f}", text.empty() ? "" : " ", x);
  return text;
}

FindingsTable claims_table(const TheoryStudy& study) {
  FindingsTable table = {.title = "Claims", .header = {"claim", "outcome", "evidence"}};
  for (const TheoryClaim& claim : study.claims) {
    table.rows.push_back({claim.name, claim.outcome, claim.evidence});
  }
  table.note = "Chi-squared tests: level 0.01 for all of a claim together (Bonferroni).";
  return table;
}

FindingsTable rules_table(const TheoryStudy& study) {
  FindingsTable table = {
      .title = "Theorem 1: rules against the best one-hot assignment",
      .header = {"N", "S", "m", "random", "lowest", "minima", "lowest", "below", "one-hot"}};
  std::map<std::pair<std::int64_t, std::int64_t>, RuleSearch> by_size;
  for (const RuleSearch& search : study.rules) {
    const std::pair size(search.setting.vocabulary, search.setting.stride);
    const auto [at, fresh] = by_size.try_emplace(size, search);
    if (fresh) continue;
    RuleSearch& sum = at->second;
    sum.random += search.random;
    sum.optimised += search.optimised;
    sum.below += search.below;
    sum.optimised_one_hot += search.optimised_one_hot;
    sum.lowest_random = std::min(sum.lowest_random, search.lowest_random);
    sum.lowest_optimised = std::min(sum.lowest_optimised, search.lowest_optimised);
  }
  for (const auto& [size, sum] : by_size) {
    table.rows.push_back({fmt::format("{}", size.first), fmt::format("{}", size.second),
                          fmt::format("1-{}", size.second - 1), fmt::format("{}", sum.random),
                          fmt::format("{:+.1e}", sum.lowest_random),
                          fmt::format("{}", sum.optimised),
                          fmt::format("{:+.1e}", sum.lowest_optimised),
                          fmt::format("{}", sum.below), fmt::format("{}", sum.optimised_one_hot)});
  }
  table.note =
      "Lowest: nats above the best one-hot assignment. Half of the rules differ from chunk to "
      "chunk.";
  return table;
}

FindingsTable coverage_table(const TheoryStudy& study) {
  FindingsTable table = {.title = "Theorem 2: flows from small starts",
                         .header = {"gates", "S", "m", "runs", "heads", "selected", "as predicted",
                                    "largest offsets", "p positions", "p coverage"}};
  const auto add = [&](const CoverageStudy& s) {
    table.rows.push_back({"static", fmt::format("{}", s.setting.stride),
                          fmt::format("{}", s.setting.heads), fmt::format("{}", s.runs),
                          fmt::format("{}", s.heads), fmt::format("{}", s.selected),
                          fmt::format("{}", s.as_predicted), fmt::format("{:.4f}", s.worst_offsets),
                          p_cell(s.positions_fit), p_cell(s.distinct_fit)});
  };
  add(study.main);
  for (const CoverageStudy& other : study.others) add(other);
  for (const GatedStudy* s : {&study.gated, &study.sgd}) {
    const TheorySetting& task = s->options.setting.task;
    table.rows.push_back({s->descent == Descent::kFlow ? "log-linear" : "log-linear, SGD",
                          fmt::format("{}", task.stride), fmt::format("{}", task.heads),
                          fmt::format("{}", s->runs), fmt::format("{}", s->heads),
                          fmt::format("{}", s->selected), "-",
                          fmt::format("{:.4f}", s->worst_static), p_cell(s->positions_fit),
                          p_cell(s->distinct_fit)});
  }
  table.note = "Selected: one position, value one after key. As predicted: r_h read off the start.";
  return table;
}

FindingsTable phases_table(const TheoryStudy& study) {
  FindingsTable table = {.title = "Phases, static gates",
                         .header = {"position", "heads", "runs that cover it", "95% interval",
                                    "predicted", "accuracy"}};
  const CoverageStudy& main = study.main;
  for (std::size_t r = 0; r < main.covered.size(); ++r) {
    const stats::Estimate& share = main.covered[r].share;
    table.rows.push_back(
        {fmt::format("{}", r), fmt::format("{}", main.positions[r]),
         fmt::format("{:.3f}", share.value.value_or(0)),
         fmt::format("{:.3f} to {:.3f}", share.low.value_or(0), share.high.value_or(1)),
         fmt::format("{:.3f}", main.covered[r].predicted),
         fmt::format("{:.3f}", main.accuracy[r])});
  }
  if (main.setting.heads > 1) {
    const stats::Estimate& pairs = main.pairs.share;
    table.note = fmt::format(
        "Pairs of heads with the same position: {:.3f} [{:.3f} to {:.3f}], predicted {:.3f}.",
        pairs.value.value_or(0), pairs.low.value_or(0), pairs.high.value_or(1),
        main.pairs.predicted);
  }
  return table;
}

FindingsTable sampled_table(const TheoryStudy& study) {
  FindingsTable table = {.title = "Closed form against the network on sampled prompts",
                         .header = {"embeddings", "prompts", "loss", "closed form",
                                    "accuracy by position", "closed form"}};
  for (const SampledCheck& check : study.sampled) {
    table.rows.push_back({check.embeddings, fmt::format("{}", check.prompts),
                          fmt::format("{:.6f}", check.loss),
                          fmt::format("{:.6f}", check.closed_loss), joined(check.accuracy),
                          joined(check.closed_accuracy)});
  }
  table.note = "One-hot heads at the first flow's positions.";
  return table;
}

FindingsTable broken_table(const TheoryStudy& study) {
  FindingsTable table = {.title = "Assumptions broken", .header = {"case", "finding"}};
  for (const BetaSweep& sweep : study.sweeps) {
    std::string first = "none of 1 to 20";
    for (std::size_t i = sweep.beta.size(); i-- > 0;) {
      if (sweep.lowest[i] < -1e-9) first = fmt::format("{:g}", sweep.beta[i]);
    }
    table.rows.push_back(
        {fmt::format("beta grows, N = {}", sweep.setting.vocabulary),
         fmt::format(
             "one-hot is a local minimum to beta {}; first beaten at {}",
             sweep.largest_beta ? fmt::format("{:.2f}", *sweep.largest_beta) : std::string("100"),
             first)});
  }
  for (const BrokenCase& c : study.broken) table.rows.push_back({c.name, c.finding});
  table.note = "Select a position: as above. One-hot: the best one-hot assignment.";
  return table;
}

}  // namespace

record::Findings findings_of(const TheoryStudy& study, const record::RunContext& context) {
  const TheorySetting& s = study.options.setting;
  record::Findings findings = {
      .kind = "theory",
      .title = fmt::format("The idealised model, S = {}, m = {}", s.stride, s.heads),
      .sentence = sentence_of(study.claims),
      .context = context,
      .options = options_json(study.options),
      .data = data_json(study),
      .tables = {claims_table(study), rules_table(study), coverage_table(study),
                 phases_table(study), sampled_table(study)},
      .figures = figures_of(study)};
  if (study.options.broken) findings.tables.push_back(broken_table(study));
  for (const TheoryClaim& claim : study.claims) {
    findings.notes.push_back(claim.name + ": " + claim.text + ".");
  }
  for (const char* note :
       {"Static gates have one logit per offset and an exact loss; log-linear gates have a weight "
        "per offset and token and a loss over sampled prompts.",
        "Theorem 1 is tried, not proved, by the search; docs/theory.md has a proof for a large "
        "vocabulary and says where it ends.",
        "This is the induction task of the theory, not a trained language model: it says why heads "
        "may leave phases uncovered, not how weak a phase of a given model is."}) {
    findings.notes.emplace_back(note);
  }
  return findings;
}

std::string heads_csv(const TheoryStudy& study) {
  std::string csv =
      "gates,run,head,key_position,value_position,key_offsets,value_offsets,predicted\n";
  const auto add = [&](const char* gates, std::size_t run, const std::vector<HeadState>& heads,
                       const std::vector<std::int64_t>* predicted) {
    for (std::size_t h = 0; h < heads.size(); ++h) {
      csv += fmt::format("{},{},{},{},{},{:.6f},{:.6f},{}\n", gates, run, h, heads[h].key_position,
                         heads[h].value_position, heads[h].key_offsets, heads[h].value_offsets,
                         predicted == nullptr ? "" : std::to_string((*predicted)[h]));
    }
  };
  for (std::size_t i = 0; i < study.gated.ends.size(); ++i) {
    add("log-linear", i, study.gated.ends[i], nullptr);
  }
  for (std::size_t i = 0; i < study.sgd.ends.size(); ++i) {
    add("log-linear-sgd", i, study.sgd.ends[i], nullptr);
  }
  for (std::size_t i = 0; i < study.main.kept.size(); ++i) {
    add("static", i, study.main.kept[i].heads, &study.main.kept[i].predicted);
  }
  return csv;
}

}  // namespace kvphase::lab
