#include "runtime/base/file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "runtime/base/memory_disk.h"
#include "tests/support/bad_files.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Runs the same checks on the real disk and on a disk in memory.
template <class Test>
void on_each_disk(Test test) {
  TempFolder folder;
  MemoryDisk memory;
  SUBCASE("posix") { test(posix_disk(), folder.path()); }
  SUBCASE("memory") { test(memory, std::string("/memory")); }
}

std::string io_error_of(auto action) {
  try {
    action();
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

// While it exists, files of this process cannot grow beyond `bytes`, which causes real short writes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limited{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limited);
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit old_{};
  void (*handler_)(int) = nullptr;
};

}  // namespace

TEST_CASE("disk: write_atomic makes or replaces a file and leaves no other file") {
  on_each_disk([](Disk& disk, const std::string& folder) {
    disk.write_atomic(folder + "/a", "one");
    const std::string_view parts[] = {"tw", "", "o"};
    disk.write_atomic(folder + "/a", parts);
    CHECK(disk.read(folder + "/a") == "two");
    CHECK(disk.list(folder) == std::vector<std::string>{"a"});
  });
}

TEST_CASE("disk: a file is read as it was written, also with zero bytes and empty") {
  on_each_disk([](Disk& disk, const std::string& folder) {
    const std::string bytes("a\0\xff\n", 4);
    disk.write_atomic(folder + "/a", bytes);
    disk.write_atomic(folder + "/empty", "");
    CHECK(disk.read(folder + "/a") == bytes);
    CHECK(disk.read(folder + "/empty").empty());
  });
}

TEST_CASE("disk: append adds to an existing file, also when it is opened again") {
  on_each_disk([](Disk& disk, const std::string& folder) {
    disk.open_append(folder + "/a")->append("one,");
    auto file = disk.open_append(folder + "/a");
    file->append("two");
    CHECK(disk.read(folder + "/a") == "one,two");
    disk.truncate(folder + "/a", 3);
    file->append("!");
    CHECK(disk.read(folder + "/a") == "one!");
  });
}

TEST_CASE("disk: directories are made, listed in order, renamed, and removed with their contents") {
  on_each_disk([](Disk& disk, const std::string& folder) {
    disk.make_directory(folder + "/d/e");
    disk.make_directory(folder + "/d/e");
    disk.write_atomic(folder + "/d/e/b", "1");
    disk.write_atomic(folder + "/d/e/a", "2");
    disk.rename(folder + "/d/e", folder + "/d/f");
    CHECK(disk.list(folder + "/d") == std::vector<std::string>{"f"});
    CHECK(disk.list(folder + "/d/f") == std::vector<std::string>{"a", "b"});
    CHECK_THROWS_AS(disk.remove(folder + "/d"), IoError);
    CHECK_THROWS_AS(disk.remove(folder + "/d/f"), IoError);
    for (const char* name : {"/d/f/a", "/d/f/b", "/d/f", "/d", "/d"}) disk.remove(folder + name);
    CHECK_FALSE(disk.exists(folder + "/d"));
    CHECK(disk.list(folder + "/d").empty());
  });
}

TEST_CASE("disk: of a directory only the named files are removed, and itself only if nothing else is in it") {
  on_each_disk([](Disk& disk, const std::string& folder) {
    const std::vector<std::string> names = {"a", "b", "c"};
    disk.make_directory(folder + "/d/c");
    for (const char* name : {"/d/a", "/d/b", "/d/mine", "/file"}) disk.write_atomic(folder + name, "1");
    CHECK_FALSE(disk.remove_directory(folder + "/d", names));
    CHECK(disk.list(folder + "/d") == std::vector<std::string>{"c", "mine"});
    disk.remove(folder + "/d/mine");
    CHECK_FALSE(disk.remove_directory(folder + "/d", names));
    disk.remove(folder + "/d/c");
    CHECK(disk.remove_directory(folder + "/d", names));
    CHECK(disk.remove_directory(folder + "/d", names));
    CHECK_FALSE(disk.remove_directory(folder + "/file", names));
    CHECK(disk.list(folder) == std::vector<std::string>{"file"});
  });
}

