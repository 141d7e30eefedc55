// Exact strings that a model has to copy character by character: contract numbers, file paths, hex
// ids, UUIDs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace kvphase::task {

enum class IdentifierKind { kCode, kPath, kHex, kUuid };

std::vector<std::string> identifier_names();                 // "code", "path", "hex", "uuid"
IdentifierKind identifier_from_name(std::string_view name);  // usage error with the nearest
std::string_view name_of(IdentifierKind kind);
// What a sentence calls it: "contract number".
std::string_view noun_of(IdentifierKind kind);

// code: "KV-482-10936-57"; path: "/srv/data7/batch/run-4821.log"; hex: 16 digits; uuid: version 4
// in shape. No two differ by letter case only.
std::string make_identifier(IdentifierKind kind, base::Random& random);

}  // namespace kvphase::task
