#pragma once
// Joins the tiles of a sequence in one pass (Merrill and Garland 2016, "Single-pass parallel prefix scan with
// decoupled look-back", NVIDIA report NVR-2016-002). Each tile publishes its effect on the state as soon as it is
// known, then looks back over the tiles of later steps until it finds a known state. A tile that no state passes
// through, because it contains an episode's end or its factor underflows, publishes its state at once, so the
// look-back of the next tile ends there.
//
// Blocks take tiles by ticket, later steps first. A block therefore waits only for blocks that have already started,
// and there is progress with any number of resident blocks. Internal to algorithms/cuda/.
//
// Thread: the operations that a kernel uses, either DeviceThread in device_thread.cuh or its emulation in the tests.

#include "algorithms/cuda/scan_step.h"

namespace troupe::cuda {

enum TileStatus : uint32_t { kNothing = 0, kMap = 1, kState = 2 };

TROUPE_RULE constexpr int record_fields(bool skip) { return (skip ? Map<true>::kFields : Map<false>::kFields) + 2; }

// The records of tiles, each for kWidth sequences that are adjacent in memory. A map is written before the status
// becomes kMap, a state before it becomes kState, and neither changes afterwards.
template <bool kSkip, int kWidth>
class Records {
 public:
  TROUPE_RULE explicit Records(const DeviceScan& k) : status_(k.status), fields_(k.records) {}

  template <class Thread>
  TROUPE_RULE uint32_t status(Thread& thread, int64_t tile) const {
    return thread.load_acquire(status_ + tile);
  }
  // The effect on the state at its first step of a tile whose status is not kNothing.
  template <class Thread>
  TROUPE_RULE Map<kSkip> read(Thread& thread, int64_t tile, int lane, uint32_t status) const {
    Map<kSkip> map;
    if (status == kMap) {
      map.factor = thread.load_fresh(at(tile, 0, lane));
      map.term = thread.load_fresh(at(tile, 1, lane));
      if constexpr (kSkip) {
        map.weight = thread.load_fresh(at(tile, 2, lane));
        map.value = thread.load_fresh(at(tile, 3, lane));
        map.has_value = thread.load_fresh(at(tile, 4, lane));
      }
      return map;
    }
    State state{thread.load_fresh(at(tile, kStateField, lane)), 0};
    if constexpr (kSkip) state.value = thread.load_fresh(at(tile, kStateField + 1, lane));
    return constant_map<kSkip>(state);
  }

  // Called by a whole warp, whose first kWidth lanes hold the values to publish.
  template <class Thread>
  TROUPE_RULE void publish(Thread& thread, int64_t tile, const Map<kSkip>& map) const {
    const int lane = thread.lane();
    if (lane < kWidth) {
      *at(tile, 0, lane) = map.factor;
      *at(tile, 1, lane) = map.term;
      if constexpr (kSkip) {
        *at(tile, 2, lane) = map.weight;
        *at(tile, 3, lane) = map.value;
        *at(tile, 4, lane) = map.has_value;
      }
    }
    thread.sync_warp();
    if (lane == 0) thread.store_release(status_ + tile, kMap);
  }
  template <class Thread>
  TROUPE_RULE void publish(Thread& thread, int64_t tile, const State& state) const {
    const int lane = thread.lane();
    if (lane < kWidth) {
      *at(tile, kStateField, lane) = state.sum;
      if constexpr (kSkip) *at(tile, kStateField + 1, lane) = state.value;
    }
    thread.sync_warp();
    if (lane == 0) thread.store_release(status_ + tile, kState);
  }

 private:
  static constexpr int kStateField = Map<kSkip>::kFields;

  TROUPE_RULE float* at(int64_t tile, int field, int lane) const {
    return fields_ + (tile * record_fields(kSkip) + field) * kWidth + lane;
  }

