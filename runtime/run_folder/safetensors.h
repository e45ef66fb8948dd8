#pragma once
// Named arrays in the safetensors file format (https://github.com/huggingface/safetensors, "Format"): eight bytes with
// the length of a JSON header, the header, the arrays' bytes without gaps. Readable by the Python package, and files of
// the Python package are read here when their dtypes are ours (U8, I32, I64, F16, BF16, F32, F64). Pure functions; any
// thread.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"

namespace troupe {

// The longest header that is read, for some 40,000 arrays. Parsed JSON takes many times its text, so the format's own
// limit of 100 MB would let a bad file take gigabytes.
inline constexpr uint64_t kMaxSafetensorsHeader = 4 << 20;

// The largest file that is read by its path alone.
inline constexpr uint64_t kMaxSafetensors = uint64_t{4} << 30;

struct Safetensors {
  std::map<std::string, Array> tensors;
  std::map<std::string, std::string> metadata;
};

// The file in parts that concatenate to it: the header (kept in `header`) and the arrays' own bytes, which must outlive
// the parts. The arrays are ordered by falling element size, then name, so that each lies aligned to its element size.
// Throws IoError, beginning with `source`, for a name that the format cannot hold ("__metadata__", or not UTF-8).
std::vector<std::string_view> safetensors_parts(const std::map<std::string, Array>& tensors,
                                                const std::map<std::string, std::string>& metadata,
                                                const std::string& source, std::string& header);

// Strict: throws IoError, beginning with `source` and naming the cause, for anything that is not exactly such a file:
// truncated, too long, a header that is no JSON object of this form or too long, a name twice, arrays that overlap,
// leave gaps or lie outside, a dtype or a shape that is not supported.
Safetensors parse_safetensors(std::string_view bytes, const std::string& source);

// A tensor of a file whose bytes are not read yet.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint64_t offset = 0;  // of its first byte in the file
  uint64_t bytes = 0;
};

// The tensors that the header of an open file describes, in the order of their bytes. As strict as parse_safetensors(),
// and throws likewise; only the header is read, so files of any size are accepted.
std::vector<SafetensorsEntry> read_safetensors_entries(const ReadFile& file, const std::string& source);

// Writes a file atomically.
void write_safetensors(Disk& disk, const std::string& path, const std::map<std::string, Array>& tensors,
                       const std::map<std::string, std::string>& metadata = {});
Safetensors read_safetensors(const Disk& disk, const std::string& path);

}  // namespace troupe
