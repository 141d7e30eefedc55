// What the words of a command line and its environment say about trainings: shared by `train`,
// `family` and `demo`.
#pragma once

#include <string>

#include "base/json.h"

namespace kvphase::cli {

// "model.chunk.gate=scalar": the value is JSON where it parses as such, else text. Throws a usage
// error for a setting without '=' or one that contradicts an earlier one.
void apply_setting(base::Json& overrides, const std::string& setting);

// A preset's or a .json file's configuration without the sizes that the language decides.
base::Json model_config(const std::string& name_or_file);

// For a command that starts several trainings: refuses a launcher's variables, which each training
// would inherit and wait for the others as ranks of one. instead: what to do.
void refuse_launcher(const char* command, const char* instead);

}  // namespace kvphase::cli
