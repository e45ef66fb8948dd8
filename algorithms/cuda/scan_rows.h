#pragma once
// The kernels along rows, [B, T] or packed: a thread processes four adjacent steps, a warp 128, a block a tile of whole
// warps. Tiles are read through shared memory by asynchronous copies of 16 bytes, with any alignment of the arrays.
// They begin where a quad of the second output is aligned, so that each thread writes its results as 16 bytes. Internal
// to algorithms/cuda/.

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

TROUPE_RULE const unsigned char* address_of(const DeviceArray& array, const RowPlace& p, int64_t element) {
  return array.data + (p.row * array.stride + p.start + element) * array.size;
}

template <class Rule>
TROUPE_RULE State state_beyond_row(const DeviceScan& k, int64_t sequence, const RowPlace& p) {
  const DeviceArray& next = k.inputs[kNext];
  return state_beyond<Rule>(k, sequence, next.data ? address_of(next, p, p.steps - 1) : nullptr);
}

inline constexpr int kMargin =
    16;  // space before the copied bytes of an array, for up to 3 elements before the sequence

// The bytes of one array in a slot: the margin, the padding that aligns the source, the tile and the step after it.
TROUPE_RULE constexpr int slot_bytes_of(int element_bytes, int steps_of_tile) {
  return (kMargin + 15 + (steps_of_tile + 1) * element_bytes + 15) / 16 * 16;
}

// Copies the tile that begins at `begin`, and the step after it, to `slot`, as one group of asynchronous copies.
template <class Rule, StepMode kMode, int kThreads, class Thread>
TROUPE_RULE void stage_tile(Thread& thread, const DeviceScan& k, const RowPlace& p, int64_t begin, int steps_of_tile,
                            unsigned char* slot) {
  const int64_t low = begin < 0 ? 0 : begin;
  const int64_t high = begin + steps_of_tile + 1 < p.steps ? begin + steps_of_tile + 1 : p.steps;
  TROUPE_UNROLL
  for (int a = 0; a < kInputs; ++a) {
    const DeviceArray& array = k.inputs[a];
    if (!reads<Rule, kMode>(a) || !array.data) continue;
    const unsigned char* from = address_of(array, p, low);
    const int shift = static_cast<int>(reinterpret_cast<uintptr_t>(from) % 16);
    const int bytes = shift + static_cast<int>(high - low) * array.size;
    for (int at = 16 * thread.index(); at < bytes; at += 16 * kThreads)
      thread.copy_async(slot + array.slot + kMargin + at, from - shift + at, bytes - at < 16 ? bytes - at : 16);
  }
}

struct alignas(16) Four {
  float x[4];
};

TROUPE_RULE void read_quad(const unsigned char* at, int size, float (&to)[kQuad]) {
  if (size == 4 && reinterpret_cast<uintptr_t>(at) % 16 == 0) {
    const Four four = *reinterpret_cast<const Four*>(at);
    TROUPE_UNROLL
    for (int i = 0; i < kQuad; ++i) to[i] = four.x[i];
  } else {
    TROUPE_UNROLL
    for (int i = 0; i < kQuad; ++i) to[i] = load_number(at + i * size, size);
  }
}

// Reads the quad at element `at`, of the tile that begins at `begin`, from its slot.
template <class Rule, StepMode kMode>
TROUPE_RULE Run<kQuad> read_quad_run(const DeviceScan& k, const RowPlace& p, int64_t begin, int at, float beyond,
                                     const unsigned char* slot) {
  const int64_t low = begin < 0 ? 0 : begin, element = begin + at;
  Run<kQuad> run;
  run.begin = element < 0 ? static_cast<int>(-element) : 0;
  run.end = element + kQuad <= p.steps ? kQuad : element < p.steps ? static_cast<int>(p.steps - element) : 0;
  run.last = p.steps - 1 - element < kQuad ? static_cast<int>(p.steps - 1 - element) : kQuad;
  run.beyond = beyond;
  run.later_value = 0;
  run.later_live = 1;
  TROUPE_UNROLL
  for (int a = 0; a < kInputs; ++a) {
    const DeviceArray& array = k.inputs[a];
    if (!reads<Rule, kMode>(a) || !array.data) continue;
    const int shift = static_cast<int>(reinterpret_cast<uintptr_t>(address_of(array, p, low)) % 16);
    const unsigned char* from = slot + array.slot + kMargin + shift + static_cast<int>(element - low) * array.size;
    if (a < kFloatInputs) {
      read_quad(from, array.size, run.numbers[a]);
      if (a == kValue) run.later_value = load_number(from + kQuad * array.size, array.size);
    } else {
      TROUPE_UNROLL
      for (int i = 0; i < kQuad; ++i) run.flags[a - kFloatInputs][i] = from[i];
      if (a == kMask) run.later_live = from[kQuad];
    }
  }
  return run;
}

