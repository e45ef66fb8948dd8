#pragma once
// The kernels along rows, [B, T] or packed: a thread processes four adjacent steps, a quad; a warp 128 of them. Arrays
// may have any alignment. Tiles begin where a quad of the second output is aligned, so that it is written as 16 bytes;
// inputs that are aligned there too, as in most tasks, are read as 16 bytes. Internal to algorithms/cuda/.

#include <type_traits>

#include "algorithms/cuda/look_back.h"

namespace troupe::cuda {

// The location of one sequence; its elements are counted from its first step.
struct RowPlace {
  int64_t row;    // row of memory
  int64_t start;  // first element of the sequence within that row
  int64_t steps;
  int64_t origin;  // element at which its first tile begins: 0 to -3
  float *first, *second;
};

TROUPE_RULE int64_t tiles_of(const RowPlace& p, int steps_of_tile) {
  return (p.steps - p.origin + steps_of_tile - 1) / steps_of_tile;
}

TROUPE_RULE RowPlace row_place(const DeviceScan& k, int64_t sequence) {
  RowPlace p{sequence, 0, k.steps, 0, nullptr, nullptr};
  if (k.offsets) p = {0, k.offsets[sequence], k.offsets[sequence + 1] - k.offsets[sequence], 0, nullptr, nullptr};
  if (k.first) p.first = k.first + p.row * k.first_stride + p.start;
  p.second = k.second + p.row * k.second_stride + p.start;
  p.origin = -static_cast<int64_t>(reinterpret_cast<uintptr_t>(p.second) / 4 % kQuad);
  return p;
}

// Whether each quad of the tile that begins at `begin` exists completely or not at all.
TROUPE_RULE bool clean_tile(const RowPlace& p, int64_t begin, int steps_of_tile) {
  return begin >= 0 && (begin + steps_of_tile <= p.steps || ((p.steps - begin) & (kQuad - 1)) == 0);
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

// Four elements as they are in memory.
struct Quad {
  uint32_t words[kQuad];
};

// The elements that exist; the others are 0. All loads of a clean quad are independent of each other.
template <bool kClean, class Thread>
TROUPE_RULE Quad load_quad(Thread& thread, const unsigned char* at, int size, uint32_t there) {
  Quad quad{};
  if (there == 0) return quad;
  if (kClean && (reinterpret_cast<uintptr_t>(at) & static_cast<uintptr_t>(kQuad * size - 1)) == 0) {
    if (size == 4) {
      thread.template load_words<4>(at, quad.words);
    } else if (size == 2) {
      thread.template load_words<2>(at, quad.words);
    } else {
      thread.template load_words<1>(at, quad.words);
    }
    return quad;
  }
  TROUPE_UNROLL
  for (int i = 0; i < kQuad; ++i) {
    if (!kClean && !has(there, i)) continue;
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
  Surroundings around;
};

template <class Rule, StepMode kMode, bool kClean, class Thread>
TROUPE_RULE RawQuad load_raw(Thread& thread, const DeviceScan& k, const RowPlace& p, const LaneGroup& group,
                             int64_t element, float beyond) {
  RawQuad raw;
  const int64_t left = p.steps - element;  // steps from here to the end
  if constexpr (kClean) {
    raw.there = element >= 0 && left >= kQuad ? (1u << kQuad) - 1 : 0;
  } else {
    const int low = element >= 0 ? 0 : element > -kQuad ? static_cast<int>(-element) : kQuad;
    const int high = left >= kQuad ? kQuad : left > 0 ? static_cast<int>(left) : 0;
    raw.there = ((1u << high) - 1) & ~((1u << low) - 1);
  }
  raw.around = {left <= kQuad ? static_cast<int>(left - 1) : kQuad, beyond, 0, true};
  TROUPE_UNROLL
  for (int a = 0; a < kInputs; ++a) {
    const DeviceArray& array = k.inputs[a];
    if (!reads<Rule, kMode>(a) || !array.data) continue;
    const unsigned char* at = address_of(array, p, element);
    raw.inputs[a] = load_quad<kClean>(thread, at, array.size, raw.there);
    const bool later = left > kQuad && element + kQuad >= 0;
    if (a == kValue && later && group.lane + 1 == group.lanes)
      raw.around.later_value = load_number(at + kQuad * array.size, array.size);
    if (a == kMask && !kSkips<kMode> && later) raw.around.later_live = at[kQuad] != 0;
  }
  return raw;
}

// Called by a whole warp.
template <class Rule, StepMode kMode, bool kClean, class Thread>
TROUPE_RULE Run<kQuad> run_of(Thread& thread, const DeviceScan& k, const LaneGroup& group, const RawQuad& raw) {
  Surroundings around = raw.around;
  if constexpr (Rule::kValues && !kSkips<kMode>) {
    float values[kQuad];
    numbers_of(raw.inputs[kValue], k.inputs[kValue].size, values);
    const float later = thread.shuffle_down(values[0], 1);
    if (group.lane + 1 < group.lanes) around.later_value = later;
  }
  return make_run<Rule, kMode, kClean, kQuad>(
      k, raw.there, around,
      [&](Input input, float(&to)[kQuad]) { numbers_of(raw.inputs[input], k.inputs[input].size, to); },
      [&](Input input) { return flags_of(raw.inputs[input]); });
}

// Writes the results of a quad; `state` is the state beyond it.
template <class Rule, StepMode kMode, bool kClean, class Thread>
TROUPE_RULE void finish_quad(Thread& thread, const DeviceScan& k, const RowPlace& p, const Run<kQuad>& run,
                             int64_t element, State state) {
  if (run.there == 0) return;
  Four first, second;
  TROUPE_UNROLL
  for (int i = kQuad - 1; i >= 0; --i) {
    if (!exists<kClean>(run, i)) continue;
    const RuleResult<ScalarLane> result = finish_step<Rule, kMode>(k, run, i, state);
    first.x[i] = result.first;
    second.x[i] = result.second;
  }
  const auto write = [&](float* to, const Four& four) {
    if (kClean && reinterpret_cast<uintptr_t>(to) % sizeof(Four) == 0) {
      thread.store_streaming(to, four);
      return;
    }
    TROUPE_UNROLL
    for (int i = 0; i < kQuad; ++i)
      if (exists<kClean>(run, i)) thread.store_streaming(to + i, four.x[i]);
  };
  if constexpr (Rule::kFirst) write(p.first + element, first);
  write(p.second + element, second);
}

// Scans the quads of a group of lanes. `total`: the map of the whole group, in its first lane. `later`: the map of the
// lanes after a thread's own.
template <class Rule, StepMode kMode>
class QuadScan {
 public:
  using Maps = Map<kSkips<kMode>>;

  TROUPE_RULE QuadScan(const DeviceScan&, const LaneGroup& group) : group_(group) {}
  template <class Thread>
  TROUPE_RULE void scan(Thread& thread, const Maps& map, Maps& total, Maps& later) const {
    total = scan_lanes(thread, group_, map);
    later = later_lanes(thread, group_, total);
  }

 private:
  LaneGroup group_;
};

// With one factor for all steps only the terms are exchanged, each weighted by a power computed in advance.
template <class Rule>
class QuadScan<Rule, StepMode::plain> {
 public:
  TROUPE_RULE QuadScan(const DeviceScan& k, const LaneGroup& group) : group_(group), later_(1) {
    const float w = plain_factor<Rule>(k);
    float power = w * w * (w * w);
    TROUPE_UNROLL
    for (int level = 0; level < kLevels; ++level) {
      weights_[level] = power;
      if ((group.lanes - 1 - group.lane) >> level & 1) later_ *= power;
      if (1 << level < group.lanes) power *= power;
    }
    whole_ = power;
  }
  template <class Thread>
  TROUPE_RULE void scan(Thread& thread, const Map<false>& map, Map<false>& total, Map<false>& later) const {
    float term = map.term;
    TROUPE_UNROLL
    for (int level = 0; level < kLevels; ++level) {
      if (1 << level >= group_.lanes) break;
      const float other = thread.shuffle_down(term, 1 << level);
      if (group_.lane + (1 << level) < group_.lanes) term = fmaf(weights_[level], other, term);
    }
    total = {whole_, term};
    const float after = thread.shuffle_down(term, 1);
    later = {later_, group_.lane + 1 < group_.lanes ? after : 0.0f};
  }

 private:
  static constexpr int kLevels = 5;
  static_assert(1 << kLevels == kLanes);

  LaneGroup group_;
  float weights_[kLevels];  // w^4, w^8, ...
  float later_;             // for the steps of the lanes after this one
  float whole_;             // for all steps of a group
};

// For plain sequences, the state beyond the last tile is 0, because QuadScan also weights steps
// beyond the sequence's end.
template <class Rule, StepMode kMode>
TROUPE_RULE State initial_state(const State& beyond) {
  return {kMode == StepMode::plain ? 0.0f : beyond.sum, beyond.value};
}

// 1 << k.lane_bits lanes per sequence. They process its tiles from the last step to the first.
template <class Rule, StepMode kMode, class Thread>
TROUPE_RULE void scan_warp_row(Thread& thread, const DeviceScan& k) {
  using Maps = Map<kSkips<kMode>>;
  const LaneGroup group = lane_group(thread, 1 << k.lane_bits);
  const int64_t sequence = (thread.block() * kRowWarps * kLanes + thread.index()) >> k.lane_bits;
  const bool exists = sequence < k.sequences;
  RowPlace p{};
  State beyond{};
  if (exists) {
    p = row_place(k, sequence);
    if (p.steps > 0) beyond = state_beyond_row<Rule>(k, sequence, p);
  }
  State carry = initial_state<Rule, kMode>(beyond);
  const QuadScan<Rule, kMode> quads(k, group);
  const int tile = kQuad << k.lane_bits;
  const int64_t tiles = p.steps > 0 ? (p.steps - p.origin + tile - 1) / kQuad >> k.lane_bits : 0;
  const auto scan_tile = [&](auto clean, int64_t begin) {
    constexpr bool kClean = decltype(clean)::value;
    const int64_t element = begin + kQuad * group.lane;
    const RawQuad raw = load_raw<Rule, kMode, kClean>(thread, k, p, group, element, beyond.value);
    const Run<kQuad> run = run_of<Rule, kMode, kClean>(thread, k, group, raw);
    Maps total, later;
    quads.scan(thread, map_of_run<Rule, kMode, kClean>(k, run), total, later);
    finish_quad<Rule, kMode, kClean>(thread, k, p, run, element, apply(later, carry));
    carry = apply(first_lane(thread, group, total), carry);
  };
  // The groups of a warp have nearly the same number of tiles; one that has no tile left takes part with no steps.
  for (int64_t i = 0; thread.ballot(i < tiles) != 0; ++i) {
    const bool mine = i < tiles;
    const int64_t begin = mine ? p.origin + (tiles - 1 - i) * tile : p.steps;
    if (thread.ballot(!mine || clean_tile(p, begin, tile)) == ~0u) {
      scan_tile(std::true_type(), begin);
    } else {
      scan_tile(std::false_type(), begin);
    }
  }
}

// One block per tile of kTileQuads quads per thread, joined by look-back. Strip i of a tile is the 128 steps of
// one quad of a warp's threads.
template <bool kSkip>
struct RowTileShared {
  Map<kSkip> strips[kLanes];  // first their own map, then that of the later strips
  State beyond;
  uint32_t ticket;
};

template <class Rule, StepMode kMode, class Thread>
TROUPE_RULE void scan_row_tile(Thread& thread, const DeviceScan& k, unsigned char* shared) {
  constexpr bool kSkip = kSkips<kMode>;
  constexpr int kThreads = kBlockWarps * kLanes, kQuads = kTileQuads<kMode>, kTile = kRowTile<kMode>;
  constexpr int kStrips = kQuads * kBlockWarps;
  static_assert(kStrips <= kLanes, "one warp scans the strips");
  auto& s = *reinterpret_cast<RowTileShared<kSkip>*>(shared);
  if (thread.index() == 0) s.ticket = thread.take_ticket(k.ticket);
  thread.sync_block();
  const auto sequences = static_cast<uint32_t>(k.sequences);  // 32 bits, because division is slow
  const int64_t tile = s.ticket, sequence = s.ticket % sequences, number = s.ticket / sequences;
  const RowPlace p = row_place(k, sequence);
  if (p.steps == 0) return;
  const int64_t tiles = tiles_of(p, kTile);
  if (number >= tiles) return;
  const int64_t begin = p.origin + (tiles - 1 - number) * kTile;
  const LaneGroup warp = lane_group(thread, kLanes);
  const auto scan_tile = [&](auto clean) {
    constexpr bool kClean = decltype(clean)::value;
    const auto place = [&](int q) { return begin + (q * kThreads + thread.index()) * kQuad; };
    const State beyond = state_beyond_row<Rule>(k, sequence, p);
    RawQuad raw[kQuads];
    TROUPE_UNROLL
    for (int q = 0; q < kQuads; ++q) raw[q] = load_raw<Rule, kMode, kClean>(thread, k, p, warp, place(q), beyond.value);
    const QuadScan<Rule, kMode> quads(k, warp);
    Run<kQuad> runs[kQuads];
    Map<kSkip> later[kQuads];
    TROUPE_UNROLL
    for (int q = 0; q < kQuads; ++q) {
      runs[q] = run_of<Rule, kMode, kClean>(thread, k, warp, raw[q]);
      Map<kSkip> total;
      quads.scan(thread, map_of_run<Rule, kMode, kClean>(k, runs[q]), total, later[q]);
      if (thread.lane() == 0) s.strips[q * kBlockWarps + thread.warp()] = total;
    }
    thread.sync_block();
    if (thread.warp() == 0) {
      const bool strip = thread.lane() < kStrips;
      const Map<kSkip> scanned = scan_lanes(thread, warp, strip ? s.strips[thread.lane()] : identity_map<kSkip>());
      const Map<kSkip> after = later_lanes(thread, warp, scanned);
      if (strip) s.strips[thread.lane()] = after;
      const State state = look_back_along_row(thread, k, first_lane(thread, warp, scanned), tile, number, k.sequences,
                                              initial_state<Rule, kMode>(beyond));
      if (thread.lane() == 0) s.beyond = state;
    }
    thread.sync_block();
    TROUPE_UNROLL
    for (int q = 0; q < kQuads; ++q) {
      const State after_strip = apply(s.strips[q * kBlockWarps + thread.warp()], s.beyond);
      finish_quad<Rule, kMode, kClean>(thread, k, p, runs[q], place(q), apply(later[q], after_strip));
    }
  };
  if (clean_tile(p, begin, kTile)) {
    scan_tile(std::true_type());
  } else {
    scan_tile(std::false_type());
  }
}

}  // namespace troupe::cuda
