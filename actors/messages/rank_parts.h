#pragma once
// What ranks say in the rounds of an update (models/shards/rank_round.h), as parts of messages.

#include <cstdint>
#include <optional>
#include <vector>

#include <caf/error.hpp>
#include <caf/meta/load_callback.hpp>
#include <caf/meta/type_name.hpp>
#include <caf/sec.hpp>

#include "models/shards/adam_moments.h"
#include "models/shards/rank_round.h"
#include "runtime/caf/inspect.h"

namespace troupe {

template <class I> typename I::result_type inspect(I& f, RoundPiece& x) {
  return f(caf::meta::type_name("RoundPiece"), x.round, x.piece);
}

template <class I> typename I::result_type inspect(I& f, ShardRange& x) {
  uint64_t first = x.first, count = x.count;
  return f(caf::meta::type_name("ShardRange"), first, count, caf::meta::load_callback([&]() -> caf::error {
             x = {first, count};
             return caf::none;
           }));
}

template <class I> typename I::result_type inspect(I& f, GradientBranch& x) {
  return f(caf::meta::type_name("GradientBranch"), x.shards, x.values);
}

// Numbers cross the network as arrays.
inline std::vector<Array> arrays_of(const std::vector<ShardNumbers>& numbers) {
  std::vector<Array> result;
  for (const ShardNumbers& each : numbers) result.push_back(Array::of(each));
  return result;
}
inline caf::error take_numbers(const std::vector<Array>& arrays, std::vector<ShardNumbers>& numbers) {
  numbers.clear();
  for (const Array& array : arrays) {
    if (array.dtype() != DType::f64) return caf::sec::invalid_argument;
    const auto each = array.view<double>();
    numbers.emplace_back(each.begin(), each.end());
  }
  return caf::none;
}

inline std::vector<Array> arrays_of(const std::optional<Array>& array) {
  return array ? std::vector<Array>{*array} : std::vector<Array>();
}
inline std::optional<Array> one_of(const std::vector<Array>& arrays) {
  return arrays.empty() ? std::optional<Array>() : arrays.front();
}

template <class I> typename I::result_type inspect(I& f, AdamMoments& x) {
  uint64_t begin = x.elements.begin, end = x.elements.end;
  return f(caf::meta::type_name("AdamMoments"), begin, end, x.first, x.second,
           caf::meta::load_callback([&]() -> caf::error {
             if (begin > end) return caf::sec::invalid_argument;
             for (const Array* each : {&x.first, &x.second})
               if (static_cast<uint64_t>(each->size()) != end - begin || (end > begin && each->dtype() != DType::f32))
                 return caf::sec::invalid_argument;
             x.elements = {begin, end};
             return caf::none;
           }));
}

template <class I> typename I::result_type inspect(I& f, RankPart& x) {
  std::vector<Array> numbers = arrays_of(x.numbers), own = arrays_of(x.own);
  return f(caf::meta::type_name("RankPart"), x.shards, x.branches, x.data, numbers, own, caf::meta::load_callback([&] {
             x.own = one_of(own);
             return take_numbers(numbers, x.numbers);
           }));
}

template <class I> typename I::result_type inspect(I& f, RoundResult& x) {
  std::vector<Array> numbers = arrays_of(x.numbers), own = arrays_of(x.own);
  return f(caf::meta::type_name("RoundResult"), x.gradients, x.data, numbers, own, caf::meta::load_callback([&] {
             x.own = one_of(own);
             return take_numbers(numbers, x.numbers);
           }));
}

}  // namespace troupe
