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
    if (files.count(path) > 0 || directories.count(path) > 0) return true;
    const auto inside = files.lower_bound(path + '/');
    return inside != files.end() && inside->first.starts_with(path + '/');
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
  const std::string temporary = temporary_name(path);
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
  contents_->files.erase(temporary);
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
  if (contents_->directories.erase(from) > 0) contents_->directories.insert(to);
  contents_->sync_directory(to);
}

void MemoryDisk::remove(const std::string& path) {
  const MutexLock guard(contents_->mutex);
  const auto inside = [&](const std::string& name) { return name == path || name.starts_with(path + '/'); };
  // Removing a directory takes several steps: a crash leaves everything after its first file.
  if (contents_->crashes_now(path)) {
    const auto first =
        std::find_if(contents_->files.begin(), contents_->files.end(), [&](auto& f) { return inside(f.first); });
    if (first != contents_->files.end()) contents_->files.erase(first);
    Contents::crash(path);
  }
  std::erase_if(contents_->files, [&](const auto& file) { return inside(file.first); });
  std::erase_if(contents_->directories, inside);
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
