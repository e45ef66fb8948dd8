#pragma once
// The kernels down columns, [T, B]: neighbouring threads process neighbouring sequences, so that every access of a warp
// is one contiguous piece of memory. Internal to algorithms/cuda/.

#include <type_traits>

#include "algorithms/cuda/look_back.h"

namespace troupe::cuda {

TROUPE_RULE const unsigned char* address_of(const DeviceArray& array, int64_t step, int64_t sequence) {
  return array.data + (step * array.stride + sequence) * array.size;
}

template <class Rule>
TROUPE_RULE State state_beyond_column(const DeviceScan& k, int64_t sequence) {
  const DeviceArray& next = k.inputs[kNext];
  return state_beyond<Rule>(k, sequence, next.data ? address_of(next, k.steps - 1, sequence) : nullptr);
}

// N elements of a column as they are in memory.
template <int N>
struct Pieces {
  uint32_t x[N];
};

// The elements that exist; the others are arbitrary. All loads are independent of each other.
template <class Word, bool kClean, int N>
TROUPE_RULE void load_pieces(const unsigned char* at, int64_t stride, uint32_t there, Pieces<N>& pieces) {
  constexpr int64_t kSize = sizeof(Word);
  TROUPE_UNROLL
  for (int i = 0; i < N; ++i)
    if (kClean || has(there, i)) pieces.x[i] = load_word<Word>(at + i * stride * kSize);
}

// The steps [begin, begin + N) of a sequence as a run; begin may be negative. kClean: all of them exist. followed: with
// k.follow, V of the next unmasked step after the run.
template <class Rule, StepMode kMode, bool kClean, int N>
TROUPE_RULE Run<N> load_run(const DeviceScan& k, int64_t sequence, int64_t begin, float beyond, float followed) {
  const int64_t left = k.steps - begin;
  const int low = begin >= 0 ? 0 : begin > -N ? static_cast<int>(-begin) : N;
  const uint32_t there = kClean ? (1u << N) - 1 : ((1u << N) - 1) & ~((1u << low) - 1);
  Surroundings around{left <= N ? static_cast<int>(left - 1) : N, beyond, 0, true};
  const bool later = left > N && begin + N >= 0;
  Pieces<N> pieces[kInputs];
  TROUPE_UNROLL
  for (int a = 0; a < kInputs; ++a) {
    const DeviceArray& array = k.inputs[a];
    if (!reads<Rule, kMode>(a) || !array.data) continue;
    const unsigned char* at = address_of(array, begin, sequence);
    if (a >= kFloatInputs) {
      load_pieces<uint8_t, kClean>(at, array.stride, there, pieces[a]);
    } else if (array.size == 4) {
      load_pieces<uint32_t, kClean>(at, array.stride, there, pieces[a]);
    } else {
      load_pieces<uint16_t, kClean>(at, array.stride, there, pieces[a]);
    }
    const unsigned char* after = at + N * array.stride * array.size;
    if (a == kValue && !kSkips<kMode> && later) around.later_value = load_number(after, array.size);
    if (a == kMask && !kSkips<kMode> && later) around.later_live = *after != 0;
  }
  if (kMode != StepMode::plain && k.follow) around.later_value = followed;
  const auto numbers = [&](Input input, float(&to)[N]) {
    const int shift = k.inputs[input].size == 4 ? 0 : 16;
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) to[i] = float_of_bits(pieces[input].x[i] << shift);
  };
  const auto flags = [&](Input input) {
    uint32_t bits = 0;
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) bits |= pieces[input].x[i] != 0 ? 1u << i : 0;
    return bits;
  };
  return make_run<Rule, kMode, kClean, N>(k, there, around, numbers, flags);
}

// Writes the results of a run of steps and advances the state over it.
template <class Rule, StepMode kMode, bool kClean, int N, class Thread>
TROUPE_RULE void finish_run(Thread& thread, const DeviceScan& k, const Run<N>& run, int64_t sequence, int64_t begin,
                            State& state) {
  float *first = nullptr, *second = k.second + begin * k.second_stride + sequence;
  if constexpr (Rule::kFirst) first = k.first + begin * k.first_stride + sequence;
  TROUPE_UNROLL
  for (int i = N - 1; i >= 0; --i) {
    if (!exists<kClean>(run, i)) continue;
    const RuleResult<ScalarLane> result = finish_step<Rule, kMode>(k, run, i, state);
    if constexpr (Rule::kFirst) thread.store_streaming(first + i * k.first_stride, result.first);
    thread.store_streaming(second + i * k.second_stride, result.second);
  }
}

// In plain mode, the last step's term contains the bootstrap of a rule without values (make_run).
template <StepMode kMode>
TROUPE_RULE State initial_column_state(const State& beyond) {
  return {kMode == StepMode::plain ? 0.0f : beyond.sum, beyond.value};
}

