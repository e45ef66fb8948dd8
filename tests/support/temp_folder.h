#pragma once
// A temporary directory for one test, removed with its contents at the end.

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace troupe::test {

class TempFolder {
 public:
  TempFolder() : path_((std::filesystem::temp_directory_path() / "troupe-test-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder at " + path_);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + '/' + name; }

 private:
  std::string path_;
};

}  // namespace troupe::test
