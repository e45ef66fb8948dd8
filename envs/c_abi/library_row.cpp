#include "envs/c_abi/library_row.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "envs/observation_called.h"
#include "runtime/base/log.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

using F = LibraryFunction;

// A text of the library as one line without control characters.
std::string line_of(std::string text) {
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return printable(text, 250);
}

}  // namespace

void LibraryObject::Destroy::operator()(void* env) const noexcept {
  try {
    call_library(library->path(), F::destroy, [&] { library->destroy(env); });
  } catch (const std::exception& error) {
    log_warn("lib:" + library->path(), line_of(error.what()));
  }
}

LibraryObject::LibraryObject(const LibraryOptions& options)
    : library_(options.library),
      params_(options.params),
      names_(options.observations),
      mask_(options.mask_bytes),
      result_(sizeof(troupe_env_result)),
      env_(nullptr, Destroy{options.library}) {
  for (const size_t size : options.observation_bytes) observations_.emplace_back(size);
  for (GuardedBytes& bytes : observations_) addresses_.push_back(bytes.data());
}

void LibraryObject::require(int result, F function) const {
  if (result == 0) return;
  std::string error;
  if (library_->error != nullptr)
    error = call(F::error, [&] {
      const char* text = library_->error(env_.get());
      return std::string(text == nullptr ? "" : text);
    });
  if (!error.empty()) throw std::runtime_error(line_of(error));
  throw std::runtime_error(std::string(name_of(function)) + " returned " + std::to_string(result));
}

void LibraryObject::create() {
  GuardedBytes error(256);
  auto* text = reinterpret_cast<char*>(error.data());
  env_.reset(call(F::create, [&] { return library_->create(params_.c_str(), text, error.size()); }));
  error.require_intact(name_of(F::create), "error");
  text[error.size() - 1] = '\0';
  if (!env_) throw std::runtime_error("troupe_env_create failed: " + line_of(text));
}

// The environment, in which an episode has begun.
void* LibraryObject::episode() const {
  if (!env_) throw std::runtime_error("no episode has begun");
  return env_.get();
}

void LibraryObject::reset(uint64_t seed) {
  if (!env_) create();
  require(call(F::reset, [&] { return library_->reset(env_.get(), seed); }), F::reset);
}

RowStep LibraryObject::step(const void* action) {
  void* env = episode();
  std::fill_n(result_.data(), result_.size(), std::byte{0});
  auto* place = reinterpret_cast<troupe_env_result*>(result_.data());
  require(call(F::step, [&] { return library_->step(env, action, place); }), F::step);
  result_.require_intact(name_of(F::step), "result");
  return {.reward = place->reward,
          .terminated = place->terminated != 0,
          .success = place->success != 0,
          .truncated = place->truncated != 0};
}

void LibraryObject::observe(std::span<void* const> observations) {
  void* env = episode();
  require(call(F::observe, [&] { return library_->observe(env, addresses_.data()); }), F::observe);
  for (size_t k = 0; k < observations_.size(); ++k) {
    observations_[k].require_intact(name_of(F::observe), observation_called(names_[k]));
    std::memcpy(observations[k], observations_[k].data(), observations_[k].size());
  }
}

void LibraryObject::mask(std::span<uint8_t> allowed) {
  void* env = episode();
  auto* place = reinterpret_cast<uint8_t*>(mask_.data());
  require(call(F::mask, [&] { return library_->mask(env, place); }), F::mask);
  mask_.require_intact(name_of(F::mask), "allowed");
  std::copy_n(place, allowed.size(), allowed.begin());
}

GuardedBytes LibraryObject::written_by(F function, size_t least, size_t most) const {
  const auto write = [&](void* bytes, size_t size) {
    return call(function, [&] {
      return function == F::save ? library_->save(env_.get(), bytes, size)
                                 : library_->render(env_.get(), static_cast<char*>(bytes), size);
    });
  };
  const auto require_size = [&](size_t size) {
    if (size < least || size > most)
      throw std::runtime_error(std::string(name_of(function)) + " returned " +
                               std::to_string(static_cast<int64_t>(size)) + ", expected a number of bytes in [" +
                               std::to_string(least) + ", " + std::to_string(most) + ']');
  };
  const size_t size = write(nullptr, 0);
  require_size(size);
  GuardedBytes bytes(size);
  const size_t again = write(bytes.data(), size);
  bytes.require_intact(name_of(function), function == F::save ? "bytes" : "text");
  if (again != size)
    throw std::runtime_error(std::string(name_of(function)) + " returned " +
                             std::to_string(static_cast<int64_t>(again)) + " after " + std::to_string(size) +
                             ", expected the same number of bytes");
  return bytes;
}

// An environment that was never created has no bytes, so one that was must have some.
void LibraryObject::save(std::string& bytes) const {
  constexpr size_t kMost = 1 << 30;
  bytes.clear();
  if (!env_) return;
  GuardedBytes written = written_by(F::save, 1, kMost);
  bytes.assign(reinterpret_cast<const char*>(written.data()), written.size());
}

void LibraryObject::load(std::string_view bytes) {
  if (bytes.empty()) return env_.reset();
  if (!env_) create();
  require(call(F::load, [&] { return library_->load(env_.get(), bytes.data(), bytes.size()); }), F::load);
}

std::string LibraryObject::render() const {
  constexpr size_t kMost = 1 << 20;
  if (!env_ || library_->render == nullptr) return "\n";
  std::string text;
  try {
    GuardedBytes written = written_by(F::render, 0, kMost);
    text.assign(reinterpret_cast<const char*>(written.data()), written.size());
  } catch (const std::exception& error) {
    text = "lib:" + library_->path() + ": " + line_of(error.what());
  }
  return text.ends_with('\n') ? text : text + '\n';
}

}  // namespace troupe
