// The constructors of the server kinds, each in the file of its name.
#pragma once

#include <memory>

#include "endpoint/server.h"

namespace kvphase::endpoint {

std::unique_ptr<ServerApi> make_llama_cpp(ServerSettings settings);
std::unique_ptr<ServerApi> make_vllm(ServerKind kind, ServerSettings settings);  // and kvphase
std::unique_ptr<ServerApi> make_sglang(ServerSettings settings);
std::unique_ptr<ServerApi> make_ollama(ServerSettings settings);
std::unique_ptr<ServerApi> make_openai_style(ServerKind kind, ServerSettings settings);

}  // namespace kvphase::endpoint