TEST_CASE("disk: a file that has the temporary name already is not changed") {
  on_each_disk([](Disk& disk, const std::string& folder) {
    disk.write_atomic(folder + "/a.tmp", "mine");
    disk.write_atomic(folder + "/a", "new");
    CHECK(disk.read(folder + "/a.tmp") == "mine");
    CHECK(disk.list(folder) == std::vector<std::string>{"a", "a.tmp"});
  });
}

TEST_CASE("posix_disk: the target of a link is not changed by the removal of a directory") {
  TempFolder folder;
  const std::vector<std::string> names = {"a"};
  posix_disk().make_directory(folder / "d");
  posix_disk().write_atomic(folder / "d/a", "1");
  std::filesystem::create_directory_symlink(folder / "d", folder / "link");
  CHECK_FALSE(posix_disk().remove_directory(folder / "link", names));
  CHECK(posix_disk().read(folder / "d/a") == "1");
}

TEST_CASE("disk: the error about a missing file has its path and the reason") {
  on_each_disk([](Disk& disk, const std::string& folder) {
    CHECK(io_error_of([&] { disk.read(folder + "/x"); }) == folder + "/x: cannot open: No such file or directory");
    CHECK_THROWS_AS(disk.rename(folder + "/x", folder + "/y"), IoError);
    CHECK_THROWS_AS(disk.truncate(folder + "/x", 0), IoError);
  });
}

TEST_CASE("posix_disk: a name with a NUL is refused, and shown whole") {
  TempFolder folder;
  posix_disk().write_atomic(folder / "a", "1");
  const std::string path = folder / std::string("a\0b", 3);
  CHECK(io_error_of([&] { posix_disk().read(path); }) ==
        folder / "a\\x00b" + ": has a NUL character, which no file name has");
}

TEST_CASE("disk: a rename does not replace a directory that contains files") {
  on_each_disk([](Disk& disk, const std::string& folder) {
    disk.make_directory(folder + "/new");
    disk.make_directory(folder + "/old");
    disk.write_atomic(folder + "/old/a", "kept");
    CHECK_THROWS_AS(disk.rename(folder + "/new", folder + "/old"), IoError);
    CHECK(disk.read(folder + "/old/a") == "kept");
  });
}

TEST_CASE("disk: a lock is refused while it is held, and is free again afterwards") {
  on_each_disk([](Disk& disk, const std::string& folder) {
    auto lock = disk.lock(folder + "/run.lock");
    CHECK(io_error_of([&] { disk.lock(folder + "/run.lock"); }).find(" is using this folder") != std::string::npos);
    lock.reset();
    CHECK_NOTHROW(disk.lock(folder + "/run.lock"));
  });
}

