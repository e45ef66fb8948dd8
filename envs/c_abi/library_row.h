#pragma once
// LibraryRow: one environment of a shared library (envs/c_abi/library.h) as a row of Batched<> (envs/batched.h). The
// template parameters are what Batched<> has to know when it is compiled. One thread at a time.

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "envs/c_abi/library.h"
#include "envs/row.h"

namespace troupe {

struct LibraryOptions {
  std::shared_ptr<const EnvLibrary> library;
  std::string params;  // JSON object
};

// An environment of a library. Its functions throw std::runtime_error with the reason when the library reports failure.
class LibraryObject {
 public:
  // Creates the environment at the first reset.
  explicit LibraryObject(const LibraryOptions& options)
      : library_(options.library), params_(options.params), env_(nullptr, options.library->destroy) {}

  void reset(uint64_t seed);
  RowStep step(const void* action);
  void observe(std::span<void* const> observations) const;
  void mask(std::span<uint8_t> allowed) const;
  void save(std::string& bytes) const;
  void load(std::string_view bytes);
  std::string render() const;

 private:
  void create();
  void require(int result, const char* function) const;

  std::shared_ptr<const EnvLibrary> library_;
  std::string params_;
  std::unique_ptr<void, void (*)(void*)> env_;
};

template <class Number, bool Masked, bool Saved>
class LibraryRow {
 public:
  using Options = LibraryOptions;
  explicit LibraryRow(const Options& options) : object_(options) {}

  void reset(Rng& rng) { object_.reset(rng.next_u64()); }
  RowStep step(std::span<const Number> action, Rng&) { return object_.step(action.data()); }
  void observe(RowWriter out) const {
    out.addresses(addresses_);
    object_.observe(addresses_);
  }
  void mask(std::span<uint8_t> allowed) const
    requires Masked
  {
    object_.mask(allowed);
  }
  void save(std::string& bytes) const
    requires Saved
  {
    object_.save(bytes);
  }
  void load(std::string_view bytes)
    requires Saved
  {
    object_.load(bytes);
  }
  std::string render() const { return object_.render(); }

 private:
  LibraryObject object_;
  mutable std::vector<void*> addresses_;  // of the arrays that observe() writes
};

}  // namespace troupe
