#include "tools/cli/torch_check.h"

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

void write_file(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

}  // namespace

TEST_CASE("torch_check: the lines of the loader name the LibTorch it loads and the libraries it does not find") {
  const LoadedLibraries found = read_loader_lines({
      "\tlinux-vdso.so.1 (0x00007ffc5a5f2000)",
      "ERROR: ld.so: object 'x.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored.",
      "\tlibc10.so => not found",
      "\tlibtorch_cpu.so => /a folder/torch/lib/libtorch_cpu.so (0x00007f2e1c400000)",
      "\tlibcupti.so.13 => not found",
      "\t/lib64/ld-linux-x86-64.so.2 (0x00007f2e36a6d000)",
  });
  CHECK(found.torch == "/a folder/torch/lib/libtorch_cpu.so");
  CHECK(found.missing == std::vector<std::string>{"libc10.so", "libcupti.so.13"});
  CHECK(found.failure == "");
}

TEST_CASE("torch_check: a symbol version that a library lacks is a failure") {
  const std::string line =
      "troupe-learn: /lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by troupe-learn)";
  CHECK(read_loader_lines({line, "\tlibtorch_cpu.so => /t/lib/libtorch_cpu.so (0x0)"}).failure == line);
}

TEST_CASE("torch_check: the version is that of version.py, else that of the headers") {
  const test::TempFolder folder;
  CHECK(torch_version(folder.path()) == "");
  write_file(folder / "include/torch/headeronly/version.h",
             "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 9\n#define TORCH_VERSION_PATCH 1\n");
  CHECK(torch_version(folder.path()) == "2.9");
  write_file(folder / "version.py", "__all__ = ['__version__', 'debug']\n__version__ = '2.13.0+cpu'\ndebug = False\n");
  CHECK(torch_version(folder.path()) == "2.13.0+cpu");
}
