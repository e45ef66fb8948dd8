#include "envs/c_abi/library_row.h"

#include <algorithm>
#include <array>

#include "runtime/base/suggest.h"

namespace troupe {

namespace {

// A text of the library as one line without control characters.
std::string line_of(std::string text) {
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return printable(text, 250);
}

}  // namespace

void LibraryObject::require(int result, const char* function) const {
  if (result == 0) return;
  const char* error = library_->error != nullptr ? library_->error(env_.get()) : nullptr;
  if (error != nullptr && *error != '\0') throw std::runtime_error(line_of(error));
  throw std::runtime_error(std::string(function) + " returned " + std::to_string(result));
}

void LibraryObject::create() {
  std::array<char, 256> error{};
  env_.reset(library_->create(params_.c_str(), error.data(), error.size()));
  error.back() = '\0';
  if (!env_) throw std::runtime_error("troupe_env_create failed: " + line_of(error.data()));
}

void LibraryObject::reset(uint64_t seed) {
  if (!env_) create();
  require(library_->reset(env_.get(), seed), "troupe_env_reset");
}

RowStep LibraryObject::step(const void* action) {
  troupe_env_result result{};
  require(library_->step(env_.get(), action, &result), "troupe_env_step");
  return {.reward = result.reward,
          .terminated = result.terminated != 0,
          .success = result.success != 0,
          .truncated = result.truncated != 0};
}

void LibraryObject::observe(std::span<void* const> observations) const {
  require(library_->observe(env_.get(), observations.data()), "troupe_env_observe");
}

void LibraryObject::mask(std::span<uint8_t> allowed) const {
  require(library_->mask(env_.get(), allowed.data()), "troupe_env_mask");
}

void LibraryObject::save(std::string& bytes) const {
  bytes.clear();
  if (!env_) return;
  size_t size = library_->save(env_.get(), nullptr, 0);
  bytes.resize(size);
  size = library_->save(env_.get(), bytes.data(), bytes.size());
  if (size != bytes.size())
    throw std::runtime_error("troupe_env_save returned " + std::to_string(size) + " bytes after " +
                             std::to_string(bytes.size()));
}

void LibraryObject::load(std::string_view bytes) {
  if (bytes.empty()) return env_.reset();
  if (!env_) create();
  require(library_->load(env_.get(), bytes.data(), bytes.size()), "troupe_env_load");
}

std::string LibraryObject::render() const {
  std::string text;
  if (env_ && library_->render != nullptr) {
    text.resize(library_->render(env_.get(), nullptr, 0));
    text.resize(std::min(text.size(), library_->render(env_.get(), text.data(), text.size())));
  }
  return text.ends_with('\n') ? text : text + '\n';
}

}  // namespace troupe