// The map of a run of a column. In plain mode map_of_run() does not give the factor.
template <class Rule, StepMode kMode, bool kClean, int N>
TROUPE_RULE Map<kSkips<kMode>> map_of_column_run(const DeviceScan& k, const Run<N>& run) {
  auto map = map_of_run<Rule, kMode, kClean>(k, run);
  if constexpr (kMode == StepMode::plain) {
    static_assert((N & (N - 1)) == 0);
    map.factor = plain_factor<Rule>(k);
    TROUPE_UNROLL
    for (int n = 1; n < N; n *= 2) map.factor *= map.factor;
  }
  return map;
}

// One thread per sequence.
template <class Rule, StepMode kMode, class Thread>
TROUPE_RULE void scan_column(Thread& thread, const DeviceScan& k) {
  static_assert(!kSkips<kMode>, "what follows is known");
  const int64_t sequence = thread.block() * kBlockWarps * kLanes + thread.index();
  if (sequence >= k.sequences) return;
  const State beyond = state_beyond_column<Rule>(k, sequence);
  State state = initial_column_state<kMode>(beyond);
  const auto scan_run = [&](auto clean, int64_t begin) {
    constexpr bool kClean = decltype(clean)::value;
    const auto run = load_run<Rule, kMode, kClean, kColumnRun>(k, sequence, begin, beyond.value, state.value);
    finish_run<Rule, kMode, kClean>(thread, k, run, sequence, begin, state);
    if (k.follow) state.value = run.followed;
  };
  int64_t begin = k.steps - kColumnRun;
  for (; begin >= 0; begin -= kColumnRun) scan_run(std::true_type(), begin);
  if (begin > -kColumnRun) scan_run(std::false_type(), begin);
}

// One block per 32 sequences and kBlockWarps * kTileRun steps: one lane per sequence and one warp per kTileRun steps,
// joined by look-back. `shared`: ColumnTileShared.
template <bool kSkip>
struct ColumnTileShared {
  Map<kSkip> totals[kBlockWarps][kLanes];
  Map<kSkip> window[2][kBlockWarps][kLanes];
  uint32_t ticket;
};

template <class Rule, StepMode kMode, class Thread>
TROUPE_RULE void scan_column_tile(Thread& thread, const DeviceScan& k, unsigned char* shared) {
  constexpr bool kSkip = kSkips<kMode>;
  constexpr int kRun = kTileRun<kMode>, kTile = kColumnTile<kMode>;
  auto& s = *reinterpret_cast<ColumnTileShared<kSkip>*>(shared);
  if (thread.index() == 0) s.ticket = thread.take_ticket(k.ticket);
  thread.sync_block();
  const auto blocks_of_columns = static_cast<uint32_t>((k.sequences + kLanes - 1) / kLanes);
  const int64_t tile = s.ticket, number = s.ticket / blocks_of_columns;
  const int64_t sequence = static_cast<int64_t>(s.ticket % blocks_of_columns) * kLanes + thread.lane();
  const int64_t begin = k.steps - (number + 1) * kTile + thread.warp() * kRun;
  // Lanes beyond the last sequence take part in all warp-wide operations, and know their state at once.
  const bool there = sequence < k.sequences;
  const auto scan_tile = [&](auto clean) {
    constexpr bool kClean = decltype(clean)::value;
    Run<kRun> run;
    State beyond{};
    Map<kSkip> map = constant_map<kSkip>(State{});
    if (there) {
      beyond = state_beyond_column<Rule>(k, sequence);
      run = load_run<Rule, kMode, kClean, kRun>(k, sequence, begin, beyond.value, 0);
      map = map_of_column_run<Rule, kMode, kClean>(k, run);
    }
    s.totals[thread.warp()][thread.lane()] = map;
    thread.sync_block();
    Map<kSkip> tile_map = identity_map<kSkip>(), later = tile_map;
    TROUPE_UNROLL
    for (int w = kBlockWarps - 1; w >= 0; --w) {
      if (w == thread.warp()) later = tile_map;
      tile_map = compose(tile_map, s.totals[w][thread.lane()]);
    }
    const State initial = initial_column_state<kMode>(beyond);
    const State after_tile =
        look_back_along_columns(thread, k, tile_map, tile, number, blocks_of_columns, initial, &s.window[0][0][0]);
    if (!there) return;
    State state = apply(later, after_tile);
    finish_run<Rule, kMode, kClean>(thread, k, run, sequence, begin, state);
  };
  // All steps of the tile exist, unless it is the sequence's first.
  if (k.steps >= (number + 1) * kTile) {
    scan_tile(std::true_type());
  } else {
    scan_tile(std::false_type());
  }
}

}  // namespace troupe::cuda
