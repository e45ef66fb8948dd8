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

enum class TileStatus : uint8_t { nothing = 0, map = 1, state = 2 };

// The effect on the state at its first step of a tile, as far as it is published.
template <bool kSkip>
struct TileEffect {
  TileStatus status;
  Map<kSkip> map;
};

TROUPE_RULE constexpr int record_fields(bool skip) { return skip ? Map<true>::kFields + 2 : Map<false>::kFields + 1; }

// The records of tiles, each for kWidth sequences that are adjacent in memory. A record has a map and a state. Each
// number is a word of 64 bits that also says that the number is written, so that numbers need no order among them: a
// reader knows a map or a state when it sees all of its words. The memory is 0 before the kernel starts.
template <bool kSkip, int kWidth>
class Records {
 public:
  TROUPE_RULE explicit Records(const DeviceScan& k) : words_(k.records) {}

  template <class Thread>
  TROUPE_RULE TileEffect<kSkip> read(Thread& thread, int64_t tile, int lane) const {
    uint64_t words[kFields];
    TROUPE_UNROLL
    for (int f = 0; f < kFields; ++f) words[f] = thread.load_relaxed(at(tile, f, lane));
    bool map = true;
    TROUPE_UNROLL
    for (int f = 0; f < kStateField; ++f) map = map && words[f] >> 32 != 0;
    const auto number = [&](int f) { return float_of_bits(static_cast<uint32_t>(words[f])); };
    if (words[kStateField] >> 32 != 0 && (!kSkip || words[kFields - 1] >> 32 != 0))
      return {TileStatus::state, constant_map<kSkip>({number(kStateField), number(kFields - 1)})};
    if (!map) return {TileStatus::nothing, identity_map<kSkip>()};
    if constexpr (kSkip) {
      return {TileStatus::map, {number(0), number(1), number(2), number(3), number(4)}};
    } else {
      return {TileStatus::map, {number(0), number(1)}};
    }
  }

  template <class Thread>
  TROUPE_RULE void publish(Thread& thread, int64_t tile, int lane, const Map<kSkip>& map) const {
    write(thread, tile, lane, 0, map.factor);
    write(thread, tile, lane, 1, map.term);
    if constexpr (kSkip) {
      write(thread, tile, lane, 2, map.weight);
      write(thread, tile, lane, 3, map.value);
      write(thread, tile, lane, 4, map.has_value);
    }
  }
  template <class Thread>
  TROUPE_RULE void publish(Thread& thread, int64_t tile, int lane, const State& state) const {
    write(thread, tile, lane, kStateField, state.sum);
    if constexpr (kSkip) write(thread, tile, lane, kStateField + 1, state.value);
  }

 private:
  static constexpr int kStateField = Map<kSkip>::kFields;
  static constexpr int kFields = record_fields(kSkip);

  TROUPE_RULE uint64_t* at(int64_t tile, int field, int lane) const {
    return words_ + (tile * kFields + field) * kWidth + lane;
  }
  template <class Thread>
  TROUPE_RULE void write(Thread& thread, int64_t tile, int lane, int field, float number) const {
    thread.store_relaxed(at(tile, field, lane), uint64_t{1} << 32 | bits_of_float(number));
  }

