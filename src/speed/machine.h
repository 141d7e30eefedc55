// The machine that is measured on: its parts, how busy it is, and what this process holds in
// memory. Reads Linux's /proc and /sys; what they do not say is empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace kvphase::speed {

struct Machine {
  std::string processor;
  std::int64_t cores = 0;                     // that this process may use
  std::vector<std::string> instruction_sets;  // of those that matter here: "avx2", "avx512f", ...
  std::optional<std::int64_t> last_level_cache;  // bytes
  std::optional<std::int64_t> memory;            // bytes
  std::optional<std::int64_t> available;         // bytes, now
  std::optional<double> load;                    // processes that want to run, mean of a minute

  bool operator==(const Machine&) const = default;
};

Machine look_at_machine();
base::Json to_json(const Machine& machine);
Machine machine_from_json(const base::Json& json, std::string_view scope);

// Why its figures may be off; empty: nothing known. `load` is from before the measurement.
std::vector<std::string> load_warnings(const Machine& machine, std::int64_t threads);

// Physical memory of this process: the program and its libraries (libtorch alone about 200 MB), the
// weights, whatever it has allocated and touched, and what its allocator has kept.
struct Memory {
  std::int64_t resident = 0;  // now, bytes (VmRSS)
  std::int64_t peak = 0;      // the most so far (VmHWM)
};
std::optional<Memory> memory_of_process();
// Lets the peak begin anew at what is resident now. False: the system does not allow it, and the
// peak is that of the whole life of the process.
bool reset_peak();

}  // namespace kvphase::speed
