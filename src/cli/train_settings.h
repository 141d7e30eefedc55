// What the words of a command line say about a training: shared by `train` and `family`.
#pragma once

#include <string>

#include "base/json.h"

namespace kvphase::cli {

// "model.chunk.gate=scalar": the value is JSON where it parses as such, else text. Throws a usage
// error for a setting without '=' or one that contradicts an earlier one.
void apply_setting(base::Json& overrides, const std::string& setting);

// A preset's or a .json file's configuration without the sizes that the language decides.
base::Json model_config(const std::string& name_or_file);

}  // namespace kvphase::cli
