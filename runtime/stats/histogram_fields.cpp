// The part of snapshot_fields() with the histograms.

#include <array>

#include "runtime/stats/field_access.h"
#include "runtime/stats/histogram_json.h"

namespace troupe {
namespace {

template <Histogram RunHistograms::* member, Values values = Values::real>
constexpr FieldAccess of_histogram{
    [](const StatsSnapshot& s) { return histogram_json<FigureJson>(s.histograms.*member, values); },
    [](StatsSnapshot& s, const FigureJson& value) { s.histograms.*member = histogram_of(value); }};

constexpr const char* kGroup = "Histograms";

constexpr std::array kHistogramFields = {
    SnapshotField{kGroup, "histograms.inference_seconds", "inference_latency_seconds{le=*}", "s",
                  "after the first forward pass, not in deterministic runs",
                  "times from the oldest request of a batch to its replies, of all inference actors; in token runs, of "
                  "the steps of generation",
                  of_histogram<&RunHistograms::inference_seconds>, shown("request to inference", "step of generation")},
    SnapshotField{kGroup, "histograms.batch_rows", "batch_rows{le=*}", "rows", "after the first forward pass",
                  "batch sizes of the forward passes of all inference actors; in token runs, tokens that "
                  "a step of generation reads",
                  of_histogram<&RunHistograms::batch_rows, Values::whole>,
                  shown("rows in a batch", "tokens in a step of generation")},
    SnapshotField{kGroup, "histograms.lag", "sample_lag_updates{le=*}", "updates", "after the first update",
                  "policy lags of the samples that updates have trained, as in `lag.p50`",
                  of_histogram<&RunHistograms::lag, Values::whole>, shown("policy lag of the trained samples")},
    SnapshotField{kGroup, "histograms.update_seconds", "update_seconds{le=*}", "s",
                  "after the first update, not in deterministic runs",
                  "times of the updates, with the snapshot of the new weights",
                  of_histogram<&RunHistograms::update_seconds>, shown("time of an update")},
    SnapshotField{kGroup, "histograms.step_seconds", "env_step_seconds{le=*}", "s",
                  "not in token runs; after the first reports of the workers, not in deterministic runs",
                  "times of the steps of an environment: each is the time of a step of a group, divided by its rows",
                  of_histogram<&RunHistograms::step_seconds>, shown("time of an environment step")},
    SnapshotField{kGroup, "histograms.answer_seconds", "answer_seconds{le=*}", "s",
                  "token runs, after the first answers, not in deterministic runs",
                  "times from a worker's request for the answers to a prompt, or for their next turn, to the reply "
                  "with them",
                  of_histogram<&RunHistograms::answer_seconds>, shown("time of the answers to a prompt")},
};

}  // namespace

std::span<const SnapshotField> histogram_fields() { return kHistogramFields; }

}  // namespace troupe
