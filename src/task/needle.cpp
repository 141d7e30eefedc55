#include "task/needle.h"

#include "base/random.h"

namespace kvphase::task {

FilledOptions needle_options(const NeedleOptions& options) {
  FilledOptions o;
  o.name = "needle";
  o.seed = options.seed;
  const std::string noun(noun_of(options.identifier));
  o.segments = parse_slots(
      "Below are many words that mean nothing and, among them, one sentence with a " + noun +
          ". Remember it exactly.\n\n{filler_before}{needle}{filler_after}\n\n{question}",
      "needle");
  for (std::int64_t i = 0; i < options.entries; ++i) {
    base::Random random(base::derive_seed(options.seed, "needle", {static_cast<std::uint64_t>(i)}));
    const std::string identifier = make_identifier(options.identifier, random);
    o.entries.push_back({.needle = " The " + noun + " is " + identifier + " and no other.",
                         .question = "What is the " + noun +
                                     "? Answer with it alone, every character exactly.\nThe " +
                                     noun + " is",
                         .answer = identifier,
                         .others = {}});
  }
  o.max_tokens = 64;
  o.stop = {"\n"};
  return o;
}

}  // namespace kvphase::task
