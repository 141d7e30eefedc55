#include "cli/target.h"

#include <cctype>

#include "base/error.h"

namespace kvphase::cli {

bool is_address(const std::string& target) { return target.find("://") != std::string::npos; }

std::string name_of_address(const std::string& address) {
  std::string name;
  for (const char c : address.substr(address.find("://") + 3)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.') {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name;
}

void refuse_given(const std::vector<const CLI::Option*>& options, std::string_view place,
                  std::string_view scope) {
  for (const CLI::Option* option : options) {
    if (option->count() == 0) continue;
    throw base::usage_error(scope, "expected {} only with {}, got it without", option->get_name(),
                            place);
  }
}

}  // namespace kvphase::cli
