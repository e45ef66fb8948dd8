#include "runtime/run_folder/answer_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troupe {

namespace {

constexpr uint64_t kMostLineBytes = 32 << 20;  // a prompt and an answer of the largest sizes are shorter

// The line between these positions, of which the second is behind its line break; empty if it is too long.
std::string line_between(const ReadFile& file, uint64_t begin, uint64_t end) {
  return end - begin <= kMostLineBytes ? file.read(begin, end - begin) : std::string();
}

// Whether the torn line behind `end` is of the same evaluation as `line`, so that others of its lines may be missing
// too.
bool continues(const ReadFile& file, uint64_t end, const std::string& line) {
  const std::string updates = line.substr(0, line.find(',') + 1);  // {"updates":20,
  return !updates.empty() && file.read(end, updates.size()) == updates;
}

// How many bytes are kept. Sets `newest` to the updates of the last of their lines.
uint64_t kept_bytes(const ReadFile& file, uint64_t updates, std::optional<uint64_t>& newest) {
  const uint64_t whole = begin_of_line(file, file.size());
  std::optional<uint64_t> torn;
  for (uint64_t end = whole; end > 0;) {
    const uint64_t begin = begin_of_line(file, end - 1);
    const std::string line = line_between(file, begin, end);
    const uint64_t of = updates_in(line);
    if (end == whole && continues(file, end, line)) torn = of;
    if (nlohmann::json::accept(line) && of <= updates && of != torn) {
      newest = of;
      return end;
    }
    end = begin;
  }
  return 0;
}

}  // namespace

void AnswerFile::begin(std::optional<uint64_t> updates) {
  const std::unique_ptr<ReadFile> file = open_if_present(*disk_, path_);
  if (!file || file->size() == 0) return;
  if (!updates) return disk_->rename(path_, free_name(*disk_, path_));
  const uint64_t kept = kept_bytes(*file, *updates, newest_);
  if (kept < file->size()) disk_->truncate(path_, kept);
}

void AnswerFile::write(uint64_t updates, const std::string& lines) {
  if (lines.empty() || (newest_ && updates <= *newest_)) return;
  write_if_possible("answers.jsonl", lost_, [&] {
    append(lines);
    newest_ = updates;
  });
}

void AnswerFile::append(const std::string& lines) {
  const std::unique_ptr<ReadFile> file = open_if_present(*disk_, path_);
  const uint64_t size = file ? begin_of_line(*file, file->size()) : 0;  // without a torn line, if somebody has cut it
  if (!file || size + lines.size() <= kMostBytes) {
    if (file && size < file->size()) disk_->truncate(path_, size);
    return disk_->open_append(path_)->append(lines);
  }
  const uint64_t room = kBytesAfterwards - std::min<uint64_t>(lines.size(), kBytesAfterwards);
  const uint64_t from = begin_of_line(*file, size - std::min(room, size));
  const std::string newest = file->read(from, size - from);
  disk_->write_atomic(path_, newest.substr(newest.size() > room ? newest.find('\n') + 1 : 0) + lines);
}

}  // namespace troupe
