// Finds out what a server is by asking its information routes. Knows no sockets: `get` does.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "endpoint/client.h"

namespace kvphase::endpoint {

// GET of a path below the root: its JSON when the status is 200, otherwise empty.
using Getter = std::function<std::optional<base::Json>(const std::string& path)>;

// `given`: the kind that the user names; then only its model and context are asked for.
ServerInfo detect_server(const BaseUrl& base, const std::optional<ServerKind>& given,
                         const Getter& get);

}  // namespace kvphase::endpoint
