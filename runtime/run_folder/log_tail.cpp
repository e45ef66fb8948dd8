#include "runtime/run_folder/log_tail.h"

#include <algorithm>
#include <string_view>

#include "runtime/base/suggest.h"
#include "runtime/run_folder/line_file.h"

namespace troupe {

std::vector<std::string> log_tail(const Disk& disk, const std::string& folder) {
  constexpr size_t kShownBytes = 1000;  // of a line
  std::vector<std::string> lines;
  const std::unique_ptr<ReadFile> file = open_if_present(disk, folder + "/log.txt");
  if (!file) return lines;
  const uint64_t from = file->size() - std::min(file->size(), kLogTailBytes);
  const std::string text = file->read(from, kLogTailBytes);
  const size_t first_end = text.find('\n');
  size_t begin = from == 0 ? 0 : first_end == text.npos ? text.size() : first_end + 1;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(printable(std::string_view(text).substr(begin, end - begin), kShownBytes));
    begin = end + 1;
  }
  lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(std::min(lines.size(), kLogTailLines)));
  return lines;
}

}  // namespace troupe
