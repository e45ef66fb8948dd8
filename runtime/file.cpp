#include "runtime/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace troupe {

namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";

std::string error_line(const std::string& path, const std::string& problem, int error_number) {
  std::string line = path + ": " + problem;
  if (error_number != 0) line += ": " + std::generic_category().message(error_number);
  return line;
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// An open file descriptor, closed at the end of its scope.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, const char* problem) : path_(path) {
    do fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
    while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0) throw IoError(path, problem, errno);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  const std::string& path() const { return path_; }

  void write_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw IoError(path_, "cannot write", errno);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }

  void sync() const {
    if (::fsync(fd_) != 0) throw IoError(path_, "cannot sync", errno);
  }

  // Closes now and reports what only close() can know (a full network file system).
  void close() {
    if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) throw IoError(path_, "cannot close", errno);
  }

 private:
  std::string path_;
  int fd_ = -1;
};

// Makes a rename or a new name in `directory` survive a power cut. File systems that cannot sync a directory say EINVAL.
void sync_directory(const std::string& directory) {
  const Descriptor descriptor(directory, O_RDONLY | O_DIRECTORY, "cannot open directory");
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL) throw IoError(directory, "cannot sync directory", errno);
}

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

  Descriptor file_;
  off_t torn_at_ = -1;  // where a part of a failed write begins that could not be cut off; -1 = nowhere
};

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(const std::string& path) : file_(path, O_RDWR | O_CREAT, "cannot open") {
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) throw IoError(path, "cannot lock", errno);
      throw IoError(path, "in use by " + owner());
    }
    if (::ftruncate(file_.get(), 0) != 0) throw IoError(path, "cannot write", errno);
    file_.write_all(std::to_string(::getpid()) + '\n');
  }

 private:
  std::string owner() const {
    char text[32] = {};
    const ssize_t size = ::pread(file_.get(), text, sizeof text - 1, 0);
    const long pid = size > 0 ? std::strtol(text, nullptr, 10) : 0;
    return pid > 0 ? "process " + std::to_string(pid) : "another process";
  }

  Descriptor file_;
};

class PosixDisk final : public Disk {
 public:
  std::string read(const std::string& path) const override {
    const Descriptor file(path, O_RDONLY, "cannot open");
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) throw IoError(path, "cannot read", errno);
    if (S_ISDIR(status.st_mode)) throw IoError(path, "cannot read", EISDIR);
    std::string bytes(static_cast<size_t>(std::max<off_t>(status.st_size, 0)) + 1, '\0');
    size_t size = 0;
    while (true) {  // until the end of the file: the size may be unknown (/proc) or change
      const ssize_t got = ::read(file.get(), bytes.data() + size, bytes.size() - size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw IoError(path, "cannot read", errno);
      if (got == 0) break;
      size += static_cast<size_t>(got);
      if (size == bytes.size()) bytes.resize(2 * bytes.size());
    }
    bytes.resize(size);
    return bytes;
  }

  void write_atomic(const std::string& path, std::span<const std::string_view> parts) override {
    const std::string temporary = temporary_name(path);
    try {
      Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC, "cannot open");
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
    std::filesystem::remove_all(path, error);
    if (error) throw IoError(path, "cannot remove", error.value());
  }

  void make_directory(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) throw IoError(path, "cannot make directory", error.value());
  }

  bool exists(const std::string& path) const override { return ::access(path.c_str(), F_OK) == 0; }

  std::vector<std::string> list(const std::string& path) const override {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
      names.push_back(it->path().filename().string());
    if (error && error != std::errc::no_such_file_or_directory) throw IoError(path, "cannot list", error.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::unique_ptr<FileLock> lock(const std::string& path) override { return std::make_unique<PosixFileLock>(path); }
};

}  // namespace

IoError::IoError(const std::string& path, const std::string& problem, int error_number)
    : std::runtime_error(error_line(path, problem, error_number)), error_number_(error_number) {}

Disk& posix_disk() {
  static PosixDisk disk;
  return disk;
}

std::string temporary_name(const std::string& path) { return path + std::string(kTemporarySuffix); }

bool is_temporary_name(std::string_view name) { return name.ends_with(kTemporarySuffix); }

}  // namespace troupe