TEST_CASE("posix_disk: the error about a lock names the process that holds it, and the lock ends with that process") {
  TempFolder folder;
  const std::string path = folder / "run.lock";
  int ready[2], finish[2];
  REQUIRE(::pipe(ready) == 0);
  REQUIRE(::pipe(finish) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = posix_disk().lock(path);
    char byte = 1;
    if (::write(ready[1], &byte, 1) == 1 && ::read(finish[0], &byte, 1) == 1) ::pause();
    ::_exit(0);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK(io_error_of([&] { posix_disk().lock(path); }) ==
        path + ": process " + std::to_string(child) + " is using this folder; end it first, or use another folder");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK_NOTHROW(posix_disk().lock(path));
  for (int fd : {ready[0], ready[1], finish[0], finish[1]}) ::close(fd);
}

TEST_CASE("posix_disk: a write that does not fit on the disk keeps the old file and leaves no temporary file") {
  TempFolder folder;
  posix_disk().write_atomic(folder / "a", "old");
  const std::string big(100'000, 'x');
  std::string message;
  {
    FileSizeLimit limit(1000);
    message = io_error_of([&] { posix_disk().write_atomic(folder / "a", big); });
  }
  CHECK(message.find("a.tmp: cannot write: File too large") != std::string::npos);
  CHECK(posix_disk().read(folder / "a") == "old");
  CHECK(posix_disk().list(folder.path()).size() == 1);
}

TEST_CASE("posix_disk: an append that does not fit on the disk adds nothing, and the next one works") {
  TempFolder folder;
  auto file = posix_disk().open_append(folder / "a");
  file->append("12345678\n");
  {
    FileSizeLimit limit(12);
    CHECK_THROWS_AS(file->append("abcdefgh\n"), IoError);
  }
  CHECK(posix_disk().read(folder / "a") == "12345678\n");
  file->append("next\n");
  CHECK(posix_disk().read(folder / "a") == "12345678\nnext\n");
}

TEST_CASE("posix_disk: reading or writing a file that is not a regular file is refused by name") {
  for (const BadFile& bad : kBadFiles) {
    if (bad.name == "an empty file" || bad.name == "a file of the system") continue;  // read as empty
    CAPTURE(bad.name);
    TempFolder folder;
    const std::string path = folder / "x";
    replace_by(bad, path);
    const std::string error = io_error_of([&] { posix_disk().read(path); });
    CHECK_MESSAGE(error.starts_with(path + ": "), error);
    if (bad.name == "6 GiB of zeros" || bad.name == "a broken link") continue;
    CHECK(io_error_of([&] { posix_disk().open_append(path); }).starts_with(path + ": "));
    CHECK(io_error_of([&] { posix_disk().lock(path); }).starts_with(path + ": "));
  }
  CHECK(io_error_of([] { posix_disk().open_append("/dev/full"); }) ==
        "/dev/full: is a device, expected a regular file");
}

TEST_CASE("posix_disk: a lock file that is a link is refused, and the target of the link is not changed") {
  TempFolder folder;
  posix_disk().write_atomic(folder / "thesis", "all of it");
  std::filesystem::create_symlink(folder / "thesis", folder / "run.lock");
  CHECK(io_error_of([&] { posix_disk().lock(folder / "run.lock"); }) ==
        (folder / "run.lock") + ": is a link, expected a regular file");
  CHECK(posix_disk().read(folder / "thesis") == "all of it");
}

TEST_CASE("posix_disk: write_atomic replaces other kinds of files with its name, not those with its temporary name") {
  for (const BadFile& bad : kBadFiles) {
    if (bad.name == "a directory") continue;
    CAPTURE(bad.name);
    TempFolder folder;
    for (const char* name : {"a", "a.tmp"}) replace_by(bad, folder / name);
    posix_disk().write_atomic(folder / "a", "new");
    CHECK(posix_disk().read(folder / "a") == "new");
    CHECK(posix_disk().list(folder.path()) == std::vector<std::string>{"a", "a.tmp"});
  }
}

TEST_CASE("disk: a file that is larger than the reader allows is refused") {
  on_each_disk([](Disk& disk, const std::string& folder) {
    disk.write_atomic(folder + "/a", "12345");
    CHECK(disk.read(folder + "/a", 5) == "12345");
    CHECK(io_error_of([&] { disk.read(folder + "/a", 4); }) == folder + "/a: holds 5 bytes, expected at most 4");
    const auto file = disk.open_read(folder + "/a");
    CHECK(file->size() == 5);
    CHECK(file->read(1, 3) == "234");
    CHECK(file->read(3, 9) == "45");
    CHECK(file->read(9, 1).empty());
  });
}

TEST_CASE("posix_disk: a link exists even if its target is missing") {
  TempFolder folder;
  CHECK_FALSE(posix_disk().exists(folder / "x"));
  std::filesystem::create_symlink(folder / "none", folder / "x");
  CHECK(posix_disk().exists(folder / "x"));
}

TEST_CASE("memory_disk: a refused operation changes nothing, and later operations work") {
  MemoryDisk disk;
  disk.write_atomic("a", "old");
  disk.set_fault({DiskFault::Kind::refuse, disk.operations() + 1, 1});
  CHECK(io_error_of([&] { disk.write_atomic("a", "new"); }) == "a: cannot write: No space left on device");
  CHECK(disk.read("a") == "old");
  disk.write_atomic("a", "newer");
  CHECK(disk.read("a") == "newer");
}

TEST_CASE("memory_disk: after a crash the write is incomplete and every later operation is refused") {
  MemoryDisk disk;
  auto file = disk.open_append("a");
  disk.set_fault({DiskFault::Kind::crash, disk.operations(), 1});
  CHECK_THROWS_AS(file->append("12345678"), IoError);
  CHECK_THROWS_AS(disk.write_atomic("b", "x"), IoError);
  disk.clear_fault();
  CHECK(disk.read("a") == "1234");
  CHECK_FALSE(disk.exists("b"));
}
