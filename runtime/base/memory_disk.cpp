#include "runtime/base/memory_disk.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "runtime/base/mutex.h"

namespace troupe {

// Paths are plain strings without "." and ".." parts. A directory exists if it was made or contains a file.
struct MemoryDisk::Contents {
  Mutex mutex;
  std::map<std::string, std::string> files TROUPE_GUARDED_BY(mutex);
  std::set<std::string> directories TROUPE_GUARDED_BY(mutex);
  std::set<std::string> locks TROUPE_GUARDED_BY(mutex);
  std::optional<DiskFault> fault TROUPE_GUARDED_BY(mutex);
  uint64_t operations TROUPE_GUARDED_BY(mutex) = 0;
  bool unsynced TROUPE_GUARDED_BY(mutex) = false;  // the last counted operation must fail to sync

  // Counts an operation on `path`; throws if the operation has to fail. Returns true if the process has to crash in it:
  // then the caller does half of the operation and calls crash().
  bool crashes_now(const std::string& path) TROUPE_REQUIRES(mutex) {
    const uint64_t index = operations++;
    unsynced = false;
    if (!fault || index < fault->first) return false;
    if (fault->kind == DiskFault::Kind::unsynced) {
      unsynced = index < fault->first + fault->count;
      return false;
    }
    if (fault->kind == DiskFault::Kind::refuse) {
      if (index < fault->first + fault->count) throw IoError(path, "cannot write", ENOSPC);
      return false;
    }
    if (index > fault->first) crash(path);
    return true;
  }
  [[noreturn]] static void crash(const std::string& path) { throw IoError(path, "cannot write", EIO); }
  void count(const std::string& path) TROUPE_REQUIRES(mutex) {
    if (crashes_now(path)) crash(path);
  }

  // The end of a rename or an atomic write: syncs the directory of `path`.
  void sync_directory(const std::string& path) TROUPE_REQUIRES(mutex) {
    if (std::exchange(unsynced, false)) throw IoError(path, "cannot sync directory", EIO);
  }

  const std::string& file(const std::string& path) const TROUPE_REQUIRES(mutex) {
    const auto found = files.find(path);
    if (found == files.end()) throw IoError(path, "cannot open", ENOENT);
    return found->second;
  }

  bool exists(const std::string& path) const TROUPE_REQUIRES(mutex) {
    return files.count(path) > 0 || directories.count(path) > 0 || holds_something(path);
  }

  bool holds_something(const std::string& path) const TROUPE_REQUIRES(mutex) {
    const auto file = files.lower_bound(path + '/');
    const auto directory = directories.lower_bound(path + '/');
    return (file != files.end() && file->first.starts_with(path + '/')) ||
           (directory != directories.end() && directory->starts_with(path + '/'));
  }

  void remove(const std::string& path) TROUPE_REQUIRES(mutex) {
    if (holds_something(path)) throw IoError(path, "cannot remove", ENOTEMPTY);
    files.erase(path);
    directories.erase(path);
  }
};

class MemoryDisk::Read final : public ReadFile {
 public:
  explicit Read(std::string bytes) : bytes_(std::move(bytes)) {}

  uint64_t size() const override { return bytes_.size(); }
  std::string read(uint64_t offset, uint64_t count) const override {
    return offset < bytes_.size() ? bytes_.substr(offset, count) : std::string();
  }

 private:
  std::string bytes_;
};

class MemoryDisk::Append final : public AppendFile {
 public:
  Append(std::shared_ptr<Contents> contents, std::string path)
      : contents_(std::move(contents)), path_(std::move(path)) {}

  void append(std::string_view bytes) override {
    const MutexLock guard(contents_->mutex);
    const bool crashes = contents_->crashes_now(path_);
    contents_->files[path_] += crashes ? bytes.substr(0, bytes.size() / 2) : bytes;
    if (crashes) Contents::crash(path_);
  }

 private:
  std::shared_ptr<Contents> contents_;
  std::string path_;
};

class MemoryDisk::Lock final : public FileLock {
 public:
  Lock(std::shared_ptr<Contents> contents, std::string path) : contents_(std::move(contents)), path_(std::move(path)) {}
  ~Lock() override {
    const MutexLock guard(contents_->mutex);
    contents_->locks.erase(path_);
  }

  void check() const override {
    const MutexLock guard(contents_->mutex);
    if (contents_->files.count(path_) == 0)
      throw LockLost(path_, "was removed or renamed while this process was using it");
  }

