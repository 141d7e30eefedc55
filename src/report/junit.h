// Results as JUnit XML, for CI servers that show test cases: one case per requirement, one per
// phase (or residue) that a requirement on the worst judges, one for the replies.
//
//   a case             is
//   passed             met
//   <failure>          not met
//   <skipped>          not decided by these data
//   <error>            too many replies missing, or the audit could not be done
//
// Numbers stand in names and in bodies, as some servers show neither attributes nor messages.
// Without a requirement the verdict is the only other case: passed, or skipped when inconclusive
// or not learned. No times are written: the same result, the same bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "record/result.h"

namespace kvphase::report {

struct JunitSuite {
  record::Result result;
  bool too_much_missing = false;  // more than the caller allows
};

std::string junit_xml(std::span<const JunitSuite> suites);

// Of an audit that could not be done.
std::string junit_error(std::string_view suite, std::string_view message);

}  // namespace kvphase::report
