#include "speed/machine.h"

#include <fmt/format.h>
#include <sched.h>

#include <array>
#include <fstream>
#include <sstream>
#include <thread>

namespace kvphase::speed {
namespace {

using base::Json;

constexpr std::array kSets = {"sse4_2",   "avx",         "avx2",        "fma",      "f16c",
                              "avx512f",  "avx512dq",    "avx512bw",    "avx512vl", "avx512_vnni",
                              "avx_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_tile",
                              "asimd",    "sve",         "bf16"};

// The value behind `name` and a colon in a file of /proc; empty: not there.
std::string value_of(const char* file, std::string_view name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(name)) continue;
    const auto end = line.find_last_not_of(" \t", colon - 1);
    if (end + 1 != name.size()) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

// "1234 kB" and "32768K" in bytes.
std::optional<std::int64_t> kilobytes(const std::string& text) {
  std::istringstream stream(text);
  std::int64_t value = 0;
  if (!(stream >> value)) return std::nullopt;
  return value * 1024;
}

std::optional<std::int64_t> last_level_cache() {
  std::optional<std::int64_t> largest;
  for (int index = 0; index < 8; ++index) {
    std::ifstream stream(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    std::string text;
    if (!std::getline(stream, text)) break;
    const auto bytes = kilobytes(text);
    if (bytes && (!largest || *bytes > *largest)) largest = bytes;
  }
  return largest;
}

std::int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<std::int64_t>(std::thread::hardware_concurrency());
}

Json integer_or_null(const std::optional<std::int64_t>& value) {
  return value ? Json(*value) : Json();
}

std::optional<std::int64_t> optional_integer(base::ObjectReader& reader, const std::string& key) {
  if (reader.required(key).is_null()) return std::nullopt;
  return reader.integer(key);
}

}  // namespace

Machine look_at_machine() {
  Machine machine{.processor = value_of("/proc/cpuinfo", "model name"), .cores = usable_cores()};
  std::string flags = value_of("/proc/cpuinfo", "flags");
  if (flags.empty()) flags = value_of("/proc/cpuinfo", "Features");
  std::istringstream words(flags);
  for (std::string word; words >> word;) {
    for (const char* set : kSets) {
      if (word == set) machine.instruction_sets.push_back(word);
    }
  }
  machine.last_level_cache = last_level_cache();
  machine.memory = kilobytes(value_of("/proc/meminfo", "MemTotal"));
  machine.available = kilobytes(value_of("/proc/meminfo", "MemAvailable"));
  std::ifstream load("/proc/loadavg");
  if (double minute = 0; load >> minute) machine.load = minute;
  return machine;
}

Json to_json(const Machine& m) {
  return {{"processor", m.processor},
          {"cores", m.cores},
          {"instruction_sets", m.instruction_sets},
          {"last_level_cache_bytes", integer_or_null(m.last_level_cache)},
          {"memory_bytes", integer_or_null(m.memory)},
          {"available_bytes", integer_or_null(m.available)},
          {"load", base::number_or_null(m.load)}};
}

Machine machine_from_json(const Json& json, std::string_view scope) {
  base::ObjectReader reader(json, std::string(scope));
  Machine m;
  m.processor = reader.text("processor");
  m.cores = reader.integer("cores");
  m.instruction_sets = reader.texts("instruction_sets");
  m.last_level_cache = optional_integer(reader, "last_level_cache_bytes");
  m.memory = optional_integer(reader, "memory_bytes");
  m.available = optional_integer(reader, "available_bytes");
  m.load = reader.optional_real("load");
  reader.finish();
  return m;
}

std::vector<std::string> load_warnings(const Machine& machine, std::int64_t threads) {
  std::vector<std::string> warnings;
  if (threads > machine.cores) {
    warnings.push_back(
        fmt::format("{} threads on {} cores: they wait for each other", threads, machine.cores));
  }
  constexpr double kIdle = 0.3;  // of a core: the shell, the system
  const double room = static_cast<double>(machine.cores - std::min(threads, machine.cores)) + kIdle;
  if (machine.load && *machine.load > room) {
    warnings.push_back(
        fmt::format("the machine was busy: before the start {:.2f} processes wanted to run, mean "
                    "of a minute, on {} cores that {} threads were then measured on; figures and "
                    "rates may be too low",
                    *machine.load, machine.cores, threads));
  }
  return warnings;
}

std::optional<Memory> memory_of_process() {
  const auto resident = kilobytes(value_of("/proc/self/status", "VmRSS"));
  const auto peak = kilobytes(value_of("/proc/self/status", "VmHWM"));
  if (!resident || !peak) return std::nullopt;
  return Memory{.resident = *resident, .peak = *peak};
}

bool reset_peak() {
  std::ofstream stream("/proc/self/clear_refs");
  stream << "5";  // resets the peak alone, see proc(5)
  stream.flush();
  return stream.good();
}

}  // namespace kvphase::speed
