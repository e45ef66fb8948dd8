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

#include "envs/c_abi/guarded_bytes.h"
#include "envs/c_abi/library.h"
#include "envs/c_abi/library_call.h"
#include "envs/row.h"

namespace troupe {

struct LibraryOptions {
  std::shared_ptr<const EnvLibrary> library;
  std::string params;                     // JSON object
  std::vector<std::string> observations;  // the names
  std::vector<size_t> observation_bytes;  // of one row
  size_t mask_bytes = 0;
};

// An environment of a library. Its functions throw std::runtime_error with the reason when the library reports failure,
// throws, or writes beyond the memory that it was given.
class LibraryObject {
 public:
  // Creates the environment at the first reset.
  explicit LibraryObject(const LibraryOptions& options);

  void reset(uint64_t seed);
  RowStep step(const void* action);
  void observe(std::span<void* const> observations);
  void mask(std::span<uint8_t> allowed);
  void save(std::string& bytes) const;
  void load(std::string_view bytes);
  // The text that the library draws, or why it does not.
  std::string render() const;

 private:
  struct Destroy {
    std::shared_ptr<const EnvLibrary> library;
    void operator()(void* env) const noexcept;
  };

  void create();
  void* episode() const;
  void require(int result, LibraryFunction function) const;
  template <class Body>
  auto call(LibraryFunction function, Body body) const {
    return call_library(library_->path(), function, std::move(body));
  }
  // The bytes that `function` writes: it is asked for their number first.
  GuardedBytes written_by(LibraryFunction function, size_t least, size_t most) const;

  std::shared_ptr<const EnvLibrary> library_;
  std::string params_;
  std::vector<std::string> names_;          // of observations
  std::vector<GuardedBytes> observations_;  // what the library wrote last
  std::vector<void*> addresses_;            // of their bytes
  GuardedBytes mask_, result_;
  std::unique_ptr<void, Destroy> env_;
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
  mutable LibraryObject object_;          // its buffers change when it is asked
  mutable std::vector<void*> addresses_;  // of the arrays that observe() writes
};

}  // namespace troupe
