#include "tools/cli/new_folder.h"

#include <filesystem>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

// A folder that this call makes beside `target`. What is there of such a name belongs to others.
std::string make_parts_folder(const std::string& target) {
  for (;;) {
    std::string folder = free_temporary_name(posix_disk(), target);
    std::error_code failed;
    if (fs::create_directory(folder, failed)) return folder;
    if (failed) throw IoError(folder, "cannot make directory", failed.value());
  }
}

// The folders above `path` that are missing, the innermost first.
std::vector<fs::path> missing_above(const fs::path& path) {
  std::vector<fs::path> result;
  std::error_code failed;
  for (fs::path each = path.parent_path(); !fs::exists(each, failed) && each.has_relative_path();
       each = each.parent_path())
    result.push_back(each);
  return result;
}

// The folder to write, behind links if it is there.
fs::path target_of(const std::string& folder) {
  std::error_code failed;
  if (const fs::path real = fs::canonical(folder, failed); !failed) return real;
  const fs::path target = fs::absolute(folder).lexically_normal();
  return target.has_filename() ? target : target.parent_path();
}

}  // namespace

void require_new_folder(const std::string& flag, const std::string& folder) {
  std::error_code failed;
  if (!fs::exists(folder, failed)) return;
  if (!fs::is_directory(folder, failed))
    throw ConfigError(flag + ": " + printable(folder, 200) + ": is not a folder, expected a new or an empty one");
  if (!fs::is_empty(folder, failed))
    throw ConfigError(flag + ": " + printable(folder, 200) + ": is not empty, expected a new or an empty folder");
}

void write_new_folder(const std::string& folder, const std::function<void(const std::string& parts)>& write) {
  Disk& disk = posix_disk();
  const fs::path target = target_of(folder);
  const std::vector<fs::path> made = missing_above(target);
  std::string parts;
  try {
    disk.make_directory(target.parent_path());
    parts = make_parts_folder(target);
    write(parts);
    disk.rename(parts, target);  // replaces an empty folder, refuses one that is not
  } catch (...) {
    std::error_code stays;  // what is not empty by now, above the parts
    if (!parts.empty()) fs::remove_all(parts, stays);
    for (const fs::path& above : made) fs::remove(above, stays);
    throw;
  }
}

}  // namespace troupe
