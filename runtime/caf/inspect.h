#pragma once
// Serialization of troupe's plain types in CAF messages. Arrays are sent as one block of raw bytes; floating-point
// scalars are bit-cast (CAF 0.17.6 hangs or corrupts on infinities, NaN and denormals). Sizes are checked before memory
// is allocated, so a hostile peer gets an error.

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <caf/deserializer.hpp>
#include <caf/error.hpp>
#include <caf/meta/load_callback.hpp>
#include <caf/meta/save_callback.hpp>
#include <caf/meta/type_name.hpp>
#include <caf/sec.hpp>
#include <caf/serializer.hpp>

#include "runtime/base/array.h"
#include "runtime/base/errors.h"
#include "runtime/base/version.h"
#include "runtime/weights/process_group.h"
#include "runtime/weights/weights.h"

namespace troupe {

// No array in one message is larger than this; larger data travels in parts.
constexpr uint64_t kMaxArrayBytes = uint64_t{1} << 30;
constexpr uint32_t kMaxListSize = 1 << 20;

// A double on the wire.
struct WireDouble {
  double value = 0;
  WireDouble() = default;
  WireDouble(double v) : value(v) {}  // NOLINT: a transparent wrapper
  operator double() const { return value; }
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, WireDouble& x) {
  auto bits = std::bit_cast<uint64_t>(x.value);
  return f(bits, caf::meta::load_callback([&]() -> caf::error {
             x.value = std::bit_cast<double>(bits);
             return caf::none;
           }));
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, PolicyVersion& x) {
  return f(caf::meta::type_name("PolicyVersion"), x.epoch, x.number);
}

namespace detail {

// The extents as a vector, for the wire.
std::vector<int64_t> extents_of(const Shape& shape);
// Allocates an array of untrusted dtype and shape; false when they make no sense or are too large.
bool allocate_checked(uint8_t dtype, const std::vector<int64_t>& extents, Array& out);
// A tensor of untrusted group, dtype and shape; false when they make no sense.
bool describe_checked(uint8_t group, uint8_t dtype, const std::vector<int64_t>& extents, TensorSpec& out);

}  // namespace detail

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, Array& x) {
  if constexpr (std::is_base_of_v<caf::serializer, Inspector>) {
    auto dtype = static_cast<uint8_t>(x.dtype());
    auto extents = detail::extents_of(x.shape());
    if (auto err = f(dtype, extents)) return err;
    return x.bytes() == 0 ? caf::error{} : f.apply_raw(x.bytes(), x.mutable_data());
  } else if constexpr (std::is_base_of_v<caf::deserializer, Inspector>) {
    uint8_t dtype = 0;
    std::vector<int64_t> extents;
    if (auto err = f(dtype, extents)) return err;
    if (!detail::allocate_checked(dtype, extents, x)) return caf::sec::invalid_argument;
    return x.bytes() == 0 ? caf::error{} : f.apply_raw(x.bytes(), x.mutable_data());
  } else {
    auto text = std::string(name_of(x.dtype())) + x.shape().text();
    return f(caf::meta::type_name("Array"), text);
  }
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, Arrays& x) {
  if constexpr (std::is_base_of_v<caf::serializer, Inspector>) {
    auto count = static_cast<uint32_t>(x.size());
    if (auto err = f(count)) return err;
    for (auto& [name, array] : x)
      if (auto err = f(name, array)) return err;
    return caf::error{};
  } else if constexpr (std::is_base_of_v<caf::deserializer, Inspector>) {
    uint32_t count = 0;
    if (auto err = f(count)) return err;
    if (count > 1024) return caf::sec::invalid_argument;
    x.clear();
    for (uint32_t i = 0; i < count; ++i) {
      std::string name;
      Array array;
      if (auto err = f(name, array)) return err;
      x.set(std::move(name), std::move(array));
    }
    return caf::error{};
  } else {
    auto count = x.size();
    return f(caf::meta::type_name("Arrays"), count);
  }
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, TensorSpec& x) {
  auto group = static_cast<uint8_t>(x.group);
  auto dtype = static_cast<uint8_t>(x.dtype);
  auto extents = detail::extents_of(x.shape);
  return f(caf::meta::type_name("TensorSpec"), group, x.name, dtype, extents,
           caf::meta::load_callback([&]() -> caf::error {
             if (!detail::describe_checked(group, dtype, extents, x)) return caf::sec::invalid_argument;
             return caf::none;
           }));
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, Signature& x) {
  auto count = static_cast<uint32_t>(x.tensors.size());
  if constexpr (std::is_base_of_v<caf::serializer, Inspector> || std::is_base_of_v<caf::deserializer, Inspector>) {
    if (auto err = f(count)) return err;
    if (count > kMaxListSize) return caf::sec::invalid_argument;
    if constexpr (std::is_base_of_v<caf::deserializer, Inspector>) x.tensors.clear();
    for (uint32_t i = 0; i < count; ++i) {
      if (i == x.tensors.size()) x.tensors.emplace_back();
      if (auto err = f(x.tensors[i])) return err;
    }
    return caf::error{};
  } else {
    return f(caf::meta::type_name("Signature"), count);
  }
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, Rendezvous& x) {
  auto rank = static_cast<int32_t>(x.rank), size = static_cast<int32_t>(x.size);
  return f(caf::meta::type_name("Rendezvous"), x.host, x.port, x.generation, rank, size,
           caf::meta::load_callback([&]() -> caf::error {
             x.rank = rank;
             x.size = size;
             if (size < 1 || rank < 0 || rank >= size) return caf::sec::invalid_argument;
             return caf::none;
           }));
}

}  // namespace troupe
