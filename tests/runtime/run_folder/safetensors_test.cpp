#include "runtime/run_folder/safetensors.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/memory_disk.h"
#include "runtime/base/rng.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

std::map<std::string, Array> one_of_each() {
  return {{"bytes", Array::of<uint8_t>({3}, {0, 128, 255})},
          {"ints", Array::of<int32_t>({2, 1}, {-1, 7})},
          {"longs", Array::of<int64_t>({1}, {std::numeric_limits<int64_t>::min()})},
          {"floats", Array::of<float>({2, 2}, {1.5f, -0.0f, NAN, INFINITY})},
          {"scalar", Array::of<double>({}, {0.1})},
          {"halves", Array::of<Float16>({2}, {to_float16(0.1f), to_float16(-INFINITY)})},
          {"brains", Array::of<BFloat16>({3, 1}, {to_bfloat16(0.1f), to_bfloat16(NAN), to_bfloat16(1e-40f)})},
          {"nothing", Array(DType::f32, {0, 4})}};
}

std::string encoded(const std::map<std::string, Array>& tensors,
                    const std::map<std::string, std::string>& metadata = {}) {
  std::string header, bytes;
  for (std::string_view part : safetensors_parts(tensors, metadata, "file", header)) bytes += part;
  return bytes;
}

// The bytes of a file with this header text and this many data bytes.
std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

