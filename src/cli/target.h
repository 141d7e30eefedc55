// A target on the command line: a checkpoint's folder or a server's address.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvphase::cli {

bool is_address(const std::string& target);  // "http://..."

// A folder's name out of an address: letters, digits and periods stay, the rest becomes one dash.
std::string name_of_address(const std::string& address);

// Throws a usage error for the first of the options that was given: "expected --form only with a
// server's address ..., got it without".
void refuse_given(const std::vector<const CLI::Option*>& options, std::string_view place,
                  std::string_view scope);
inline constexpr const char* kAServer = "a server's address (http://HOST:PORT)";
inline constexpr const char* kACheckpoint = "a checkpoint";

}  // namespace kvphase::cli
