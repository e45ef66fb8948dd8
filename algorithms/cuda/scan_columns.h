#pragma once
// The kernels down columns, [T, B]: neighbouring threads process neighbouring sequences, so that every access of a warp
// is one contiguous piece of memory. Internal to algorithms/cuda/.

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

// Steps [begin, begin + N) of a sequence; begin may be negative. All loads are independent of each other.
template <class Rule, StepMode kMode, int N>
TROUPE_RULE Run<N> load_run(const DeviceScan& k, int64_t sequence, int64_t begin, float beyond) {
  Run<N> run;
  run.begin = begin >= 0 ? 0 : begin > -N ? static_cast<int>(-begin) : N;
  run.end = begin + N <= k.steps ? N : static_cast<int>(k.steps - begin);
  run.last = k.steps - 1 - begin < N ? static_cast<int>(k.steps - 1 - begin) : N;
  run.beyond = beyond;
  run.later_value = 0;
  run.later_live = 1;
  const bool later = begin + N >= 0 && begin + N < k.steps;
  TROUPE_UNROLL
  for (int a = 0; a < kInputs; ++a) {
    const DeviceArray& array = k.inputs[a];
    if (!reads<Rule, kMode>(a) || !array.data) continue;
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) {
      const unsigned char* at = address_of(array, begin + i, sequence);
      if (a < kFloatInputs) {
        run.numbers[a][i] = run.there(i) ? load_number(at, array.size) : 0.0f;
      } else {
        run.flags[a - kFloatInputs][i] = run.there(i) ? *at : 0;
      }
    }
    const unsigned char* at = address_of(array, begin + N, sequence);
    if (later && a == kValue) run.later_value = load_number(at, array.size);
    if (later && a == kMask) run.later_live = *at;
  }
  return run;
}

// Writes the results of a run of steps and advances the state over it.
template <class Rule, StepMode kMode, int N, class Thread>
TROUPE_RULE void finish_run(Thread& thread, const DeviceScan& k, const Run<N>& run, int64_t sequence, int64_t begin,
                            State& state) {
  TROUPE_UNROLL
  for (int i = N - 1; i >= 0; --i) {
    if (!run.there(i)) continue;
    const RuleResult<ScalarLane> result = finish_step<Rule, kMode>(k, run, i, state);
    if constexpr (Rule::kFirst) thread.store_streaming(k.first + (begin + i) * k.first_stride + sequence, result.first);
    thread.store_streaming(k.second + (begin + i) * k.second_stride + sequence, result.second);
  }
}

// In plain mode, the last step's term contains the bootstrap of a rule without values (read_step).
template <StepMode kMode>
TROUPE_RULE State initial_column_state(const State& beyond) {
  return {kMode == StepMode::plain ? 0.0f : beyond.sum, beyond.value};
}

// One thread per sequence.
template <class Rule, StepMode kMode, class Thread>
TROUPE_RULE void scan_column(Thread& thread, const DeviceScan& k) {
  const int64_t sequence = thread.block() * kBlockWarps * kLanes + thread.index();
  if (sequence >= k.sequences) return;
  const State beyond = state_beyond_column<Rule>(k, sequence);
  State state = initial_column_state<kMode>(beyond);
  for (int64_t begin = k.steps - kColumnRun; begin > -kColumnRun; begin -= kColumnRun) {
    const auto run = load_run<Rule, kMode, kColumnRun>(k, sequence, begin, beyond.value);
    finish_run<Rule, kMode>(thread, k, run, sequence, begin, state);
  }
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
  constexpr bool kSkip = kMode == StepMode::skip;
  constexpr int kTile = kBlockWarps * kTileRun;
  auto& s = *reinterpret_cast<ColumnTileShared<kSkip>*>(shared);
  if (thread.index() == 0) s.ticket = thread.take_ticket(k.ticket);
  thread.sync_block();
  const int64_t blocks_of_columns = (k.sequences + kLanes - 1) / kLanes;
  const int64_t tile = s.ticket, number = tile / blocks_of_columns;
  const int64_t sequence = tile % blocks_of_columns * kLanes + thread.lane();
  const int64_t begin = k.steps - (number + 1) * kTile + thread.warp() * kTileRun;
  // Lanes beyond the last sequence take part in all warp-wide operations, and know their state at once.
  const bool there = sequence < k.sequences;
  Run<kTileRun> run;
  State beyond{};
  Map<kSkip> map = constant_map<kSkip>(State{});
  if (there) {
    beyond = state_beyond_column<Rule>(k, sequence);
    run = load_run<Rule, kMode, kTileRun>(k, sequence, begin, beyond.value);
    map = map_of_run<Rule, kMode>(k, run);
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
  finish_run<Rule, kMode>(thread, k, run, sequence, begin, state);
}

}  // namespace troupe::cuda
