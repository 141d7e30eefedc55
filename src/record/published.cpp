#include "record/published.h"

#include "base/embed.h"
#include "base/error.h"
#include "base/json.h"

KVPHASE_EMBED(kvphase::record, published_json, KVPHASE_PUBLISHED)

namespace kvphase::record {
namespace {

struct Published {
  std::string source;
  std::string note;
  std::vector<PublishedCurve> curves;
};

const Published& published() {
  static const Published all = [] {
    const std::string scope = "published_curves.json";
    const base::Json json = base::parse_json(published_json(), scope);
    base::ObjectReader reader(json, scope);
    Published data;
    reader.text("schema");
    data.source = reader.text("source");
    data.note = reader.text("note");
    reader.text("fields");  // for readers of the file
    const std::int64_t modulus = reader.integer("modulus");
    for (const base::Json& entry : reader.required("curves")) {
      base::ObjectReader curve(entry, scope + ".curves");
      PublishedCurve c;
      c.design = curve.text("design");
      if (!curve.required("seed").is_null()) c.seed = curve.unsigned_integer("seed");
      c.padding = curve.text("padding");
      c.validation_loss = curve.real("validation_loss");
      c.modulus = modulus;
      c.prompts_per_residue = curve.integer("prompts_per_residue");
      c.mean_percent = curve.real("mean_percent");
      c.gap_points = curve.real("gap_points");
      c.correct = curve.required("correct").get<std::vector<std::int64_t>>();
      curve.finish();
      data.curves.push_back(std::move(c));
    }
    reader.finish();
    return data;
  }();
  return all;
}

}  // namespace

const std::vector<PublishedCurve>& published_curves() { return published().curves; }
const std::string& published_source() { return published().source; }
const std::string& published_note() { return published().note; }

Dataset published_dataset(const PublishedCurve& curve, std::int64_t modulus) {
  if (modulus < 1 || curve.modulus % modulus != 0) {
    throw base::usage_error("published", "expected a divisor of {}, got {}", curve.modulus,
                            modulus);
  }
  Dataset data{.name = curve.design + " (published)",
               .origin = "published counts",
               .task = "lookup",
               .padding = curve.padding,
               .modulus = modulus};
  const auto size = static_cast<std::size_t>(modulus);
  data.counts = CountsTable{.modulus = modulus,
                            .n = std::vector<std::int64_t>(size, 0),
                            .correct = std::vector<std::int64_t>(size, 0)};
  for (std::size_t r = 0; r < curve.correct.size(); ++r) {
    data.counts->n[r % size] += curve.prompts_per_residue;
    data.counts->correct[r % size] += curve.correct[r];
  }
  return data;
}

}  // namespace kvphase::record
