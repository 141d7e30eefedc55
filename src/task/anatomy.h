// What a mitigation (mitigate.h) may know of a prompt: where its context ends and its question
// begins, and which facts are key. A user who restates facts knows as much of their own prompt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lm/language_model.h"

namespace kvphase::task {

// One fact of the context that a question may be about: `ids` of a prompt in ids, else the texts.
struct KeyFact {
  std::vector<lm::TokenId> ids;
  std::string text;              // as the context says it; begins with a blank
  std::string key;               // " key" and " value" of a fact that has such parts; else empty
  std::string value;             // likewise
  std::int64_t tokens = 0;       // of the text as the task counts it (Prompt::length)
  std::int64_t pair_tokens = 0;  // of key and value
  bool asked = false;            // the prompt's question is about this one
};

// Places are token indices of a prompt in ids, piece indices of a prompt in words.
struct Anatomy {
  std::size_t context_begin = 0;    // after the preamble
  std::size_t context_end = 0;      // behind the context
  std::optional<std::size_t> help;  // right in front of the question; empty: there is no such place
  std::string why_no_help;          // and what can be done instead

  std::vector<KeyFact> facts;  // in the order of the context
  std::string why_no_facts;    // where there are none

  // The question alone: what is searched for, and what is asked before the context.
  std::vector<lm::TokenId> ask_ids;
  std::string ask_text;
  // Before the context: `intro` is the same for all prompts and belongs to the preamble; `lead`
  // follows it and is counted.
  std::string intro;
  std::string lead;
  std::int64_t lead_tokens = 0;
  std::string why_no_query_first;  // empty: it can be asked first

  // A piece of the context whose words are no tokens of their own: one passage, never cut.
  std::string whole;
  std::int64_t whole_tokens = 0;

  std::int64_t passages = 1;  // how many to retrieve unless told otherwise
  std::int64_t passage_tokens = 16;

  // Tokens that mean nothing: ids, or words of one token each after a blank.
  std::vector<lm::TokenId> filler_ids;
  std::vector<std::string> filler_words;
};

}  // namespace kvphase::task
