#include "runtime/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "runtime/base/blocked.h"
#include "runtime/base/descriptor.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";

std::string error_line(const std::string& path, const std::string& problem, int error_number) {
  // what() ends at the first NUL.
  std::string line =
      (path.find('\0') == std::string::npos ? path : printable(path, std::string::npos)) + ": " + problem;
  if (error_number != 0) line += ": " + std::generic_category().message(error_number);
  return line;
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// The kind of a file that is not a regular one, like "a directory"; nullptr for a regular file.
const char* other_kind(mode_t mode) {
  if (S_ISREG(mode)) return nullptr;
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a link";
  return "a device";
}

void require_regular(const std::string& path, const struct stat& status) {
  if (const char* kind = other_kind(status.st_mode))
    throw IoError(path, std::string("is ") + kind + ", expected a regular file");
}

// A file or directory that this process has open.
class OpenFile {
 public:
  // Opening never waits. Without O_DIRECTORY the path must lead to a regular file, or to nothing if `flags` create it.
  OpenFile(const std::string& path, int flags, const char* problem) : path_(path) {
    if (path.find('\0') != std::string::npos) throw IoError(path, "has a NUL character, which no file name has");
    const bool directory = (flags & O_DIRECTORY) != 0;
    struct stat status{};
    // Checked before it is opened, because opening a device can have an effect.
    const bool there = ((flags & O_NOFOLLOW) != 0 ? ::lstat : ::stat)(path.c_str(), &status) == 0;
    if (there && !directory) require_regular(path, status);
    int fd = -1;
    do fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) throw IoError(path, problem, errno);
    descriptor_ = Descriptor(fd);
    if (!directory) require_regular(path, this->status());
  }

  int get() const { return descriptor_.number(); }
  const std::string& path() const { return path_; }
  struct stat status() const {
    struct stat result{};
    if (::fstat(get(), &result) != 0) throw IoError(path_, "cannot read", errno);
    return result;
  }

  void write_all(std::string_view bytes) const {
    const Blocked blocked;
    while (!bytes.empty()) {
      const ssize_t written = ::write(get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw IoError(path_, "cannot write", errno);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }

  void sync() const {
    const Blocked blocked;
    if (::fsync(get()) != 0) throw IoError(path_, "cannot sync", errno);
  }

  // Closes now and reports errors that only close() shows, such as a full network file system.
  void close() {
    const Blocked blocked;
    if (::close(descriptor_.release()) != 0 && errno != EINTR) throw IoError(path_, "cannot close", errno);
  }

 private:
  std::string path_;
  Descriptor descriptor_;
};

// Makes a rename or a new name in `directory` survive a power cut. File systems that cannot sync a directory fail with
// EINVAL.
void sync_directory(const std::string& directory) {
  const OpenFile open(directory, O_RDONLY | O_DIRECTORY, "cannot open directory");
  const Blocked blocked;
  if (::fsync(open.get()) != 0 && errno != EINVAL) throw IoError(directory, "cannot sync directory", errno);
}

class PosixReadFile final : public ReadFile {
 public:
  explicit PosixReadFile(const std::string& path)
      : file_(path, O_RDONLY, "cannot open"), size_(static_cast<uint64_t>(file_.status().st_size)) {}

  uint64_t size() const override { return size_; }

  std::string read(uint64_t offset, uint64_t count) const override {
    std::string bytes(offset < size_ ? std::min(count, size_ - offset) : 0, '\0');
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got =
          ::pread(file_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw IoError(file_.path(), "cannot read", errno);
      if (got == 0) break;  // the file has become shorter
      done += static_cast<size_t>(got);
    }
    bytes.resize(done);
    return bytes;
  }

 private:
  OpenFile file_;
  uint64_t size_;
};

class PosixAppendFile final : public AppendFile {
 public:
  explicit PosixAppendFile(const std::string& path) : file_(path, O_WRONLY | O_CREAT | O_APPEND, "cannot open") {}

  void append(std::string_view bytes) override {
    if (torn_at_ >= 0) cut_back();
    const off_t end = ::lseek(file_.get(), 0, SEEK_END);
    try {
      file_.write_all(bytes);
    } catch (const IoError&) {
      torn_at_ = end;
      if (end >= 0 && ::ftruncate(file_.get(), end) == 0) torn_at_ = -1;
      throw;
    }
  }

 private:
  void cut_back() {
    if (::ftruncate(file_.get(), torn_at_) != 0) throw IoError(file_.path(), "cannot cut off a torn write", errno);
    torn_at_ = -1;
  }

  OpenFile file_;
  off_t torn_at_ = -1;  // where a part of a failed write begins that could not be cut off; -1 = nowhere
};

// Whether another process or object holds the lock. A file system that cannot lock directories fails with another error
// number, which counts as not locked.
bool is_locked(const OpenFile& file) { return ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

constexpr const char* kInUse = " is using this folder; end it first, or use another folder";

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(const std::string& path)
      : path_(path), directory_(parent_of(path), O_RDONLY | O_DIRECTORY, "cannot open directory") {
    if (is_locked(directory_)) throw IoError(path, owner() + kInUse);
    // O_NOFOLLOW: what a link leads to would be overwritten.
    file_.emplace(path, O_RDWR | O_CREAT | O_NOFOLLOW, "cannot open");
    if (is_locked(*file_)) throw IoError(path, owner() + kInUse);
    if (::flock(file_->get(), LOCK_EX | LOCK_NB) != 0) throw IoError(path, "cannot lock", errno);
    if (::ftruncate(file_->get(), 0) != 0) throw IoError(path, "cannot write", errno);
    file_->write_all(std::to_string(::getpid()) + '\n');
  }

  void check() const override {
    check(directory_);
    check(*file_);
  }

 private:
  static void check(const OpenFile& held) {
    const struct stat mine = held.status();
    struct stat now{};
    if (::stat(held.path().c_str(), &now) != 0) {
      if (errno != ENOENT && errno != ENOTDIR) return;  // the file system does not answer: the lock may still be there
      throw LockLost(held.path(),
                     "was removed or renamed while this process was using it; nothing more is written there");
    }
    if (now.st_dev != mine.st_dev || now.st_ino != mine.st_ino)
      throw LockLost(held.path(), "was replaced while this process was using it; nothing more is written there");
  }

  std::string owner() const {
    long pid = 0;
    try {
      pid = std::strtol(PosixReadFile(path_).read(0, 32).c_str(), nullptr, 10);
    } catch (const IoError&) {
      // Somebody removed the file; its owner still has the directory.
    }
    return pid > 0 ? "process " + std::to_string(pid) : "another process";
  }

  std::string path_;
  OpenFile directory_;
  std::optional<OpenFile> file_;
};

void remove_regular(const OpenFile& directory, const std::string& name) {
  struct stat status{};
  if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) return;
  if (::unlinkat(directory.get(), name.c_str(), 0) != 0 && errno != ENOENT)
    throw IoError(directory.path() + '/' + name, "cannot remove", errno);
}

class PosixDisk final : public Disk {
 public:
  std::unique_ptr<ReadFile> open_read(const std::string& path) const override {
    return std::make_unique<PosixReadFile>(path);
  }

  void write_atomic(const std::string& path, std::span<const std::string_view> parts) override {
    struct stat status{};
    if (::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) require_regular(path, status);
    const std::string temporary = free_temporary_name(*this, path);
    OpenFile file(temporary, O_WRONLY | O_CREAT | O_EXCL, "cannot open");
    try {
      for (std::string_view part : parts) file.write_all(part);
      file.sync();
      file.close();
      if (::rename(temporary.c_str(), path.c_str()) != 0) throw IoError(path, "cannot replace", errno);
    } catch (const IoError&) {
      ::unlink(temporary.c_str());
      throw;
    }
    sync_directory(parent_of(path));
  }

  std::unique_ptr<AppendFile> open_append(const std::string& path) override {
    return std::make_unique<PosixAppendFile>(path);
  }

  void truncate(const std::string& path, uint64_t bytes) override {
    if (::truncate(path.c_str(), static_cast<off_t>(bytes)) != 0) throw IoError(path, "cannot cut", errno);
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) throw IoError(from, "cannot rename to " + to, errno);
    sync_directory(parent_of(to));
  }

  void remove(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error) throw IoError(path, "cannot remove", error.value());
  }

  bool remove_directory(const std::string& path, std::span<const std::string> names) override {
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) {
      if (errno == ENOENT) return true;
      throw IoError(path, "cannot remove", errno);
    }
    if (!S_ISDIR(status.st_mode)) return false;
    {
      const OpenFile directory(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, "cannot open directory");
      for (const std::string& name : names) remove_regular(directory, name);
    }
    if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return true;
    if (errno != ENOTEMPTY && errno != EEXIST) throw IoError(path, "cannot remove", errno);
    return false;
  }

  void make_directory(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    // The folders above it are created too, so none is missing. File systems like /proc fail with this error.
    if (error == std::errc::no_such_file_or_directory)
      throw IoError(path, "cannot make directory: the file system there accepts no new folders");
    if (error) throw IoError(path, "cannot make directory", error.value());
  }

  bool exists(const std::string& path) const override {
    struct stat status{};
    return ::lstat(path.c_str(), &status) == 0;
  }

  std::vector<std::string> list(const std::string& path) const override {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
      names.push_back(it->path().filename().string());
    const bool absent = error == std::errc::no_such_file_or_directory && !exists(path);  // and no broken link either
    if (error && !absent) throw IoError(path, "cannot list", error.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::unique_ptr<FileLock> lock(const std::string& path) override { return std::make_unique<PosixFileLock>(path); }
};

}  // namespace

