// The transforms of mitigate.h, each of one prompt. Internal to task/.
#pragma once

#include <cstdint>
#include <string>

#include "task/anatomy.h"
#include "task/mitigate.h"
#include "task/task.h"

namespace kvphase::task {

// `count` tokens of filler in front of the context, the first of one endless stream: every prompt
// that has as many has the same ones. Prompts that shared a beginning share it still.
Prompt with_front(Prompt prompt, const Anatomy& anatomy, std::int64_t count, std::uint64_t seed);

// restate, list and retrieve: in ids restated facts stand behind the context, before the separator;
// all else right in front of the question.
Prompt with_help(Prompt prompt, const Anatomy& anatomy, const MitigationOptions& options);

// The question in front of the context as well.
Prompt with_query_first(Prompt prompt, const Anatomy& anatomy);

// A prompt in words without what the mitigation put into it, and the tokens of that, counted from
// its text: a word after a blank is one, `whole` as many as the anatomy says, constant texts 0.
struct Undone {
  Prompt plain;
  std::int64_t tokens = 0;
};
Undone undo(Prompt prompt, const Anatomy& anatomy, Mitigation mitigation);

}  // namespace kvphase::task
