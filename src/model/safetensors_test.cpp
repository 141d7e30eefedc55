#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>

#include "base/error.h"

namespace kvphase::model {
namespace {

using ::testing::HasSubstr;

std::string file_of(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  file += header;
  file.append(data_bytes, '\0');
  return file;
}

std::string refusal(std::string_view bytes) {
  try {
    read_safetensors(bytes, "test");
  } catch (const base::Error& error) {
    EXPECT_EQ(error.kind(), base::ErrorKind::kUsage);
    EXPECT_THAT(error.what(), ::testing::StartsWith("[test"));
    return error.what();
  }
  return "no error";
}

TEST(Safetensors, EveryDtypeAndShapeComesBackEqual) {
  torch::manual_seed(3);
  std::vector<NamedTensor> tensors;
  for (const auto type : {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16,
                          torch::kInt64, torch::kInt32}) {
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{}, {3}, {2, 0, 4}, {2, 3, 4}}) {
      tensors.push_back({.name = fmt::format("{}.{}", torch::toString(type), fmt::join(shape, "x")),
                         .tensor = (torch::randn(shape) * 9).to(type)});
    }
  }
  // Not contiguous: written in the order of its elements.
  tensors.push_back({.name = "transposed", .tensor = torch::randn({3, 5}).t()});

  const std::string bytes = write_safetensors(tensors, {{"format", "pt"}});
  EXPECT_EQ(bytes, write_safetensors(tensors, {{"format", "pt"}}));
  const SafetensorsFile file = read_safetensors(bytes, "test");
  EXPECT_EQ(file.metadata.at("format"), "pt");
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const NamedTensor& wanted : tensors) {
    const auto found =
        std::find_if(file.tensors.begin(), file.tensors.end(),
                     [&](const NamedTensor& tensor) { return tensor.name == wanted.name; });
    ASSERT_NE(found, file.tensors.end()) << wanted.name;
    EXPECT_EQ(found->tensor.scalar_type(), wanted.tensor.scalar_type());
    EXPECT_TRUE(torch::equal(found->tensor, wanted.tensor)) << wanted.name;
  }
}

TEST(Safetensors, NoTensorsAtAllIsAFile) {
  EXPECT_TRUE(read_safetensors(write_safetensors({}), "test").tensors.empty());
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::vector<NamedTensor> tensors = {{"a", torch::ones({2, 2})}, {"b", torch::ones({3})}};
  const std::string bytes = write_safetensors(tensors);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(refusal(bytes.substr(0, size)), "no error") << size << " of " << bytes.size();
  }
  EXPECT_THAT(refusal(bytes + "x"), HasSubstr("1 bytes belong to no tensor"));
}

TEST(Safetensors, HeaderThatIsNoTensorTableIsRefused) {
  EXPECT_THAT(refusal("abc"), HasSubstr("only 3 bytes"));
  EXPECT_THAT(refusal(std::string(8, '\xff') + "{}"), HasSubstr("is this safetensors?"));
  EXPECT_THAT(refusal(file_of("[]", 0)), HasSubstr("JSON object, got array"));
  EXPECT_THAT(refusal(file_of("{\"a\":", 0)), HasSubstr("JSON header"));
  EXPECT_THAT(refusal(file_of(R"({"__metadata__":{"a":1}})", 0)), HasSubstr("map text to text"));
  EXPECT_THAT(refusal(file_of(R"({"a":{"dtype":"F32","shape":[1]}})", 4)),
              HasSubstr("data_offsets"));
  EXPECT_THAT(
      refusal(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"shpae":[1]}})", 4)),
      HasSubstr("did you mean 'shape'?"));
}

TEST(Safetensors, NameThatComesTwiceIsRefused) {
  EXPECT_THAT(refusal(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                              R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                              8)),
              HasSubstr("'a' twice"));
  EXPECT_THAT(refusal(file_of(
                  R"({"a":{"dtype":"F32","dtype":"F64","shape":[1],"data_offsets":[0,4]}})", 4)),
              HasSubstr("'dtype' twice"));
}

TEST(Safetensors, DtypeShapeAndOffsetsMustAgree) {
  const auto one = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return refusal(file_of(fmt::format(R"({{"a":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})",
                                       dtype, shape, offsets),
                           8));
  };
  EXPECT_EQ(one("F32", "[2]", "[0,8]"), "no error");
  EXPECT_THAT(one("F31", "[2]", "[0,8]"), HasSubstr("got 'F31'"));
  EXPECT_THAT(one("F64", "[2]", "[0,8]"), HasSubstr("expected 16 bytes"));
  EXPECT_THAT(one("F32", "[3]", "[0,8]"), HasSubstr("expected 12 bytes"));
  EXPECT_THAT(one("F32", "[-2]", "[0,8]"), HasSubstr("whole numbers"));
  EXPECT_THAT(one("F32", "[2.0]", "[0,8]"), HasSubstr("whole numbers"));
  EXPECT_THAT(one("F32", "[4611686018427387904,4]", "[0,8]"), HasSubstr("fits in memory"));
  EXPECT_THAT(one("F32", "[18446744073709551615]", "[0,8]"), HasSubstr("fits in memory"));
  EXPECT_THAT(one("F32", "2", "[0,8]"), HasSubstr("'shape' to be a list"));
  EXPECT_THAT(one("F32", "[2]", "[0,9]"), HasSubstr("within the 8 bytes"));
  EXPECT_THAT(one("F32", "[2]", "[8,0]"), HasSubstr("within the 8 bytes"));
  EXPECT_THAT(one("F32", "[2]", "[0]"), HasSubstr("[begin, end]"));
  EXPECT_THAT(one("F32", "[1]", "[4,8]"), HasSubstr("a hole of 4 bytes"));
}

TEST(Safetensors, OverlappingTensorsAreRefused) {
  EXPECT_THAT(refusal(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                              R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                              12)),
              HasSubstr("got 'b' over 'a'"));
}

}  // namespace
}  // namespace kvphase::model
