// What a request to the proxy asks for, read off its header X-Kvphase-Guard. Knows no transport.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvphase::guard {

enum class Policy {
  kReport,    // the reply to the prompt as it came, with what was found
  kMajority,  // the answer of most offsets; of equals the prompt's as it came
  kRefuse,    // an error unless all offsets gave one answer
};
std::string_view name_of(Policy policy);
Policy policy_of(std::string_view name);  // throws a usage error with the nearest name

struct GuardOptions {
  std::int64_t offsets = 4;
  std::int64_t most_offsets = 16;  // that a request may ask for
  Policy policy = Policy::kReport;
  std::int64_t repeats = 1;  // replies per offset once two differ; more tell phase from chance
  std::string filler = "river";
  std::string suffix = ":guard";  // of a model's name: guard this request
};

inline constexpr std::int64_t kMostRepeats = 8;

struct Wish {
  bool guarded = false;
  std::int64_t offsets = 0;
  Policy policy = Policy::kReport;
  std::int64_t repeats = 1;
};

// What a request gets that says no more than that it wants to be guarded.
Wish default_wish(const GuardOptions& options);

// Words between commas, in any letter case: "on" (or true, yes, 1), "off" (false, no, 0), a number
// of offsets, a policy, "repeats=N". Throws a usage error that names a word which is none of these.
Wish read_wish(std::string_view header, const GuardOptions& options);

}  // namespace kvphase::guard