  uint32_t* status_;
  float* fields_;
};

template <bool kSkip, class Thread>
TROUPE_RULE Map<kSkip> shuffle_down(Thread& thread, const Map<kSkip>& map, int by) {
  Map<kSkip> other;
  other.factor = thread.shuffle_down(map.factor, by);
  other.term = thread.shuffle_down(map.term, by);
  if constexpr (kSkip) {
    other.weight = thread.shuffle_down(map.weight, by);
    other.value = thread.shuffle_down(map.value, by);
    other.has_value = thread.shuffle_down(map.has_value, by);
  }
  return other;
}

// Composes the map of each lane of a warp with those of all later lanes; lanes are in order of time.
template <bool kSkip, class Thread>
TROUPE_RULE Map<kSkip> scan_warp(Thread& thread, Map<kSkip> map) {
  TROUPE_UNROLL
  for (int by = 1; by < kLanes; by *= 2) {
    const Map<kSkip> later = shuffle_down(thread, map, by);
    if (thread.lane() + by < kLanes) map = compose(later, map);
  }
  return map;
}

// For a scanned warp: the map of all later lanes, without the lane itself.
template <bool kSkip, class Thread>
TROUPE_RULE Map<kSkip> later_lanes(Thread& thread, const Map<kSkip>& scanned) {
  const Map<kSkip> later = shuffle_down(thread, scanned, 1);
  return thread.lane() + 1 < kLanes ? later : identity_map<kSkip>();
}

// The map of lane 0.
template <bool kSkip, class Thread>
TROUPE_RULE Map<kSkip> first_lanes(Thread& thread, const Map<kSkip>& map) {
  Map<kSkip> first;
  first.factor = thread.broadcast(map.factor);
  first.term = thread.broadcast(map.term);
  if constexpr (kSkip) {
    first.weight = thread.broadcast(map.weight);
    first.value = thread.broadcast(map.value);
    first.has_value = thread.broadcast(map.has_value);
  }
  return first;
}

// Called by one warp. Publishes `map`, the same in all lanes, as tile `tile`, which is number `number` of its sequence
// counted from the last step. The tickets of neighbouring tiles are `stride` apart. Returns the state beyond the tile.
template <bool kSkip, class Thread>
TROUPE_RULE State look_back_along_row(Thread& thread, const DeviceScan& k, const Map<kSkip>& map, int64_t tile,
                                      int64_t number, int64_t stride, const State& initial) {
  const Records<kSkip, 1> records(k);
  if (number == 0) {
    records.publish(thread, tile, apply(map, initial));
    return initial;
  }
  const bool closed = is_closed(map);
  if (closed) {
    records.publish(thread, tile, apply(map, State{}));
  } else {
    records.publish(thread, tile, map);
  }
  Map<kSkip> between = identity_map<kSkip>();  // the composed map of the tiles visited so far
  for (int64_t nearest = 1; !is_closed(between); nearest += kLanes) {
    // Lane i visits the tile `nearest` + i places later. Before the sequence's last tile there is its initial state.
    const int64_t back = nearest + thread.lane();
    const int64_t other = tile - back * stride;
    uint32_t status = kState;
    uint32_t known;
    int count;
    for (;;) {
      if (back <= number) status = records.status(thread, other);
      known = thread.ballot(status == kState);
      const uint32_t ready = thread.ballot(status != kNothing);
      count = known ? thread.first_bit(known) + 1 : kLanes;
      const uint32_t wanted = count == kLanes ? ~0u : (1u << count) - 1;
      if ((ready & wanted) == wanted) break;
    }
    Map<kSkip> seen = identity_map<kSkip>();
    if (thread.lane() < count)
      seen = back <= number ? records.read(thread, other, 0, status) : constant_map<kSkip>(initial);
    between = compose(first_lanes(thread, scan_warp(thread, seen)), between);
  }
  const State beyond = apply(between, State{});
  if (!closed) records.publish(thread, tile, apply(map, beyond));
  return beyond;
}

// Like the function above for a block of kBlockWarps warps; lane i of each holds the map of sequence i of the tile.
// `window`: shared memory for [2][kBlockWarps][kLanes] maps.
template <bool kSkip, class Thread>
TROUPE_RULE State look_back_along_columns(Thread& thread, const DeviceScan& k, const Map<kSkip>& map, int64_t tile,
                                          int64_t number, int64_t stride, const State& initial, Map<kSkip>* window) {
  const Records<kSkip, kLanes> records(k);
  const bool publishes = thread.warp() == 0;
  if (number == 0) {
    if (publishes) records.publish(thread, tile, apply(map, initial));
    return initial;
  }
  const bool closed = thread.ballot(is_closed(map)) == ~0u;
  if (publishes) {
    if (closed) {
      records.publish(thread, tile, apply(map, State{}));
    } else {
      records.publish(thread, tile, map);
    }
  }
  Map<kSkip> between = identity_map<kSkip>();
  int buffer = 0;  // double buffering needs only one barrier per round
  // Every warp composes the same maps, so all leave the loop in the same round.
  for (int64_t nearest = 1; thread.ballot(is_closed(between)) != ~0u; nearest += kBlockWarps, buffer ^= 1) {
    const int64_t back = nearest + thread.warp();
    Map<kSkip> seen = constant_map<kSkip>(initial);
    if (back <= number) {
      const int64_t other = tile - back * stride;
      uint32_t status = kNothing;
      while (thread.ballot(status == kNothing) != 0) status = records.status(thread, other);
      seen = records.read(thread, other, thread.lane(), status);
    }
    Map<kSkip>* row = window + buffer * kBlockWarps * kLanes + thread.lane();
    row[thread.warp() * kLanes] = seen;
    thread.sync_block();
    for (int w = 0; w < kBlockWarps; ++w) between = compose(row[w * kLanes], between);
  }
  const State beyond = apply(between, State{});
  if (publishes && !closed) records.publish(thread, tile, apply(map, beyond));
  return beyond;
}

}  // namespace troupe::cuda
