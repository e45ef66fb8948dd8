#pragma once
// The kernels along rows, [B, T] or packed: a warp processes 128 adjacent steps, four per lane, or several short
// sequences. Internal to algorithms/cuda/.

#include "algorithms/cuda/scan_quads.h"

namespace troupe::cuda {

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

// For plain sequences, the state beyond the last tile is 0, because QuadScan also weights steps beyond the sequence's
// end.
template <class Rule, StepMode kMode>
TROUPE_RULE State initial_state(const State& beyond) {
  return {kMode == StepMode::plain ? 0.0f : beyond.sum, beyond.value};
}

// 1 << k.lane_bits lanes per sequence. They process its tiles from the last step to the first.
template <class Rule, StepMode kMode, class Thread>
TROUPE_RULE void scan_warp_row(Thread& thread, const DeviceScan& k) {
  static_assert(!kSkips<kMode>, "what follows is known");
  const LaneGroup group = lane_group(thread, 1 << k.lane_bits);
  const int64_t sequence = (thread.block() * kRowWarps * kLanes + thread.index()) >> k.lane_bits;
  const int tile = kQuad << k.lane_bits;
  RowPlace p{};
  if (sequence < k.sequences) p = row_place(k, sequence);
  State carry{};
  Form form = k.inputs[kReward].size == 4 ? Form::floats : Form::halves;
  int64_t begin = -tile;  // first step of the tile; at most -tile when no tile is left
  if (p.steps > 0) {
    carry = state_beyond_row<Rule>(k, sequence, p);
    form = form_of<Rule, kMode>(k, p);
    begin = p.origin + (((p.steps - p.origin - 1) / kQuad >> k.lane_bits) << k.lane_bits) * kQuad;
  }
  const float beyond = carry.value;
  carry = initial_state<Rule, kMode>(carry);
  const QuadScan<Rule, kMode> quads(k, group);
  const auto scan_tile = [&](auto constant) {
    constexpr Form kForm = decltype(constant)::value;
    const int64_t element = begin + kQuad * group.lane;
    const RawQuad raw = load_raw<Rule, kMode, kForm>(thread, k, p, group, element);
    float followed = 0;
    if constexpr (Rule::kValues && kMode != StepMode::plain)
      if (k.follow) followed = follow<kForm>(thread, k, group, raw, carry.value);
    const Run<kQuad> run = run_of<Rule, kMode, kForm>(thread, k, group, raw, beyond, followed);
    Map<false> total, later;
    quads.scan(thread, map_of_run<Rule, kMode, kClean<kForm>>(k, run), total, later);
    finish_quad<Rule, kMode, kForm>(thread, k, p, run, element, apply(later, carry));
    carry = apply(first_lane(thread, group, total), carry);
  };
  // The groups of a warp have nearly the same number of tiles; one that has no tile left takes part with no steps.
  for (; thread.ballot(begin > -tile) != 0; begin -= tile) {
    const Form now = begin <= -tile || clean_tile(p, begin, tile) ? form : Form::any;
    if (thread.ballot(now == Form::floats) == ~0u) {
      scan_tile(FormConstant<Form::floats>());
    } else if (thread.ballot(now == Form::halves) == ~0u) {
      scan_tile(FormConstant<Form::halves>());
    } else {
      scan_tile(FormConstant<Form::any>());
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
  const auto scan_tile = [&](auto form) {
    constexpr Form kForm = decltype(form)::value;
    const auto place = [&](int q) { return begin + (q * kThreads + thread.index()) * kQuad; };
    RawQuad raw[kQuads];
    TROUPE_UNROLL
    for (int q = 0; q < kQuads; ++q) raw[q] = load_raw<Rule, kMode, kForm>(thread, k, p, warp, place(q));
    const State beyond = state_beyond_row<Rule>(k, sequence, p);
    const QuadScan<Rule, kMode> quads(k, warp);
    Run<kQuad> runs[kQuads];
    Map<kSkip> later[kQuads];
    TROUPE_UNROLL
    for (int q = 0; q < kQuads; ++q) {
      runs[q] = run_of<Rule, kMode, kForm>(thread, k, warp, raw[q], beyond.value, 0);
      Map<kSkip> total;
      quads.scan(thread, map_of_run<Rule, kMode, kClean<kForm>>(k, runs[q]), total, later[q]);
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
      finish_quad<Rule, kMode, kForm>(thread, k, p, runs[q], place(q), apply(later[q], after_strip));
    }
  };
  switch (clean_tile(p, begin, kTile) ? form_of<Rule, kMode>(k, p) : Form::any) {
    case Form::floats: scan_tile(FormConstant<Form::floats>()); break;
    case Form::halves: scan_tile(FormConstant<Form::halves>()); break;
    case Form::any: scan_tile(FormConstant<Form::any>()); break;
  }
}

}  // namespace troupe::cuda