// Writes the results of a quad; `state` is the state beyond it.
template <class Rule, StepMode kMode, class Thread>
TROUPE_RULE void finish_quad(Thread& thread, const DeviceScan& k, const RowPlace& p, const Run<kQuad>& run,
                             int64_t element, State state) {
  Four first, second;
  TROUPE_UNROLL
  for (int i = kQuad - 1; i >= 0; --i) {
    if (!run.there(i)) continue;
    const RuleResult<ScalarLane> result = finish_step<Rule, kMode>(k, run, i, state);
    first.x[i] = result.first;
    second.x[i] = result.second;
  }
  const auto write = [&](float* to, const Four& four) {
    if (run.begin == 0 && run.end == kQuad && reinterpret_cast<uintptr_t>(to) % 16 == 0) {
      thread.store_streaming(to, four);
      return;
    }
    TROUPE_UNROLL
    for (int i = 0; i < kQuad; ++i)
      if (run.there(i)) thread.store_streaming(to + i, four.x[i]);
  };
  if constexpr (Rule::kFirst) write(p.first + element, first);
  write(p.second + element, second);
}

// Scans the quads of a warp. `total`: the map of the whole warp, in lane 0. `later`: the map of the lanes after a
// thread's own.
template <class Rule, StepMode kMode>
class QuadScan {
 public:
  using Maps = Map<kMode == StepMode::skip>;

  template <class Thread>
  TROUPE_RULE QuadScan(Thread&, const DeviceScan&) {}
  template <class Thread>
  TROUPE_RULE void scan(Thread& thread, const DeviceScan& k, const Run<kQuad>& run, Maps& total, Maps& later) const {
    total = scan_warp(thread, map_of_run<Rule, kMode>(k, run));
    later = later_lanes(thread, total);
  }
};

// With one factor for all steps only the terms are exchanged, each weighted by a power computed in advance.
template <class Rule>
class QuadScan<Rule, StepMode::plain> {
 public:
  template <class Thread>
  TROUPE_RULE QuadScan(Thread& thread, const DeviceScan& k) {
    const float w = Rule::kValues ? k.gamma * k.lambda : k.gamma;
    float power = w * w * (w * w);
    later_ = 1;
    TROUPE_UNROLL
    for (int level = 0; level < kLevels; ++level) {
      weights_[level] = power;
      if ((kLanes - 1 - thread.lane()) >> level & 1) later_ *= power;
      power *= power;
    }
    warp_ = power;
  }
  template <class Thread>
  TROUPE_RULE void scan(Thread& thread, const DeviceScan& k, const Run<kQuad>& run, Map<false>& total,
                        Map<false>& later) const {
    float term = map_of_run<Rule, StepMode::plain>(k, run).term;
    TROUPE_UNROLL
    for (int level = 0; level < kLevels; ++level) {
      const float other = thread.shuffle_down(term, 1 << level);
      if (thread.lane() + (1 << level) < kLanes) term = fmaf(weights_[level], other, term);
    }
    total = {warp_, term};
    const float after = thread.shuffle_down(term, 1);
    later = {later_, thread.lane() + 1 < kLanes ? after : 0.0f};
  }

 private:
  static constexpr int kLevels = 5;
  static_assert(1 << kLevels == kLanes);

  float weights_[kLevels];  // w^4, w^8, ...
  float later_;             // for the steps of the lanes after this one
  float warp_;              // for all steps of a warp
};

// For plain sequences, the state beyond the last tile is 0, because QuadScan also weights steps
// beyond the sequence's end.
template <class Rule, StepMode kMode>
TROUPE_RULE State initial_state(const State& beyond) {
  return {kMode == StepMode::plain ? 0.0f : beyond.sum, beyond.value};
}

// One block of kWarps warps per sequence. It processes tiles from the last step to the first, with several in flight.
// `shared`: the totals of the warps, then k.depth slots.
template <int kWarps>
inline constexpr int kTotalsBytes = 2 * kWarps * static_cast<int>(sizeof(Map<true>)) / 16 * 16 + 16;

