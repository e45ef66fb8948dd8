// The part of snapshot_fields() about the bottleneck.

#include <array>
#include <cmath>
#include <string>

#include "runtime/stats/bottleneck.h"
#include "runtime/stats/field_access.h"

namespace troupe {
namespace {

using Json = FigureJson;
using S = StatsSnapshot;

Bottleneck& told_verdict(S& s) {
  if (!s.told_bottleneck) s.told_bottleneck.emplace();
  return *s.told_bottleneck;
}

template <auto member>
constexpr FieldAccess of_bottleneck{[](const S& s) { return Json(find_bottleneck(s).*member); },
                                    [](S& s, const Json& value) { read_figure(value, told_verdict(s).*member); }};
constexpr FieldAccess kVerdictResource{
    [](const S& s) { return Json(std::string(name_of(find_bottleneck(s).resource))); },
    [](S& s, const Json& name) {
      told_verdict(s).resource = name.is_string() ? resource_of(name.get<std::string>()) : Resource::unknown;
    }};

constexpr const char* kBottleneckHeading = "Bottleneck";
constexpr const char* kOfTimedVerdict = "where the verdict has one, not in deterministic runs";

constexpr const char* kOfShownGain =
    "for resources of which `troupe bench verdicts` has shown that the figure is right, not in deterministic runs";

constexpr std::array kBottleneckFields = {
    SnapshotField{kBottleneckHeading, "bottleneck.what", "", "text", kAlways,
                  "what limits the run; empty once training has ended", of_bottleneck<&Bottleneck::what>},
    SnapshotField{kBottleneckHeading, "bottleneck.why", "", "text", kAlways, "the reason of that verdict; may be empty",
                  of_bottleneck<&Bottleneck::why>},
    SnapshotField{kBottleneckHeading, "bottleneck.advice", "", "text", kAlways, "what would help; may be empty",
                  of_bottleneck<&Bottleneck::advice>},
    SnapshotField{
        kBottleneckHeading, "bottleneck.limit", "", "text", kAlways,
        "the part that limits the run: `workers`, `inference`, `replay`, `prefetcher`, `trainer`, or `machine` "
        "(all its processors); empty where none does, or which one is not known",
        of_bottleneck<&Bottleneck::limit>},
    SnapshotField{
        kBottleneckHeading, "bottleneck.resource", "", "text", kAlways,
        "what the run has too little of: `workers`, `env_stepping`, `inference`, `scorers`, `deadline` "
        "(`inference.timeout_us`), `batch_size` (`inference.batch_size`), `trainer`, `exchange` (between ranks), "
        "`replay`, `prefetcher`, "
        "`lag_cap`, "
        "`disk`, `evaluation`, `machine` (its processors, with the run), `oversubscribed` (its processors, with other "
        "programs), `straggler` (one worker), `waste` (samples are dropped); `none`, or `unknown`",
        kVerdictResource},
    SnapshotField{kBottleneckHeading, "bottleneck.share", "bottleneck_time_ratio", "0 to 1", kOfTimedVerdict,
                  "share of time for which that is busy, or for which others wait for it",
                  of_bottleneck<&Bottleneck::share>},
    SnapshotField{
        kBottleneckHeading, "bottleneck.gain", "bottleneck_expected_gain_ratio", "times", kOfShownGain,
        "by how much faster the run would be with twice as much of it, until the next part limits the run: 0.4 "
        "is 40 % faster",
        of_bottleneck<&Bottleneck::gain>},
    SnapshotField{
        kBottleneckHeading, "bottleneck.waits", "", "text", kAlways,
        "the part that waits for it, `trainer` or `workers`; empty where none does, or which one is not known",
        of_bottleneck<&Bottleneck::waits>},
};

}  // namespace

std::span<const SnapshotField> bottleneck_fields() { return kBottleneckFields; }

}  // namespace troupe