  uint64_t* words_;
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

// `lanes` adjacent lanes of a warp, a power of two, that process one sequence in order of time.
struct LaneGroup {
  int lanes;
  int lane;   // of this thread within the group
  int first;  // the group's first lane within the warp
};

template <class Thread>
TROUPE_RULE LaneGroup lane_group(Thread& thread, int lanes) {
  const int lane = thread.lane() & (lanes - 1);
  return {lanes, lane, thread.lane() - lane};
}

// Composes the map of each lane of a group with those of all later lanes.
template <bool kSkip, class Thread>
TROUPE_RULE Map<kSkip> scan_lanes(Thread& thread, const LaneGroup& group, Map<kSkip> map) {
  TROUPE_UNROLL
  for (int by = 1; by < kLanes; by *= 2) {
    if (by >= group.lanes) break;
    const Map<kSkip> later = shuffle_down(thread, map, by);
    if (group.lane + by < group.lanes) map = compose(later, map);
  }
  return map;
}

// For scanned lanes: the map of all later lanes, without the lane itself.
template <bool kSkip, class Thread>
TROUPE_RULE Map<kSkip> later_lanes(Thread& thread, const LaneGroup& group, const Map<kSkip>& scanned) {
  const Map<kSkip> later = shuffle_down(thread, scanned, 1);
  return group.lane + 1 < group.lanes ? later : identity_map<kSkip>();
}

// The map of the group's first lane.
template <bool kSkip, class Thread>
TROUPE_RULE Map<kSkip> first_lane(Thread& thread, const LaneGroup& group, const Map<kSkip>& map) {
  Map<kSkip> first;
  first.factor = thread.shuffle(map.factor, group.first);
  first.term = thread.shuffle(map.term, group.first);
  if constexpr (kSkip) {
    first.weight = thread.shuffle(map.weight, group.first);
    first.value = thread.shuffle(map.value, group.first);
    first.has_value = thread.shuffle(map.has_value, group.first);
  }
  return first;
}

// Called by one warp. Publishes `map`, the same in all lanes, as tile `tile`, which is number `number` of its sequence
// counted from the last step. The tickets of neighbouring tiles are `stride` apart. Returns the state beyond the tile.
template <bool kSkip, class Thread>
TROUPE_RULE State look_back_along_row(Thread& thread, const DeviceScan& k, const Map<kSkip>& map, int64_t tile,
                                      int64_t number, int64_t stride, const State& initial) {
  const Records<kSkip, 1> records(k);
  const bool closed = is_closed(map), publishes = thread.lane() == 0;
  if (publishes) {
    if (closed || number == 0) {
      records.publish(thread, tile, 0, apply(map, initial));
    } else {
      records.publish(thread, tile, 0, map);
    }
  }
  if (number == 0) return initial;
  const LaneGroup warp = lane_group(thread, kLanes);
  Map<kSkip> between = identity_map<kSkip>();  // the composed map of the tiles visited so far
  for (int64_t nearest = 1; !is_closed(between); nearest += kLanes) {
    // Lane i visits the tile `nearest` + i places later. Before the sequence's last tile there is its initial state.
    const int64_t back = nearest + thread.lane();
    const int64_t other = tile - back * stride;
    TileEffect<kSkip> seen{TileStatus::state, constant_map<kSkip>(initial)};
    int count;
    for (;;) {
      if (back <= number) seen = records.read(thread, other, 0);
      const uint32_t known = thread.ballot(seen.status == TileStatus::state);
      const uint32_t ready = thread.ballot(seen.status != TileStatus::nothing);
      count = known ? thread.first_bit(known) + 1 : kLanes;
      const uint32_t wanted = count == kLanes ? ~0u : (1u << count) - 1;
      if ((ready & wanted) == wanted) break;
    }
    if (thread.lane() >= count) seen.map = identity_map<kSkip>();
    between = compose(first_lane(thread, warp, scan_lanes(thread, warp, seen.map)), between);
  }
  const State beyond = apply(between, State{});
  if (publishes && !closed) records.publish(thread, tile, 0, apply(map, beyond));
  return beyond;
}

// Like the function above for a block of kBlockWarps warps; lane i of each holds the map of sequence i of the tile.
// `window`: shared memory for [2][kBlockWarps][kLanes] maps.
template <bool kSkip, class Thread>
TROUPE_RULE State look_back_along_columns(Thread& thread, const DeviceScan& k, const Map<kSkip>& map, int64_t tile,
                                          int64_t number, int64_t stride, const State& initial, Map<kSkip>* window) {
  const Records<kSkip, kLanes> records(k);
  const bool closed = is_closed(map), publishes = thread.warp() == 0;
  if (publishes) {
    if (closed || number == 0) {
      records.publish(thread, tile, thread.lane(), apply(map, initial));
    } else {
      records.publish(thread, tile, thread.lane(), map);
    }
  }
  if (number == 0) return initial;
  Map<kSkip> between = identity_map<kSkip>();
  int buffer = 0;  // double buffering needs only one barrier per round
  // Every warp composes the same maps, so all leave the loop in the same round.
  for (int64_t nearest = 1; thread.ballot(is_closed(between)) != ~0u; nearest += kBlockWarps, buffer ^= 1) {
    const int64_t back = nearest + thread.warp();
    TileEffect<kSkip> seen{TileStatus::state, constant_map<kSkip>(initial)};
    if (back <= number) {
      do {
        seen = records.read(thread, tile - back * stride, thread.lane());
      } while (thread.ballot(seen.status == TileStatus::nothing) != 0);
    }
    Map<kSkip>* row = window + buffer * kBlockWarps * kLanes + thread.lane();
    row[thread.warp() * kLanes] = seen.map;
    thread.sync_block();
    for (int w = 0; w < kBlockWarps; ++w) between = compose(row[w * kLanes], between);
  }
  const State beyond = apply(between, State{});
  if (publishes && !closed) records.publish(thread, tile, thread.lane(), apply(map, beyond));
  return beyond;
}

}  // namespace troupe::cuda