template <class Rule, StepMode kMode, int kWarps, class Thread>
TROUPE_RULE void scan_row(Thread& thread, const DeviceScan& k, unsigned char* shared) {
  constexpr int kThreads = kWarps * kLanes, kTile = kThreads * kQuad;
  using Maps = Map<kMode == StepMode::skip>;
  const RowPlace p = row_place(k, thread.block());
  if (p.steps == 0) return;
  auto* totals = reinterpret_cast<Maps*>(shared);  // [2][kWarps]: double buffering needs only one barrier per tile
  unsigned char* slots = shared + kTotalsBytes<kWarps>;
  const int64_t tiles = tiles_of(p, kTile);
  const auto stage = [&](int64_t i) {
    if (i < tiles)
      stage_tile<Rule, kMode, kThreads>(thread, k, p, p.origin + (tiles - 1 - i) * kTile, kTile,
                                        slots + static_cast<int>(i % k.depth) * k.slot_bytes);
    thread.commit_copies();  // also commits an empty group, because the waits below count groups
  };
  for (int i = 0; i < k.depth; ++i) stage(i);
  const State beyond = state_beyond_row<Rule>(k, thread.block(), p);
  State carry = initial_state<Rule, kMode>(beyond);
  const QuadScan<Rule, kMode> quads(thread, k);
  thread.wait_copies(k.depth - 1);
  thread.sync_block();
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = p.origin + (tiles - 1 - i) * kTile;
    const unsigned char* slot = slots + static_cast<int>(i % k.depth) * k.slot_bytes;
    const Run<kQuad> run = read_quad_run<Rule, kMode>(k, p, begin, kQuad * thread.index(), beyond.value, slot);
    Maps total, later;
    quads.scan(thread, k, run, total, later);
    Maps* totals_of_tile = totals + i % 2 * kWarps;
    if (thread.lane() == 0) totals_of_tile[thread.warp()] = total;
    // After this barrier the totals are complete, the next tile is loaded, and no thread reads this slot any more.
    thread.wait_copies(k.depth - 2);
    thread.sync_block();
    stage(i + k.depth);
    State state = carry;
    TROUPE_UNROLL
    for (int w = kWarps - 1; w >= 0; --w) {
      if (w == thread.warp()) state = carry;
      carry = apply(totals_of_tile[w], carry);
    }
    finish_quad<Rule, kMode>(thread, k, p, run, begin + kQuad * thread.index(), apply(later, state));
  }
}

// One block per tile of kTileQuads quads per thread, joined by look-back. `shared`: RowTileShared, then one slot.
template <bool kSkip>
struct RowTileShared {
  static constexpr int kStrips = kTileQuads * kBlockWarps;
  static_assert(kStrips == kLanes, "one warp scans the strips");

  Map<kSkip> strips[kStrips];  // for each warp's quads: first their own map, then that of the later strips
  State beyond;
  uint32_t ticket;
};
inline constexpr int kRowTileSharedBytes = (static_cast<int>(sizeof(RowTileShared<true>)) + 15) / 16 * 16;

template <class Rule, StepMode kMode, class Thread>
TROUPE_RULE void scan_row_tile(Thread& thread, const DeviceScan& k, unsigned char* shared) {
  constexpr bool kSkip = kMode == StepMode::skip;
  constexpr int kThreads = kBlockWarps * kLanes, kTile = kThreads * kQuad * kTileQuads;
  auto& s = *reinterpret_cast<RowTileShared<kSkip>*>(shared);
  unsigned char* slot = shared + kRowTileSharedBytes;
  if (thread.index() == 0) s.ticket = thread.take_ticket(k.ticket);
  thread.sync_block();
  const int64_t tile = s.ticket, sequence = tile % k.sequences, number = tile / k.sequences;
  const RowPlace p = row_place(k, sequence);
  const int64_t tiles = tiles_of(p, kTile);
  if (p.steps == 0 || number >= tiles) return;
  const int64_t begin = p.origin + (tiles - 1 - number) * kTile;
  stage_tile<Rule, kMode, kThreads>(thread, k, p, begin, kTile, slot);
  thread.commit_copies();
  const State beyond = state_beyond_row<Rule>(k, sequence, p);
  const QuadScan<Rule, kMode> quads(thread, k);
  thread.wait_copies(0);
  thread.sync_block();
  Map<kSkip> later[kTileQuads];
  const auto place = [&](int q) { return (q * kThreads + thread.index()) * kQuad; };
  TROUPE_UNROLL
  for (int q = 0; q < kTileQuads; ++q) {
    Map<kSkip> total;
    quads.scan(thread, k, read_quad_run<Rule, kMode>(k, p, begin, place(q), beyond.value, slot), total, later[q]);
    if (thread.lane() == 0) s.strips[q * kBlockWarps + thread.warp()] = total;
  }
  thread.sync_block();
  if (thread.warp() == 0) {
    const Map<kSkip> scanned = scan_warp(thread, s.strips[thread.lane()]);
    s.strips[thread.lane()] = later_lanes(thread, scanned);
    const State state = look_back_along_row(thread, k, first_lanes(thread, scanned), tile, number, k.sequences,
                                            initial_state<Rule, kMode>(beyond));
    if (thread.lane() == 0) s.beyond = state;
  }
  thread.sync_block();
  TROUPE_UNROLL
  for (int q = 0; q < kTileQuads; ++q) {
    // Reading again is cheaper than the registers to keep it.
    const Run<kQuad> run = read_quad_run<Rule, kMode>(k, p, begin, place(q), beyond.value, slot);
    const State after_strip = apply(s.strips[q * kBlockWarps + thread.warp()], s.beyond);
    finish_quad<Rule, kMode>(thread, k, p, run, begin + place(q), apply(later[q], after_strip));
  }
}

}  // namespace troupe::cuda
