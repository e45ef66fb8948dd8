#include "runtime/run_folder/line_file.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "runtime/base/log.h"
#include "runtime/base/strict_json.h"

namespace troupe {

namespace {

constexpr const char* kLineFile = "run folder";

}  // namespace

std::unique_ptr<ReadFile> open_if_present(const Disk& disk, const std::string& path) {
  try {
    return disk.open_read(path);
  } catch (const IoError& error) {
    const bool absent = error.error_number() == ENOENT || error.error_number() == ENOTDIR;
    if (!absent || disk.exists(path)) throw;
    return nullptr;
  }
}

uint64_t begin_of_line(const ReadFile& file, uint64_t end) { return *begin_of_line(file, end, end); }

std::optional<uint64_t> begin_of_line(const ReadFile& file, uint64_t end, uint64_t most_bytes) {
  const uint64_t least = end - std::min(end, most_bytes);
  while (end > least) {
    const uint64_t begin = end - std::min(end - least, kBlockBytes);
    const size_t line_break = file.read(begin, end - begin).rfind('\n');
    if (line_break != std::string::npos) return begin + line_break + 1;
    end = begin;
  }
  return end == 0 ? std::optional<uint64_t>(0) : std::nullopt;
}

std::optional<uint64_t> position_before(const ReadFile& file, uint64_t end, std::string_view text,
                                        uint64_t most_bytes) {
  constexpr uint64_t kSearched = 1 << 20;  // at once
  const uint64_t least = end - std::min(end, most_bytes), overlap = text.size() - 1;
  while (end > least) {
    const uint64_t begin = end - std::min(end - least, kSearched);
    const size_t found = file.read(begin, end - begin).rfind(text);
    if (found != std::string::npos) return begin + found;
    if (begin == least) break;
    end = begin + overlap;
  }
  return std::nullopt;
}

uint64_t updates_in(std::string_view line) {
  const nlohmann::json value = nlohmann::json::parse(line, nullptr, false);
  const bool has = value.is_object() && value.contains("updates") && value["updates"].is_number_unsigned();
  return has ? value["updates"].get<uint64_t>() : 0;
}

Json stored_object(const Disk& disk, const std::string& path, uint64_t most_bytes, std::string* damage) {
  std::string wrong;
  Json json;
  try {
    json = parse_stored(disk.read(path, most_bytes), path);
    if (!json.is_object()) wrong = path + ": is not a JSON object";
  } catch (const IoError& error) {
    if (error.is_refusal()) throw;
    if (damage != nullptr && disk.exists(path)) wrong = error.what();
  }
  if (damage != nullptr) *damage = wrong;
  return json.is_object() ? json : Json();
}

std::string text_member(const Json& object, const char* key) {
  const auto found = object.find(key);  // of anything but an object it finds nothing
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void write_if_possible(const std::string& file, LostWrites& lost, const std::function<void()>& write) {
  try {
    write();
  } catch (const IoError& error) {
    ++lost.total;
    lost.error = error.what();
    if (lost.in_a_row++ == 0) log_error(kLineFile, std::string(error.what()) + "; the run continues without it");
    return;
  }
  if (lost.in_a_row > 0)
    log_warn(kLineFile, file + ": writable again, " + std::to_string(lost.in_a_row) + " writes were lost");
  lost.in_a_row = 0;
  lost.error.clear();
}

}  // namespace troupe
