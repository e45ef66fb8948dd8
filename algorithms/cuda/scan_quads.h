#pragma once
// Reading and writing along rows, [B, T] or packed: a thread processes four adjacent steps, a quad. Arrays may have any
// alignment. Tiles begin where a quad of the second output is aligned, so that it is written as 16 bytes; inputs that
// are aligned there too, as in most tasks, are read as 16 bytes. Internal to algorithms/cuda/.

#include <type_traits>

#include "algorithms/cuda/look_back.h"

namespace troupe::cuda {

// The location of one sequence; its elements are counted from its first step.
struct RowPlace {
  int64_t row;    // row of memory
  int64_t start;  // first element of the sequence within that row
  int64_t steps;
  int64_t origin;  // element at which its first tile begins: 0 to -3
};

TROUPE_RULE int64_t tiles_of(const RowPlace& p, int steps_of_tile) {
  return (p.steps - p.origin + steps_of_tile - 1) / steps_of_tile;
}

TROUPE_RULE float* address_of(float* output, int64_t stride, const RowPlace& p, int64_t element) {
  return output + (p.row * stride + p.start + element);
}

TROUPE_RULE RowPlace row_place(const DeviceScan& k, int64_t sequence) {
  RowPlace p{sequence, 0, k.steps, 0};
  if (k.offsets) p = {0, k.offsets[sequence], k.offsets[sequence + 1] - k.offsets[sequence], 0};
  const auto second = reinterpret_cast<uintptr_t>(address_of(k.second, k.second_stride, p, 0));
  p.origin = -static_cast<int64_t>(second / sizeof(float) % kQuad);
  return p;
}

TROUPE_RULE const unsigned char* address_of(const DeviceArray& array, const RowPlace& p, int64_t element) {
  return array.data + (p.row * array.stride + p.start + element) * array.size;
}

template <class Rule>
TROUPE_RULE State state_beyond_row(const DeviceScan& k, int64_t sequence, const RowPlace& p) {
  const DeviceArray& next = k.inputs[kNext];
  return state_beyond<Rule>(k, sequence, next.data ? address_of(next, p, p.steps - 1) : nullptr);
}

struct alignas(16) Four {
  float x[kQuad];
};

// How a tile can be read. A tile is clean if each of its quads exists completely or not at all.
enum class Form : uint8_t {
  any,     // element by element
  floats,  // clean, all numbers float32 and aligned: 16 bytes at a time
  halves,  // the same with bfloat16, 8 bytes
};

// Whether each quad of the tile that begins at `begin` exists completely or not at all.
TROUPE_RULE bool clean_tile(const RowPlace& p, int64_t begin, int steps_of_tile) {
  return begin >= 0 && (begin + steps_of_tile <= p.steps || ((p.steps - begin) & (kQuad - 1)) == 0);
}

// The form of a sequence's clean tiles.
template <class Rule, StepMode kMode>
TROUPE_RULE Form form_of(const DeviceScan& k, const RowPlace& p) {
  const int size = k.inputs[kReward].size;
  bool same = true;
  TROUPE_UNROLL
  for (int a = 0; a < kInputs; ++a) {
    const DeviceArray& array = k.inputs[a];
    if (!reads<Rule, kMode>(a) || !array.data) continue;
    const auto at = reinterpret_cast<uintptr_t>(address_of(array, p, p.origin));
    const int bytes = a < kFloatInputs ? kQuad * size : kQuad;
    same = same && (a >= kFloatInputs || array.size == size) && (at & static_cast<uintptr_t>(bytes - 1)) == 0;
  }
  return !same ? Form::any : size == 4 ? Form::floats : Form::halves;
}

template <Form kForm>
using FormConstant = std::integral_constant<Form, kForm>;
template <Form kForm>
inline constexpr bool kClean = kForm != Form::any;

// Four elements as they are in memory.
struct Quad {
  uint32_t words[kQuad];
};

// The elements that exist; the others are 0.
TROUPE_RULE Quad load_elements(const unsigned char* at, int size, uint32_t there) {
  Quad quad{};
  TROUPE_UNROLL
  for (int i = 0; i < kQuad; ++i) {
    if (!has(there, i)) continue;
    if (size == 4) {
      quad.words[i] = load_word<uint32_t>(at + 4 * i);
    } else if (size == 2) {
      quad.words[i / 2] |= uint32_t{load_word<uint16_t>(at + 2 * i)} << 16 * (i % 2);
    } else {
      quad.words[0] |= uint32_t{at[i]} << 8 * i;
    }
  }
  return quad;
}

TROUPE_RULE void numbers_of(const Quad& quad, int size, float (&to)[kQuad]) {
  TROUPE_UNROLL
  for (int i = 0; i < kQuad; ++i)
    to[i] = float_of_bits(size == 4    ? quad.words[i]
                          : i % 2 == 0 ? quad.words[i / 2] << 16
                                       : quad.words[i / 2] & 0xffff0000u);
}

TROUPE_RULE uint32_t flags_of(const Quad& quad) {
  const uint32_t word = quad.words[0];
  const uint32_t set = (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u;  // the high bit of each byte
  return (set >> 7) * 0x10204080u >> 28;                                             // moved to bits 0 to 3
}

// The inputs of a quad before any of them is used, so that all loads are in flight together.
struct RawQuad {
  Quad inputs[kInputs];
  uint32_t there;
  int last;  // as in Surroundings
  bool has_later;
  uint32_t later_value, later_live;  // one element each
};

// The address is not used if the array is absent.
TROUPE_RULE const unsigned char* displaced(const unsigned char* data, int64_t bytes) {
  return reinterpret_cast<const unsigned char*>(reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes));
}

template <class Rule, StepMode kMode, Form kForm, class Thread>
TROUPE_RULE RawQuad load_raw(Thread& thread, const DeviceScan& k, const RowPlace& p, const LaneGroup& group,
                             int64_t element) {
  constexpr int kSize = kForm == Form::halves ? 2 : 4;
  RawQuad raw;
  const int64_t left = p.steps - element;  // steps from here to the end
  raw.last = left <= kQuad ? static_cast<int>(left - 1) : kQuad;
  raw.has_later = left > kQuad && element + kQuad >= 0;
  if constexpr (kClean<kForm>) {
    raw.there = element >= 0 && left >= kQuad ? (1u << kQuad) - 1 : 0;
  } else {
    const int low = element >= 0 ? 0 : element > -kQuad ? static_cast<int>(-element) : kQuad;
    const int high = left >= kQuad ? kQuad : left > 0 ? static_cast<int>(left) : 0;
    raw.there = ((1u << high) - 1) & ~((1u << low) - 1);
  }
  TROUPE_UNROLL
  for (int a = 0; a < kInputs; ++a) {
    if (!reads<Rule, kMode>(a)) continue;
    const DeviceArray& array = k.inputs[a];
    const bool given = array.data != nullptr;
    const bool value = a == kValue && !kSkips<kMode>, mask = a == kMask && !kSkips<kMode>;
    const bool later = given && raw.has_later && (mask || group.lane + 1 == group.lanes);
    if constexpr (!kClean<kForm>) {
      const unsigned char* at = given ? address_of(array, p, element) : nullptr;
      if (given) raw.inputs[a] = load_elements(at, a < kFloatInputs ? array.size : 1, raw.there);
      if (value) raw.later_value = later ? bits_of_float(load_number(at + kQuad * array.size, array.size)) : 0;
      if (mask) raw.later_live = later ? at[kQuad] : 0;
    } else if (a < kFloatInputs) {
      const int64_t at = (p.row * array.stride + p.start + element) * kSize;
      thread.template load<kQuad * kSize>(displaced(array.data, at), raw.inputs[a].words, given && raw.there != 0);
      if (value) thread.template load<kSize>(displaced(array.data, at + kQuad * kSize), &raw.later_value, later);
    } else {
      const int64_t at = p.row * array.stride + p.start + element;
      thread.template load<kQuad>(displaced(array.data, at), raw.inputs[a].words, given && raw.there != 0);
      if (mask) thread.template load<1>(displaced(array.data, at + kQuad), &raw.later_live, later);
    }
  }
  return raw;
}

template <Form kForm>
TROUPE_RULE void numbers_of(const DeviceScan& k, const RawQuad& raw, Input input, float (&to)[kQuad]) {
  const int size = kForm == Form::floats ? 4 : kForm == Form::halves ? 2 : k.inputs[input].size;
  numbers_of(raw.inputs[input], size, to);
}

// V of the next unmasked step after each quad of a group of lanes. `beyond`: V of the next one after the group; becomes
// V of the next one from the group's first step on. Called by a whole warp.
template <Form kForm, class Thread>
TROUPE_RULE float follow(Thread& thread, const DeviceScan& k, const LaneGroup& group, const RawQuad& raw,
                         float& beyond) {
  float values[kQuad];
  numbers_of<kForm>(k, raw, kValue, values);
  const uint32_t live = flags_of(raw.inputs[kMask]) & raw.there;
  float own = 0;
  TROUPE_UNROLL
  for (int i = kQuad - 1; i >= 0; --i)
    if (has(live, i)) own = values[i];
  const uint32_t all = (group.lanes == kLanes ? ~0u : (1u << group.lanes) - 1) << group.first;
  const uint32_t with_value = thread.ballot(live != 0) & all;
  const uint32_t after = with_value & ~((2u << thread.lane()) - 1);
  const float next = thread.shuffle(own, after != 0 ? thread.first_bit(after) : 0);
  const float first = thread.shuffle(own, with_value != 0 ? thread.first_bit(with_value) : 0);
  const float followed = after != 0 ? next : beyond;
  if (with_value != 0) beyond = first;
  return followed;
}

// Called by a whole warp. followed: with k.follow, V of the next unmasked step after the quad.
template <class Rule, StepMode kMode, Form kForm, class Thread>
TROUPE_RULE Run<kQuad> run_of(Thread& thread, const DeviceScan& k, const LaneGroup& group, const RawQuad& raw,
                              float beyond, float followed) {
  const auto numbers = [&](Input input, float(&to)[kQuad]) { numbers_of<kForm>(k, raw, input, to); };
  Surroundings around{raw.last, beyond, 0, true};
  if constexpr (Rule::kValues && !kSkips<kMode>) {
    float values[kQuad];
    numbers(kValue, values);
    around.later_value = thread.shuffle_down(values[0], 1);
    if (group.lane + 1 == group.lanes)
      around.later_value = float_of_bits(kForm == Form::halves ? raw.later_value << 16 : raw.later_value);
    if (kMode != StepMode::plain && k.follow) around.later_value = followed;
  }
  if constexpr (kMode != StepMode::plain && !kSkips<kMode>)
    around.later_live = !raw.has_later || (raw.later_live & 0xff) != 0;
  return make_run<Rule, kMode, kClean<kForm>, kQuad>(k, raw.there, around, numbers,
                                                     [&](Input input) { return flags_of(raw.inputs[input]); });
}

// Writes the results of a quad; `state` is the state beyond it.
template <class Rule, StepMode kMode, Form kForm, class Thread>
TROUPE_RULE void finish_quad(Thread& thread, const DeviceScan& k, const RowPlace& p, const Run<kQuad>& run,
                             int64_t element, State state) {
  if (run.there == 0) return;
  Four first, second;
  TROUPE_UNROLL
  for (int i = kQuad - 1; i >= 0; --i) {
    if (!exists<kClean<kForm>>(run, i)) continue;
    const RuleResult<ScalarLane> result = finish_step<Rule, kMode>(k, run, i, state);
    first.x[i] = result.first;
    second.x[i] = result.second;
  }
  const auto write = [&](float* to, const Four& four) {
    if (kClean<kForm> && reinterpret_cast<uintptr_t>(to) % sizeof(Four) == 0) {
      thread.store_streaming(to, four);
      return;
    }
    TROUPE_UNROLL
    for (int i = 0; i < kQuad; ++i)
      if (exists<kClean<kForm>>(run, i)) thread.store_streaming(to + i, four.x[i]);
  };
  if constexpr (Rule::kFirst) write(address_of(k.first, k.first_stride, p, element), first);
  write(address_of(k.second, k.second_stride, p, element), second);
}

}  // namespace troupe::cuda
