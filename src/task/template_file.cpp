#include "task/template_file.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

namespace kvphase::task {

FilledOptions parse_template(std::string_view text, std::string_view scope) {
  const base::Json json = base::parse_json(text, scope);
  base::ObjectReader reader(json, std::string(scope));
  FilledOptions o;
  o.name = reader.text("name", "template");
  o.segments = parse_slots(reader.text("prompt"), reader.scope() + ".prompt");
  const base::Json& items = reader.required("items");
  if (!items.is_array() || items.empty()) {
    throw base::usage_error(scope, "expected a list of at least one item at items, got {}",
                            items.is_array() ? "an empty one" : items.type_name());
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    base::ObjectReader item(items[i], fmt::format("{}.items[{}]", scope, i));
    FilledItem entry{.needle = item.text("needle", ""),
                     .question = item.text("question", ""),
                     .answer = item.text("answer"),
                     .others = {}};
    if (item.has("others")) entry.others = item.texts("others");
    item.finish();
    if (entry.answer.empty()) {
      throw base::usage_error(item.scope(), "expected an answer, got an empty text");
    }
    o.entries.push_back(std::move(entry));
  }
  if (reader.has("filler")) o.families = {{.name = "own", .words = reader.texts("filler")}};
  o.haystack = reader.integer("haystack", o.haystack);
  o.depth = reader.real("depth", o.depth);
  o.max_tokens = reader.integer("max_tokens", o.max_tokens);
  if (reader.has("stop")) o.stop = reader.texts("stop");
  const std::vector<std::string> gradings = {"contains", "exact", "choice"};
  const std::size_t grading = reader.choice("grading", gradings, 0);
  o.grading = grading == 1 ? Grading::kExact : Grading::kContains;
  if (grading == 2) {
    for (const FilledItem& entry : o.entries) {
      if (entry.others.empty()) {
        throw base::usage_error(
            scope, "expected the other choices as 'others' of every item, got an item without");
      }
    }
  }
  reader.finish();
  return o;
}

FilledOptions read_template(const std::filesystem::path& path) {
  return parse_template(base::read_file(path), path.string());
}

}  // namespace kvphase::task
