// A checkpoint as one GGUF file for llama.cpp and the programs built on it.
// Format (ggml's public specification, version 3, little-endian): "GGUF", u32 version, u64 count of
// tensors, u64 count of keys; the keys (name, u32 type, value); the tensors' names, dims with the
// fastest first, u32 type and u64 offset; then the data, every tensor at a multiple of 32 bytes.
#pragma once

#include <string>
#include <string_view>

#include "model/checkpoint.h"

namespace kvphase::model {

// The file's bytes: architecture qwen3, float32. The vocabulary is a WordPiece one of whole words,
// the only kind in llama.cpp that needs neither merges nor scores: token ids pass through as they
// are, and names separated by blanks become their ids. A word that is no token becomes token 0.
// Same checkpoint, same bytes. Throws what qwen3_network throws.
std::string gguf_bytes(const Checkpoint& checkpoint, std::string_view name);

}  // namespace kvphase::model
