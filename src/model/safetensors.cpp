#include "model/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"

namespace kvphase::model {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data is copied as it lies");

using base::Json;
using base::usage_error;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the limit of the format's own reader
constexpr const char* kMetadata = "__metadata__";

struct DtypeName {
  const char* name;
  torch::ScalarType type;
};

constexpr std::array<DtypeName, 6> kDtypes = {{{"F64", torch::kFloat64},
                                               {"F32", torch::kFloat32},
                                               {"F16", torch::kFloat16},
                                               {"BF16", torch::kBFloat16},
                                               {"I64", torch::kInt64},
                                               {"I32", torch::kInt32}}};

const char* dtype_name(torch::ScalarType type) {
  for (const DtypeName& dtype : kDtypes) {
    if (dtype.type == type) return dtype.name;
  }
  assert(false && "a dtype that the format's table lacks");
  return "";
}

struct Entry {
  std::string name;
  torch::ScalarType type = torch::kFloat32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// JSON parsers keep one of two equal keys silently, so they are counted while parsing.
Json parse_header(std::string_view text, std::string_view scope) {
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      throw usage_error(scope, "expected every name once in the header, got '{}' twice",
                        parsed.get<std::string>());
    }
    return true;
  };
  Json header;
  try {
    header = Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::exception& error) {
    throw usage_error(scope, "expected a JSON header, got: {}", error.what());
  }
  if (!header.is_object()) {
    throw usage_error(scope, "expected the header to be a JSON object, got {}", header.type_name());
  }
  return header;
}

std::uint64_t unsigned_element(const Json& value, const std::string& what, std::string_view scope) {
  if (!value.is_number_unsigned()) {
    throw usage_error(scope, "expected {} to hold whole numbers of at least 0, got {}", what,
                      value.dump());
  }
  return value.get<std::uint64_t>();
}

Entry parse_entry(const std::string& name, const Json& json, std::uint64_t data_size,
                  std::string_view scope) {
  base::ObjectReader reader(json, fmt::format("{}: tensor '{}'", scope, name));
  Entry entry{.name = name};

  const std::string dtype = reader.text("dtype");
  const auto known = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeName& candidate) {
    return dtype == candidate.name;
  });
  if (known == kDtypes.end()) {
    throw usage_error(reader.scope(), "expected dtype F64, F32, F16, BF16, I64 or I32, got '{}'",
                      dtype);
  }
  entry.type = known->type;

  std::uint64_t bytes = torch::elementSize(entry.type);
  const Json& shape = reader.required("shape");
  if (!shape.is_array()) {
    throw usage_error(reader.scope(), "expected 'shape' to be a list, got {}", shape.dump());
  }
  for (const Json& value : shape) {
    const std::uint64_t size = unsigned_element(value, "'shape'", reader.scope());
    const auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (size > limit || (size > 0 && bytes > limit / size)) {
      throw usage_error(reader.scope(), "expected a shape that fits in memory, got {}",
                        shape.dump());
    }
    bytes *= size;
    entry.shape.push_back(static_cast<std::int64_t>(size));
  }

  const Json& offsets = reader.required("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) {
    throw usage_error(reader.scope(), "expected 'data_offsets' to be [begin, end], got {}",
                      offsets.dump());
  }
  entry.begin = unsigned_element(offsets[0], "'data_offsets'", reader.scope());
  entry.end = unsigned_element(offsets[1], "'data_offsets'", reader.scope());
  if (entry.begin > entry.end || entry.end > data_size) {
    throw usage_error(reader.scope(),
                      "expected data within the {} bytes of data in the file, got {}; is the file "
                      "cut off?",
                      data_size, offsets.dump());
  }
  if (entry.end - entry.begin != bytes) {
    throw usage_error(reader.scope(), "expected {} bytes for {} of shape {}, got {}", bytes, dtype,
                      shape.dump(), entry.end - entry.begin);
  }
  reader.finish();
  return entry;
}

// The tensors' bytes must follow each other from the first byte of data to the last.
void check_cover(const std::vector<Entry>& sorted, std::uint64_t data_size,
                 std::string_view scope) {
  std::uint64_t covered = 0;
  std::string before = "the header";
  for (const Entry& entry : sorted) {
    if (entry.begin < covered) {
      throw usage_error(scope, "expected tensors that do not overlap, got '{}' over '{}'",
                        entry.name, before);
    }
    if (entry.begin > covered) {
      throw usage_error(scope, "expected '{}' right after {}, got a hole of {} bytes", entry.name,
                        before, entry.begin - covered);
    }
    covered = entry.end;
    before = entry.name;
  }
  if (covered != data_size) {
    throw usage_error(scope, "expected {} bytes of data, got {}: {} bytes belong to no tensor",
                      covered, data_size, data_size - covered);
  }
}

}  // namespace

std::string write_safetensors(std::span<const NamedTensor> tensors,
                              const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::uint64_t offset = 0;
  for (const NamedTensor& named : tensors) {
    assert(!header.contains(named.name));
    const std::uint64_t bytes = named.tensor.nbytes();
    header[named.name] = {{"dtype", dtype_name(named.tensor.scalar_type())},
                          {"shape", named.tensor.sizes().vec()},
                          {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  while (text.size() % 8 != 0) text.push_back(' ');  // so that the data begins aligned

  const std::uint64_t length = text.size();
  std::string file(kLengthBytes, '\0');
  std::memcpy(file.data(), &length, kLengthBytes);
  file.reserve(kLengthBytes + text.size() + offset);
  file += text;
  for (const NamedTensor& named : tensors) {
    const torch::Tensor plain = named.tensor.detach().to(torch::kCPU).contiguous();
    file.append(static_cast<const char*>(plain.data_ptr()), plain.nbytes());
  }
  return file;
}

SafetensorsFile read_safetensors(std::string_view bytes, std::string_view scope) {
  if (bytes.size() < kLengthBytes) {
    throw usage_error(scope, "expected a safetensors file, got only {} bytes; is it cut off?",
                      bytes.size());
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kLongestHeader) {
    throw usage_error(scope, "expected a header of at most {} bytes, got {}; is this safetensors?",
                      kLongestHeader, length);
  }
  if (length > bytes.size() - kLengthBytes) {
    throw usage_error(scope, "expected a header of {} bytes, got a file of {}; is it cut off?",
                      length, bytes.size());
  }
  const Json header = parse_header(bytes.substr(kLengthBytes, length), scope);
  const std::string_view data = bytes.substr(kLengthBytes + length);

  SafetensorsFile file;
  std::vector<Entry> entries;
  for (const auto& item : header.items()) {
    if (item.key() == kMetadata) {
      for (const auto& pair : item.value().items()) {
        if (!pair.value().is_string()) {
          throw usage_error(scope, "expected {} to map text to text, got {}", kMetadata,
                            item.value().dump());
        }
        file.metadata[pair.key()] = pair.value().get<std::string>();
      }
    } else {
      entries.push_back(parse_entry(item.key(), item.value(), data.size(), scope));
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_cover(entries, data.size(), scope);

  for (const Entry& entry : entries) {
    torch::Tensor tensor = torch::empty(entry.shape, torch::dtype(entry.type));
    if (entry.end > entry.begin) {  // an empty tensor has no memory to copy to
      std::memcpy(tensor.data_ptr(), data.data() + entry.begin, entry.end - entry.begin);
    }
    file.tensors.push_back({.name = entry.name, .tensor = std::move(tensor)});
  }
  return file;
}

}  // namespace kvphase::model