std::string refusal(const std::string& bytes) {
  try {
    parse_safetensors(bytes, "file");
  } catch (const IoError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("safetensors: arrays of every dtype, a scalar and an empty array are the same after writing and reading") {
  const Safetensors read = parse_safetensors(encoded(one_of_each(), {{"format", "pt"}, {"note", "\u00e9\n"}}), "file");
  CHECK(read.tensors == one_of_each());
  CHECK(read.metadata == std::map<std::string, std::string>{{"format", "pt"}, {"note", "\u00e9\n"}});
}

TEST_CASE("safetensors: the header of a file without arrays is an empty object") {
  CHECK(encoded({}) == file_of("{}      ", 0));
  CHECK(parse_safetensors(encoded({}), "file").tensors.empty());
}

TEST_CASE("safetensors: the bytes of a known file") {
  const std::string header =
      R"({"b":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[2],"data_offsets":[8,10]}})";
  const std::string bytes = encoded({{"a", Array::of<uint8_t>({2}, {1, 2})}, {"b", Array::of<int64_t>({1}, {3})}});
  CHECK(bytes.substr(8, header.size()) == header);
  CHECK(static_cast<unsigned char>(bytes[0]) == (header.size() + 7) / 8 * 8);
  CHECK(bytes.substr(bytes.size() - 10) == std::string("\3\0\0\0\0\0\0\0\1\2", 10));
}

TEST_CASE("safetensors: names that the format does not allow are refused") {
  const Array array(DType::f32, {1});
  CHECK_THROWS_WITH_AS(encoded({{"__metadata__", array}}), "file: a tensor cannot be called __metadata__", IoError);
  CHECK_THROWS_AS(encoded({{"\xff", array}}), IoError);
  CHECK_THROWS_AS(encoded({}, {{"key", "\xff"}}), IoError);
}

TEST_CASE("safetensors: a file cut anywhere is refused") {
  const std::string bytes = encoded(one_of_each());
  for (size_t size = 0; size < bytes.size(); ++size) CHECK(refusal(bytes.substr(0, size)) != "accepted");
  CHECK(refusal(bytes + 'x') != "accepted");
}

TEST_CASE("safetensors: the error about a damaged file is one line with the cause") {
  const std::string a8 = R"("a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]})";
  const auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  struct Case {
    std::string bytes, cause;
  };
  const Case cases[] = {
      {"", "truncated: 0 bytes"},
      {std::string(8, '\xff'), "the header claims 18446744073709551615 bytes, at most 4194304"},
      {std::string("\0\0\0\6\0\0\0\0", 8), "the header claims 100663296 bytes, at most 4194304"},
      {std::string("\xff\0\0\0\0\0\0\0{}", 10), "truncated: the header claims 255 bytes, 2 are there"},
      {file_of("", 0), "the header does not begin with {"},
      {file_of(" {}", 0), "the header does not begin with {"},
      {file_of("[]", 0), "the header does not begin with {"},
      {file_of("{", 0), "bad header:1:2: not valid JSON"},
      {file_of("{}x", 0), "bad header:1:3: not valid JSON"},
      {file_of("{" + a8 + "," + a8 + "}", 8), "bad header: a: the key is there twice"},
      {file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8]}})", 8),
       "bad header: a.dtype: the key is there twice"},
      {file_of("{\"\xff\":1}", 0), "bad header:1:3: not valid JSON"},
      {file_of(R"({"a":1})", 0), "tensor \"a\": is not an object of dtype, shape and data_offsets"},
      {file_of(R"({"a":{"dtype":"U8","shape":[0]}})", 0), "is not an object of dtype, shape and data_offsets"},
      {file_of(tensor("\"F8_E4M3\"", "[8]", "[0,8]"), 8),
       "tensor \"a\": dtype \"F8_E4M3\" is not one of U8, I32, I64, F16, BF16, F32, F64"},
      {file_of(tensor("\"BF16\"", "[8]", "[0,8]"), 8), "data_offsets [0,8] do not fit BF16 [8]"},
      {file_of(tensor("7", "[4]", "[0,8]"), 8), "dtype is not a string"},
      {file_of(tensor("\"U8\"", "8", "[0,8]"), 8), "shape is not an array"},
      {file_of(tensor("\"U8\"", "[-8]", "[0,8]"), 8), "shape holds -8"},
      {file_of(tensor("\"U8\"", "[8.0]", "[0,8]"), 8), "shape holds 8.0"},
      {file_of(tensor("\"U8\"", "[1,1,1,1,1,1,1,1,8]", "[0,8]"), 8), "shape has 9 dimensions"},
      {file_of(tensor("\"F64\"", "[4294967296,4294967296]", "[0,8]"), 8), "do not fit F64"},
      {file_of(tensor("\"F32\"", "[3]", "[0,8]"), 8), "data_offsets [0,8] do not fit F32 [3]"},
      {file_of(tensor("\"U8\"", "[8]", "[0,9]"), 8), "data_offsets [0,9] lie outside the 8 data bytes"},
      {file_of(tensor("\"U8\"", "[8]", "[8,0]"), 8), "data_offsets [8,0] lie outside"},
      {file_of(tensor("\"U8\"", "[8]", "[-1,7]"), 8), "data_offsets is not a pair of unsigned integers"},
      {file_of(tensor("\"U8\"", "[8]", "[0]"), 8), "data_offsets is not a pair"},
      {file_of(tensor("\"U8\"", "[7]", "[1,8]"), 8),
       "tensor \"a\" begins at data byte 1, after a gap that begins at 0"},
      {file_of(tensor("\"U8\"", "[7]", "[0,7]"), 8), "holds 8 data bytes, the header describes 7"},
      {file_of("{" + a8 + R"(,"b":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}})", 12),
       "tensor \"b\" begins at data byte 4 and overlaps tensor \"a\", which ends at 8"},
      {file_of("{\"" + std::string(5'000, 'n') + "\":1}", 0), std::string(60, 'n') + "...\": is not an object"},
      {file_of(tensor('"' + std::string(5'000, 'd') + '"', "[8]", "[0,8]"), 8),
       std::string(60, 'd') + "...\" is not one"},
      {file_of(tensor("\"U8\"", "[\"" + std::string(5'000, 's') + "\"]", "[0,8]"), 8), "shape holds \"ss"},
      {file_of(R"({"__metadata__":1})", 0), "__metadata__ is not an object"},
      {file_of(R"({"__metadata__":{"a":1}})", 0), "__metadata__ \"a\" is not a string"},
      {file_of("{\"a\":" + std::string(100'000, '['), 0), "bad header: nested deeper than 32 levels"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.cause);
    const std::string line = refusal(each.bytes);
    CHECK(line.starts_with("file: not a valid safetensors file: "));
    CHECK_MESSAGE(line.find(each.cause) != std::string::npos, line);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(line.size() < 300);
  }
}

TEST_CASE("safetensors: a randomly damaged file is refused or read without a crash") {
  const std::string good = encoded(one_of_each(), {{"k", "v"}});
  Rng rng(7);
  int refused = 0;
  for (int i = 0; i < 5'000; ++i) {
    std::string bytes = good;
    for (uint64_t n = 1 + rng.below(4); n > 0; --n) bytes[rng.below(bytes.size())] = static_cast<char>(rng.next_u32());
    refused += refusal(bytes) != "accepted";
  }
  CHECK(refused > 2'500);
}

TEST_CASE("safetensors: a refused write keeps the old file") {
  MemoryDisk disk;
  write_safetensors(disk, "a", one_of_each());
  disk.set_fault({DiskFault::Kind::refuse, disk.operations(), 1});
  CHECK_THROWS_AS(write_safetensors(disk, "a", {}), IoError);
  CHECK(read_safetensors(disk, "a").tensors == one_of_each());
}

TEST_CASE("safetensors: the Python package safetensors reads files of troupe, and troupe reads files of the package") {
  if (!test::python_has("safetensors.numpy")) {
    MESSAGE("skipped: ", test::test_python(), " has no package safetensors with numpy");
    return;
  }
  test::TempFolder folder;
  std::map<std::string, Array> tensors = one_of_each();
  tensors.erase("brains");  // numpy has no bfloat16
  write_safetensors(posix_disk(), folder / "ours", tensors, {{"made_by", "test"}});
  const auto result = test::run_program(test::test_python() + R"( -c '
import sys, numpy
from safetensors import safe_open
from safetensors.numpy import save_file
tensors = {}
with safe_open(sys.argv[1], framework="np") as f:
    assert f.metadata() == {"made_by": "test"}, f.metadata()
    for name in f.keys(): tensors[name] = f.get_tensor(name)
assert tensors["bytes"].tolist() == [0, 128, 255] and tensors["bytes"].dtype == numpy.uint8
assert tensors["ints"].tolist() == [[-1], [7]] and tensors["ints"].dtype == numpy.int32
assert tensors["longs"].tolist() == [-2**63] and tensors["scalar"].shape == () and tensors["scalar"] == 0.1
assert tensors["halves"].dtype == numpy.float16 and tensors["halves"][0] == numpy.float16(0.1)
assert tensors["floats"][0, 0] == 1.5 and numpy.isnan(tensors["floats"][1, 0]) and tensors["nothing"].shape == (0, 4)
save_file(tensors, sys.argv[2], {"made_by": "python"})
print(len(tensors))
' )" + (folder / "ours") + ' ' + (folder / "theirs") +
                                        " 2>&1");
  CHECK_MESSAGE(result.output == "7\n", result.output);
  const Safetensors theirs = read_safetensors(posix_disk(), folder / "theirs");
  CHECK(theirs.tensors == tensors);
  CHECK(theirs.metadata.at("made_by") == "python");
}

TEST_CASE("safetensors: PyTorch reads 16-bit floating-point numbers of troupe, and troupe reads those of PyTorch") {
  if (!test::python_has("safetensors.torch")) {
    MESSAGE("skipped: ", test::test_python(), " has no package safetensors with torch");
    return;
  }
  test::TempFolder folder;
  write_safetensors(posix_disk(), folder / "ours", one_of_each());
  const auto result = test::run_program(test::test_python() + R"( -c '
import sys, torch
from safetensors.torch import load_file, save_file
tensors = load_file(sys.argv[1])
assert tensors["halves"].dtype == torch.float16 and tensors["brains"].dtype == torch.bfloat16
assert tensors["halves"].tolist() == torch.tensor([0.1, -torch.inf], dtype=torch.float16).tolist()
assert tensors["brains"][0, 0] == torch.tensor(0.1, dtype=torch.bfloat16) and tensors["brains"][1, 0].isnan()
save_file(tensors, sys.argv[2])
print(len(tensors))
' )" + (folder / "ours") + ' ' + (folder / "theirs") +
                                        " 2>&1");
  CHECK_MESSAGE(result.output == "8\n", result.output);
  CHECK(read_safetensors(posix_disk(), folder / "theirs").tensors == one_of_each());
}
