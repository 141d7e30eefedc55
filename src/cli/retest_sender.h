// One prompt in one form on one server: its requests, filler of one token for it, and the proof
// that this filler moves its tokens by one each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "endpoint/client.h"
#include "endpoint/endpoint_model.h"
#include "endpoint/positions.h"
#include "guard/user_prompt.h"

namespace kvphase::cli {

struct Sender {
  std::shared_ptr<endpoint::Client> client;
  guard::UserPrompt prompt;
  endpoint::PromptForm form = endpoint::PromptForm::kChat;
  endpoint::CompletionRequest like;  // everything but the prompt
  std::string filler;                // unit; filled in by find_filler()

  // Throws an environment error where the server does not say them.
  std::vector<lm::TokenId> ids(const std::string& piece) const;
  endpoint::CompletionRequest request(const guard::Fillers& fillers) const;
  std::string in_front() const;  // the text in front of the filler; empty where everything moves
};

// The filler's unit: `wanted`, or the first of our list, that is one token; empty with the reason
// in `proof`. Costs completions where the server has no tokenizer.
std::string find_filler(const Sender& sender, const std::string& wanted,
                        endpoint::PositionProof& proof);

// Asks the server. Filler in front of the fact, and behind it where it goes there too, from none to
// offsets-1; of prompts as long as kLongPrompt up to kFillersOfLong.
endpoint::PositionProof prove(const Sender& sender, std::int64_t offsets, std::int64_t tokens);
std::int64_t proof_requests(const Sender& sender, std::int64_t offsets, std::int64_t tokens);

inline constexpr std::int64_t kLongPrompt = 4096;  // tokens
inline constexpr std::int64_t kFillersOfLong = 2;

// Of the first moved token at offset 0; empty: not known.
std::optional<std::int64_t> position_of(const Sender& sender, const endpoint::PositionProof& proof);

}  // namespace kvphase::cli