IoError::IoError(const std::string& path, const std::string& problem, int error_number)
    : std::runtime_error(error_line(path, problem, error_number)), error_number_(error_number) {}

bool IoError::is_refusal() const { return error_number_ != 0 && error_number_ != ENOENT && error_number_ != ENOTDIR; }

std::string Disk::read(const std::string& path, uint64_t max_bytes) const {
  const std::unique_ptr<ReadFile> file = open_read(path);
  if (file->size() > max_bytes)
    throw IoError(path,
                  "holds " + std::to_string(file->size()) + " bytes, expected at most " + std::to_string(max_bytes));
  return file->read(0, file->size());
}

Disk& posix_disk() {
  static PosixDisk disk;
  return disk;
}

std::string temporary_name(const std::string& path) { return path + std::string(kTemporarySuffix); }

bool is_temporary_name(std::string_view name) { return name.ends_with(kTemporarySuffix); }

std::string free_temporary_name(const Disk& disk, const std::string& path) {
  std::string name = temporary_name(path);
  for (uint64_t number = 1; disk.exists(name); ++number) name = temporary_name(path + '.' + std::to_string(number));
  return name;
}

std::string free_name(const Disk& disk, const std::string& path) {
  std::string name = path;
  for (uint64_t number = 1; disk.exists(name); ++number) name = path + '.' + std::to_string(number);
  return name;
}

}  // namespace troupe
