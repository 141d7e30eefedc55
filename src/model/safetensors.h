// The safetensors file format: named tensors in one file, read strictly. Knows nothing of models.
// Format (Hugging Face's public specification): 8 bytes little-endian length of the header; the
// header, a JSON object {name: {dtype, shape, data_offsets: [begin, end]}, "__metadata__": {text}};
// then the data, which the tensors cover without overlap or hole, row-major and little-endian.
#pragma once

#include <torch/types.h>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvphase::model {

struct NamedTensor {
  std::string name;
  torch::Tensor tensor;  // any shape; F64, F32, F16, BF16, I64 or I32
};

struct SafetensorsFile {
  std::map<std::string, std::string> metadata;
  std::vector<NamedTensor> tensors;  // on the CPU, in the order of their data
};

// The whole file. Same tensors in the same order give the same bytes.
std::string write_safetensors(std::span<const NamedTensor> tensors,
                              const std::map<std::string, std::string>& metadata = {});

// Throws a usage error that begins with [scope] for: a file or header that is cut off, a header
// that is no JSON object or too long, a name that comes twice, an unknown dtype, a negative or
// overflowing shape, offsets that are out of bounds, do not fit the shape, overlap or leave a hole.
SafetensorsFile read_safetensors(std::string_view bytes, std::string_view scope);

}  // namespace kvphase::model
