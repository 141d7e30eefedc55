#include "report/write.h"

#include <system_error>

#include "base/error.h"
#include "base/files.h"
#include "report/csv.h"
#include "report/html.h"
#include "report/terminal.h"

namespace kvphase::report {

std::string result_json(const record::Result& result) {
  return record::to_json(result).dump(2, ' ', false, base::Json::error_handler_t::replace) + "\n";
}

void write_report(const std::filesystem::path& folder, const record::Result& result,
                  const std::optional<record::Result>& control) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw base::environment_error("report", "expected a folder that can be written, got {}: {}",
                                  folder.string(), failure.message());
  }
  base::write_file_atomically(folder / "report.txt", terminal_report(result));
  base::write_file_atomically(folder / "report.html", html_report(result, control));
  base::write_file_atomically(folder / "residues.csv", residues_csv(result));
  base::write_file_atomically(folder / "result.json", result_json(result));
}

}  // namespace kvphase::report