 private:
  std::shared_ptr<Contents> contents_;
  std::string path_;
};

MemoryDisk::MemoryDisk() : contents_(std::make_shared<Contents>()) {}
MemoryDisk::~MemoryDisk() = default;

std::unique_ptr<ReadFile> MemoryDisk::open_read(const std::string& path) const {
  const MutexLock guard(contents_->mutex);
  return std::make_unique<Read>(contents_->file(path));
}

void MemoryDisk::write_atomic(const std::string& path, std::span<const std::string_view> parts) {
  std::string bytes;
  for (std::string_view part : parts) bytes += part;
  const std::string temporary = free_temporary_name(*this, path);
  const MutexLock guard(contents_->mutex);
  if (contents_->crashes_now(path)) {
    contents_->files[temporary] = bytes.substr(0, bytes.size() / 2);
    Contents::crash(path);
  }
  if (contents_->crashes_now(path)) {
    contents_->files[temporary] = bytes;
    Contents::crash(path);
  }
  contents_->files[path] = std::move(bytes);
  contents_->sync_directory(path);
}

std::unique_ptr<AppendFile> MemoryDisk::open_append(const std::string& path) {
  const MutexLock guard(contents_->mutex);
  contents_->count(path);
  contents_->files[path];
  return std::make_unique<Append>(contents_, path);
}

void MemoryDisk::truncate(const std::string& path, uint64_t bytes) {
  const MutexLock guard(contents_->mutex);
  contents_->count(path);
  contents_->file(path);
  contents_->files[path].resize(bytes);
}

void MemoryDisk::rename(const std::string& from, const std::string& to) {
  const MutexLock guard(contents_->mutex);
  contents_->count(from);
  if (!contents_->exists(from)) throw IoError(from, "cannot rename to " + to, ENOENT);
  const bool is_file = contents_->files.count(from) > 0;
  if (contents_->exists(to) && !(is_file && contents_->files.count(to) > 0))
    throw IoError(from, "cannot rename to " + to, ENOTEMPTY);
  std::map<std::string, std::string> files;
  for (auto& [path, bytes] : contents_->files) {
    const bool moves = path == from || path.starts_with(from + '/');
    if (moves || path != to) files[moves ? to + path.substr(from.size()) : path] = std::move(bytes);
  }
  contents_->files = std::move(files);
  std::set<std::string> directories;
  for (const std::string& path : contents_->directories) {
    const bool moves = path == from || path.starts_with(from + '/');
    directories.insert(moves ? to + path.substr(from.size()) : path);
  }
  contents_->directories = std::move(directories);
  contents_->sync_directory(to);
}

void MemoryDisk::remove(const std::string& path) {
  const MutexLock guard(contents_->mutex);
  contents_->count(path);
  contents_->remove(path);
}

bool MemoryDisk::remove_directory(const std::string& path, std::span<const std::string> names) {
  const MutexLock guard(contents_->mutex);
  if (!contents_->exists(path)) return true;
  if (contents_->files.count(path) > 0) return false;
  contents_->directories.insert(path);  // it is still there when its last file is gone
  const bool crashes = contents_->crashes_now(path);
  for (const std::string& name : names)
    // A crash leaves everything after the first file.
    if (contents_->files.erase(path + '/' + name) > 0 && crashes) Contents::crash(path);
  if (crashes) Contents::crash(path);
  if (contents_->holds_something(path)) return false;
  contents_->directories.erase(path);
  return true;
}

void MemoryDisk::make_directory(const std::string& path) {
  const MutexLock guard(contents_->mutex);
  contents_->count(path);
  contents_->directories.insert(path);
}

bool MemoryDisk::exists(const std::string& path) const {
  const MutexLock guard(contents_->mutex);
  return contents_->exists(path);
}

std::vector<std::string> MemoryDisk::list(const std::string& path) const {
  const MutexLock guard(contents_->mutex);
  std::set<std::string> names;
  const std::string prefix = path + '/';
  const auto add = [&](const std::string& name) {
    if (name.starts_with(prefix))
      names.insert(name.substr(prefix.size(), name.find('/', prefix.size()) - prefix.size()));
  };
  for (const auto& file : contents_->files) add(file.first);
  for (const auto& directory : contents_->directories) add(directory);
  return {names.begin(), names.end()};
}

std::unique_ptr<FileLock> MemoryDisk::lock(const std::string& path) {
  const MutexLock guard(contents_->mutex);
  contents_->count(path);
  if (!contents_->locks.insert(path).second)
    throw IoError(path, "another process is using this folder; end it first, or use another folder");
  contents_->files[path];
  return std::make_unique<Lock>(contents_, path);
}

void MemoryDisk::set_fault(DiskFault fault) {
  const MutexLock guard(contents_->mutex);
  contents_->fault = fault;
}

void MemoryDisk::clear_fault() {
  const MutexLock guard(contents_->mutex);
  if (contents_->fault && contents_->fault->kind == DiskFault::Kind::crash) contents_->locks.clear();
  contents_->fault.reset();
  contents_->unsynced = false;
}

uint64_t MemoryDisk::operations() const {
  const MutexLock guard(contents_->mutex);
  return contents_->operations;
}

void MemoryDisk::damage(const std::string& path, std::string bytes) {
  const MutexLock guard(contents_->mutex);
  contents_->files[path] = std::move(bytes);
}

}  // namespace troupe
