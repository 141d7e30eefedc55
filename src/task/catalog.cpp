#include "task/catalog.h"

#include "base/error.h"
#include "base/nearest.h"

namespace kvphase::task {

std::vector<std::string> task_names() { return {"records", "needle", "completion", "template"}; }

WordNeed words_needed(std::string_view, const TaskSettings&) { return {}; }

std::unique_ptr<Task> make_task(std::string_view name, const TaskSettings&) {
  const std::vector<std::string> names = task_names();
  throw base::usage_error("task", "expected a task of {}, got '{}'; did you mean {}?",
                          fmt::join(names, " | "), name, base::nearest_name(name, names));
}

}  // namespace kvphase::task
