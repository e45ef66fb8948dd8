#pragma once
// What the JSON files of a run folder have in common: how the growing ones are read from their end, how the others are
// read, and writes that may fail. Plain functions; any thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runtime/base/file.h"

namespace troupe {

inline constexpr uint64_t kBlockBytes = 16 << 10;  // such a file can be larger than memory: it is read in blocks

// The file, or null if there is none. Throws IoError for a broken link, and when the file system does not answer, since
// the file may then exist.
std::unique_ptr<ReadFile> open_if_present(const Disk& disk, const std::string& path);

// The position at which the line with the byte before `end` begins.
uint64_t begin_of_line(const ReadFile& file, uint64_t end);
// The same; nothing if the line has more than `most_bytes` before `end`.
std::optional<uint64_t> begin_of_line(const ReadFile& file, uint64_t end, uint64_t most_bytes);

// The position of the last occurrence of `text` that ends at `end` or before, within `most_bytes` before that.
std::optional<uint64_t> position_before(const ReadFile& file, uint64_t end, std::string_view text, uint64_t most_bytes);

// The number of updates in a line; 0 if it has none.
uint64_t updates_in(std::string_view line);

// The JSON object in a file that a run writes whole; null if the file is missing, larger, or damaged by a start that
// was killed. `damage` becomes what is wrong with it, beginning with its path; empty if nothing is, or without the
// file. Throws IoError when the disk refuses to read it.
nlohmann::ordered_json stored_object(const Disk& disk, const std::string& path, uint64_t most_bytes = kMaxReadBytes,
                                     std::string* damage = nullptr);

// The text at a key of such an object; empty where the value is no string, or `object` no object.
std::string text_member(const nlohmann::ordered_json& object, const char* key);

// Writes that the disk refused.
struct LostWrites {
  uint64_t total = 0;
  uint64_t in_a_row = 0;
  std::string error;  // of the last of them, while they are not over
};

// Calls `write`. When that throws IoError, the write is lost and counted, and the run continues; the first of several
// in a row is logged, and their end. `file` names the file.
void write_if_possible(const std::string& file, LostWrites& lost, const std::function<void()>& write);

}  // namespace troupe
