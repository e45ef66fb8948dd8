#pragma once
// Serialization of objects behind shared pointers in CAF messages: the objects themselves.

#include <memory>

#include "runtime/caf/inspect.h"

namespace troupe {

// A pointer on the wire, which must not be null.
template <class T>
struct WireShared {
  std::shared_ptr<const T> object;

  template <class I> friend typename I::result_type inspect(I& f, WireShared& x) {
    if constexpr (I::writes_state) {
      auto object = std::make_shared<T>();
      if (auto err = f(*object)) return err;
      x.object = std::move(object);
      return caf::error{};
    } else {
      return f(const_cast<T&>(*x.object));
    }
  }
};

}  // namespace troupe
