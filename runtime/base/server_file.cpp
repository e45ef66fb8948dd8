#include "runtime/base/server_file.h"

#include <filesystem>

#include "runtime/base/file.h"

namespace troupe {

namespace fs = std::filesystem;

std::string server_file(const std::string& name, const std::string& source) {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed).parent_path();
  const fs::path installed = program.parent_path() / "share" / "troupe" / name;
  if (fs::exists(installed, failed)) return installed;
  const fs::path in_tree = fs::path(TROUPE_SOURCE_DIR) / source / name;
  if (program.string().starts_with(TROUPE_BUILD_DIR) && fs::exists(in_tree, failed)) return in_tree;
  throw IoError(installed.string(), "is missing; it is installed together with troupe");
}

}  // namespace troupe
