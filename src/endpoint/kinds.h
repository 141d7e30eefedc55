// The constructors of the server kinds, each in the file of its name.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "endpoint/server.h"

namespace kvphase::endpoint {

std::unique_ptr<ServerApi> make_llama_cpp(ServerSettings settings);
std::unique_ptr<ServerApi> make_vllm(ServerKind kind, ServerSettings settings);  // and kvphase
std::unique_ptr<ServerApi> make_sglang(ServerSettings settings);
std::unique_ptr<ServerApi> make_ollama(ServerSettings settings);
std::unique_ptr<ServerApi> make_openai_style(ServerKind kind, ServerSettings settings);

// The request whose body is `body` with one more member `key`, a list of ids. The ids are written
// straight into the text: as JSON values, 128K of them cost more than the sending.
WireRequest token_request(std::string path, const base::Json& body, const char* key,
                          std::span<const lm::TokenId> tokens);

}  // namespace kvphase::endpoint
