#include "runtime/stats/snapshot_fields.h"

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/stats/field_access.h"

namespace troupe {
namespace {
using Json = FigureJson;
using S = StatsSnapshot;

// For the table, what reads and writes one member.
template <auto member>
constexpr FieldAccess of_ledger = of_part<&StatsSnapshot::ledger, member>;
template <auto member>
constexpr FieldAccess of_busy = of_part<&StatsSnapshot::busy, member>;

// Forward passes of inference, which token runs do not start for these reasons.
template <auto member>
constexpr FieldAccess of_batches{[](const S& s) { return s.words->tokens ? Json() : Json(s.*member); },
                                 [](S& s, const Json& value) { read_figure(value, s.*member); }};

constexpr const char* kProgress = "Progress and speed";
constexpr const char* kBusyHeading = "Shares of time";
constexpr const char* kLag = "Policy lag";
constexpr const char* kLedger = "Sample ledger";
constexpr const char* kInference = "Inference";
constexpr const char* kEpisodes = "Episodes";
constexpr const char* kLearner = "Learner";

constexpr const char* kTrained = "after the first update";
constexpr const char* kServed = "after the first forward pass";
constexpr const char* kServedTimed = "after the first forward pass, not in deterministic runs";
constexpr const char* kFinished = "after the first episode";
constexpr const char* kNoTokens = "not in token runs";
constexpr const char* kOfTokens = "always; 0 without a token run";
constexpr const char* kScored = "always; 0 without scorers";

constexpr std::array kFields = {
    SnapshotField{kProgress, "elapsed_seconds", "elapsed_seconds", "s", kTimed,
                  "time over all starts of the run, each from the start of its process", of<&S::elapsed_seconds>,
                  shown("elapsed")},
    SnapshotField{kProgress, "progress", "progress_ratio", "0 to 1", kAlways,
                  "how far the run is towards the first of `stop.env_steps`, `stop.updates` and `stop.seconds` that it "
                  "will reach; 0 without any of them",
                  of<&S::progress>, shown("progress")},
    SnapshotField{kProgress, "eta_seconds", "eta_seconds", "s",
                  "once this start has made progress, until training has ended; not in deterministic runs",
                  "time until that limit, at the mean pace of training since the start of the process",
                  of<&S::eta_seconds>, shown("left")},
    SnapshotField{kProgress, "env_steps", "env_steps_total", "env steps; answers in token runs", kAlways,
                  "executed for the samples in `ledger.produced`, over all workers", of<&S::env_steps>,
                  shown("env steps", "answers")},
    SnapshotField{kProgress, "env_steps_per_second", "env_steps_per_second", "env steps/s; answers/s in token runs",
                  kTimed, "speed of sampling over the last 10 s, or since training began if that is shorter",
                  of<&S::env_steps_per_second>, shown("env steps/s", "answers/s", Better::up)},
    SnapshotField{kProgress, "env_steps_per_second_60s", "env_steps_per_second_60s",
                  "env steps/s; answers/s in token runs", kTimed, "the same over the last 60 s, likewise",
                  of<&S::env_steps_per_second_60s>,
                  shown("env steps/s, last 60 s", "answers/s, last 60 s", Better::up)},
    SnapshotField{kProgress, "updates", "updates_total", "updates", kAlways, "updates of the policy", of<&S::updates>},
    SnapshotField{kProgress, "seconds_to_first_update", "seconds_to_first_update", "s", kTrainedTimed,
                  "time from the start of the process to the end of its first update", of<&S::seconds_to_first_update>,
                  shown("time to the first update", Better::down)},
    SnapshotField{kProgress, "updates_per_second", "updates_per_second", "updates/s", kTimed,
                  "speed of training over the last 10 s", of<&S::updates_per_second>, shown("updates/s", Better::up)},
    SnapshotField{kProgress, "reuse", "updates_per_sample", "updates per sample", kTrained,
                  "how many updates used each trained sample", of<&S::reuse>, shown("updates per sample")},
    SnapshotField{kProgress, "trainer_wait_fraction", "trainer_wait_ratio", "0 to 1", kTrainedTimed,
                  "share of the trainer's time spent waiting for data, open evaluations or the disk, since the start "
                  "of the process",
                  of<&S::trainer_wait_fraction>, shown("trainer waits for data", Better::down)},
    SnapshotField{
        kBusyHeading, "busy.workers", "busy_ratio{actor=workers}", "0 to 1", kTimed,
        "share of the last 10 s that a worker spent in handlers, on average; the rest it waited for actions "
        "or for a credit; in token runs, in handlers or in scoring answers, at most 1 where both work at the same "
        "time",
        of_busy<&BusyShares::workers>, shown("workers busy")},
    SnapshotField{kBusyHeading, "busy.stepping", "busy_ratio{actor=environments}", "0 to 1", kTimed,
                  "share of the last 10 s that a worker spent in steps of its environments, on average; in token runs, "
                  "in scoring answers",
                  of_busy<&BusyShares::stepping>, shown("workers in environment steps", "workers scoring answers")},
    SnapshotField{kBusyHeading, "busy.credit_wait", "busy_ratio{actor=waits_for_credit}", "0 to 1", kTimed,
                  "share of the last 10 s that a group of environments waited for a credit, because its samples might "
                  "exceed the lag cap, on average",
                  of_busy<&BusyShares::credit_wait>, shown("waiting for a credit", Better::down)},
    SnapshotField{kBusyHeading, "busy.action_wait", "busy_ratio{actor=waits_for_actions}", "0 to 1", kTimed,
                  "share of the last 10 s that a group of environments waited for actions, on average",
                  of_busy<&BusyShares::action_wait>, shown("waiting for actions", Better::down)},
    SnapshotField{kBusyHeading, "busy.inference", "busy_ratio{actor=inference}", "0 to 1", kTimed,
                  "the same of the inference actors, in handlers: forward passes, and applying weights",
                  of_busy<&BusyShares::inference>, shown("inference busy")},
    SnapshotField{kBusyHeading, "busy.scorers", "busy_ratio{actor=scorers}", "0 to 1",
                  "with scorers, not in deterministic runs", "the same of the scorers", of_busy<&BusyShares::scorers>,
                  shown("scorers busy")},
    SnapshotField{kBusyHeading, "busy.replay", "busy_ratio{actor=replay}", "0 to 1", kTimed,
                  "the same of the replay buffer", of_busy<&BusyShares::replay>, shown("replay buffer busy")},
    SnapshotField{kBusyHeading, "busy.prefetcher", "busy_ratio{actor=prefetcher}", "0 to 1", kTimed,
                  "share of the last 10 s in which the next super-batch was prepared", of_busy<&BusyShares::prefetcher>,
                  shown("preparing batches")},
    SnapshotField{kBusyHeading, "busy.trainer", "busy_ratio{actor=trainer}", "0 to 1", kTimed,
                  "share of the last 10 s that the trainer spent in updates, or in steps of the warm-up",
                  of_busy<&BusyShares::trainer>, shown("trainer busy")},
    SnapshotField{kBusyHeading, "busy.machine", "busy_ratio{actor=machine}", "0 to 1", kTimed,
                  "share of the last 10 s in which the processors of the trainer's machine were busy, on average, "
                  "with any program",
                  of_busy<&BusyShares::machine>, shown("processors of the machine")},
    SnapshotField{
        kBusyHeading, "busy.run", "busy_ratio{actor=run}", "0 to 1", kTimed,
        "of the same, the part that the trainer's process used, with those that it has started and those that "
        "have joined; the rest are other programs",
        of_busy<&BusyShares::run>, shown("processors used by the run")},
    SnapshotField{kBusyHeading, "busy.waiting", "busy_ratio{actor=waiting}", "0 or more", kTimed,
                  "of the same, what threads of the run waited for because others had the processors: 0.5 on two "
                  "processors when one thread waits all the time, on average",
                  of_busy<&BusyShares::waiting>, shown("processors waited for", Better::down)},
    SnapshotField{
        kLag, "lag.p50", "lag_p50_updates", "updates", kTrained,
        "median policy lag over the samples that the last 100 updates trained: updates between the policy that "
        "chose the action and the one trained on the sample; with `replay.draw` `column`, each sample counts "
        "with the largest lag of its column",
        of<&S::lag_p50>, shown("median lag", Better::down)},
    SnapshotField{kLag, "lag.p95", "lag_p95_updates", "updates", kTrained, "95th percentile of the same",
                  of<&S::lag_p95>, shown("lag, 95th percentile", Better::down)},
    SnapshotField{kLag, "lag.max", "lag_max_updates", "updates", kTrained, "maximum of the same", of<&S::lag_max>,
                  shown("largest lag", Better::down)},
    SnapshotField{kLag, "lag.cap", "lag_cap_updates", "updates", kAlways,
                  "the lag cap `replay.max_policy_lag`, which no trained sample exceeds", of<&S::lag_cap>,
                  shown("lag cap")},
    SnapshotField{kLag, "replay.late_wait_seconds", "replay_late_wait_seconds_total", "s", kTimed,
                  "time that updates waited, or the next one has waited, for rollouts, or answers, which would "
                  "otherwise have exceeded the lag cap "
                  "(`replay.late` `wait`), since the start of the process",
                  of<&S::late_wait_seconds>,
                  shown("updates waited for late samples", "updates waited for late answers", Better::down)},
    SnapshotField{kLedger, "ledger.produced", "samples_produced_total", "samples", kAlways,
                  "over all starts: arrived at the replay buffer in a rollout, or were in an unfinished rollout when "
                  "their worker ended; always the sum of the other entries `ledger.`",
                  of_ledger<&Ledger::produced>, shown("produced")},
    SnapshotField{kLedger, "ledger.trained", "samples_total{state=trained}", "samples", kAlways,
                  "were in the super-batch of at least one update that did not fail; includes those that the update "
                  "leaves out (`algorithm.incomplete` `drop`, `model.burn_in`)",
                  of_ledger<&Ledger::trained>, shown("trained", Better::up)},
    SnapshotField{kLedger, "ledger.dropped_stale", "samples_total{state=dropped_stale}", "samples", kAlways,
                  "exceeded the lag cap when a super-batch was drawn, before any update had used them",
                  of_ledger<&Ledger::dropped_stale>, shown("dropped: stale (above the lag cap)", Better::down)},
    SnapshotField{kLedger, "ledger.dropped_full", "samples_total{state=dropped_full}", "samples", kAlways,
                  "arrived when the replay buffer was full, or were evicted before any update used them",
                  of_ledger<&Ledger::dropped_full>, shown("dropped: replay buffer full", Better::down)},
    SnapshotField{kLedger, "ledger.lost_in_crash", "samples_total{state=lost_in_crash}", "samples", kAlways,
                  "were in an unfinished rollout of a worker that crashed or lost its connection, waited in a trainer "
                  "process that ended without a last checkpoint, or were in an update that failed; an update fails "
                  "when all its optimizer steps are skipped because they are not finite",
                  of_ledger<&Ledger::lost_in_crash>, shown("lost in a crash", Better::down)},
    SnapshotField{kLedger, "ledger.left_over", "samples_total{state=left_over}", "samples", kAlways,
                  "were in an unfinished rollout of a worker that was stopped, or had not been used by an update when "
                  "training ended",
                  of_ledger<&Ledger::left_over>, shown("left over at the end")},
    SnapshotField{kLedger, "ledger.filtered", "samples_total{state=filtered}", "samples", kAlways,
                  "token runs: were not trained on because all answers of their group have the same reward "
                  "(`replay.filter_groups`)",
                  of_ledger<&Ledger::filtered>, shown("filtered: equal rewards in the group")},
    SnapshotField{
        kLedger, "ledger.unscored", "samples_total{state=unscored}", "samples", kAlways,
        "token runs: answers that were not trained on because the verifier gave them no score (None), or because no "
        "other answer of their group has one and the estimator compares answers",
        of_ledger<&Ledger::unscored>, shown("without a score", Better::down)},
    SnapshotField{kLedger, "ledger.verifier_failed", "samples_total{state=verifier_failed}", "samples", kAlways,
                  "token runs: answers that were not trained on because the verifier, or the reply to them, failed",
                  of_ledger<&Ledger::verifier_failed>, shown("the verifier failed", Better::down)},
    SnapshotField{kLedger, "ledger.baselines", "samples_total{state=baselines}", "samples", kAlways,
                  "token runs with `remax`: greedy answers, of which only the score counts",
                  of_ledger<&Ledger::baselines>, shown("greedy: baselines of their groups")},
    SnapshotField{kLedger, "ledger.waiting", "samples_waiting", "samples", kAlways,
                  "are in the replay buffer or in the trainer now, and no update has used them yet",
                  of_ledger<&Ledger::waiting>, shown("waiting")},
    SnapshotField{kLedger, "uncounted_at_most", "samples_uncounted", "samples", kAlways,
                  "over all starts: the most samples that crashed workers may have made and that no count includes",
                  of<&S::uncounted_at_most>, shown("in no count, at most", Better::down)},
    SnapshotField{kLedger, "answers.tokens_per_second", "answers_tokens_per_second", "1/s",
                  "token runs, not in deterministic runs", "tokens of the answers that reached replay in the last 10 s",
                  of<&S::answer_tokens_per_second>, shown("tokens/s", Better::up)},
    SnapshotField{kLedger, "answers.trained_tokens_per_second", "answers_trained_tokens_per_second", "1/s",
                  "token runs, not in deterministic runs", "tokens of answers that updates trained on in the last 10 s",
                  of<&S::trained_tokens_per_second>, shown("trained tokens/s", Better::up)},
    SnapshotField{kLedger, "answers.produced_length", "answers_produced_length_tokens", "tokens",
                  "token runs, after the first answer",
                  "mean length of the answers that reached replay, since the start of the process (deterministic runs: "
                  "of the run)",
                  of<&S::produced_length>, shown("all answers")},
    SnapshotField{kLedger, "answers.trained_length", "answers_trained_length_tokens", "tokens",
                  "token runs, after the first update",
                  "mean length of the answers that updates trained on, over the same time; if it is not that of all, "
                  "the answers that are not trained on are longer or shorter than others",
                  of<&S::trained_length>, shown("trained answers")},
    SnapshotField{kLedger, "answers.dropped_length", "answers_dropped_length_tokens", "tokens",
                  "token runs, once an answer was dropped",
                  "mean length of the answers in `ledger.dropped_stale`, over the same time", of<&S::dropped_length>,
                  shown("answers dropped as stale")},
    SnapshotField{
        kLedger, "answers.masked_tokens", "answers_masked_tokens_total", "tokens", kAlways,
        "token runs with `replay.late` `mask`: tokens of answers that updates trained on without these tokens, "
        "which exceeded the lag cap, over the same time",
        of<&S::masked_tokens>, shown("tokens masked as too old", Better::down)},
    SnapshotField{kInference, "batch.size_p50", "batch_size_p50_rows", "rows", kServed,
                  "median batch size of the latest forward passes; in token runs, tokens that a step of generation "
                  "reads: one of each answer in progress, and "
                  "those of new prompts",
                  of<&S::batch_size_p50>, shown("rows in a batch", "tokens in a step of generation")},
    SnapshotField{kInference, "batch.full", "batches_total{reason=full}", "forward passes", kNoTokens,
                  "started because the batch was full", of_batches<&S::batches_full>, shown("batches started full")},
    SnapshotField{kInference, "batch.timeout", "batches_total{reason=timeout}", "forward passes", kNoTokens,
                  "started because the oldest request had waited for `inference.timeout_us`",
                  of_batches<&S::batches_timeout>, shown("batches started at timeout")},
    SnapshotField{kInference, "batch.all_waiting", "batches_total{reason=all_waiting}", "forward passes", kNoTokens,
                  "started because every worker was waiting already", of_batches<&S::batches_all_waiting>,
                  shown("batches started, all workers waiting")},
    SnapshotField{
        kInference, "batch.failed", "batches_failed_total", "forward passes", kAlways,
        "that threw; the requests of such a batch are computed again apart, and if one fails alone, its worker "
        "gets the error and asks again, up to 100 times",
        of<&S::batches_failed>, shown("batches failed", Better::down)},
    SnapshotField{kInference, "inference.up", "inference_actors", "inference actors", kAlways,
                  "that serve now, in the trainer's process and in others", of<&S::inference_up>,
                  shown("inference actors")},
    SnapshotField{kInference, "inference.p50_ms", "inference_p50_seconds", "ms", kServedTimed,
                  "median over the latest forward passes, each of which counts once: time from the arrival of the "
                  "oldest request of the batch to the replies; in token runs, time of a step of generation",
                  of<&S::inference_p50_ms>,
                  shown("request to inference, median", "step of generation, median", Better::down)},
    SnapshotField{kInference, "inference.p99_ms", "inference_p99_seconds", "ms", kServedTimed,
                  "99th percentile of the same", of<&S::inference_p99_ms>,
                  shown("request to inference, 99th percentile", "step of generation, 99th percentile", Better::down)},
    SnapshotField{
        kInference, "generation.mixed_answers", "generation_mixed_answers_total", "answers", kOfTokens,
        "sampled by more than one version of the weights, of all that inference actors have ended since the start "
        "of the process (deterministic runs: of the run)",
        of<&S::mixed_answers>, shown("answers of several versions")},
    SnapshotField{kInference, "generation.recomputed_tokens", "generation_recomputed_tokens_total", "tokens", kOfTokens,
                  "of prompts and answers whose keys and values were computed anew with new weights "
                  "(`generation.on_new_weights` `recompute`), over the same time",
                  of<&S::recomputed_tokens>, shown("tokens computed anew")},
    SnapshotField{kInference, "generation.history_tokens", "generation_history_tokens_total", "tokens", kOfTokens,
                  "of answers and messages in requests for later turns (`task.turns`), over the same time",
                  of<&S::history_tokens>, shown("tokens of earlier turns")},
    SnapshotField{kInference, "generation.reused_tokens", "generation_reused_tokens_total", "tokens", kOfTokens,
                  "of these, whose keys and values were still there from the turn before", of<&S::reused_tokens>,
                  shown("tokens reused of the turn before", Better::up)},
    SnapshotField{kInference, "generation.weights_waited_steps", "generation_weights_waited_steps_total", "steps",
                  kOfTokens,
                  "that inference actors made while newer weights waited for answers in progress "
                  "(`generation.on_new_weights` `finish` or `recompute`), over the same time",
                  of<&S::weights_waited_steps>, shown("steps while weights waited", Better::down)},
    SnapshotField{kInference, "generation.weights_waited_seconds", "generation_weights_waited_seconds_total", "s",
                  kTimed, "that newer weights waited so, summed over inference actors; 0 without a token run",
                  of<&S::weights_waited_seconds>, shown("weights waited for answers", Better::down)},
    SnapshotField{kInference, "scorers.up", "scorers", "scorers", kScored,
                  "that serve now, in the trainer's process and in others", of<&S::scorers_up>, shown("scorers")},
    SnapshotField{kInference, "scorers.answers", "scorers_answers_total", "answers", kScored,
                  "that scorers have computed log-probabilities or scores of, since the start of the process "
                  "(deterministic runs: of the run)",
                  of<&S::scored_answers>, shown("answers scored by scorers")},
    SnapshotField{kInference, "scorers.batches", "scorers_batches_total", "batches", kScored, "of these answers",
                  of<&S::scorer_batches>, shown("batches of scorers")},
    SnapshotField{kInference, "scorers.failed", "scorers_batches_failed_total", "batches", kScored,
                  "that threw; the requests of such a batch are computed again apart", of<&S::scorer_failures>,
                  shown("batches of scorers that failed", Better::down)},
    SnapshotField{kInference, "scorers.p50_ms", "scorers_p50_seconds", "ms",
                  "after the first batch of scorers, not in deterministic runs",
                  "median time from the oldest request of a batch to the replies", of<&S::scorer_p50_ms>,
                  shown("batch of scorers, median", Better::down)},
    SnapshotField{kEpisodes, "episodes.count", "episodes_total", "episodes; answers in token runs", kAlways,
                  "over all starts: episodes that ended within `env_steps`", of<&S::episodes>,
                  shown("episodes", "answers with a score")},
    SnapshotField{
        kEpisodes, "episodes.return_mean", "episode_return_mean", "rewards", kFinished,
        "mean return of the newest episodes, as many as `stats.window`; in token runs, mean reward of the newest "
        "answers that have a score, as many as `stats.window`, or as `trainer.super_batch` if that is more; "
        "`env.reward_scale` does not change it",
        of<&S::return_mean>, shown("return", "reward", Better::up)},
    SnapshotField{kEpisodes, "episodes.return_std", "episode_return_stddev", "rewards", kFinished,
                  "standard deviation of the same returns", of<&S::return_std>,
                  shown("standard deviation of returns", "standard deviation of rewards")},
    SnapshotField{kEpisodes, "episodes.length_mean", "episode_length_mean_steps", "env steps; tokens in token runs",
                  kFinished,
                  "mean length of the same episodes; of answers of several turns, the tokens of all turns without "
                  "messages",
                  of<&S::length_mean>, shown("episode length", "answer length")},
    SnapshotField{kEpisodes, "episodes.success_rate", "episode_success_ratio", "0 to 1",
                  "after the first episode, if the environment reports success",
                  "share of the same episodes that the environment calls a success", of<&S::success_rate>,
                  shown("success", "right", Better::up)},
    SnapshotField{
        kEpisodes, "episodes.return_parts", "episode_return_part_mean{part=*}", "rewards, by part", kAlways,
        "token runs: mean of each part of the reward, of those that the verifier names and, with a reward model, "
        "of `task` and `reward_model`, over as many of the newest answers that have it as `episodes.return_mean` is "
        "of; "
        "empty without parts",
        of<&S::return_parts>, shown("parts of the return", "parts of the reward", Better::up)},
    SnapshotField{kLearner, "learner", "", "an object", kAlways,
                  "the metrics of the updates, each under its name; empty before the first update", of<&S::learner>},
};

}  // namespace

std::span<const SnapshotField> snapshot_fields() {
  static const std::vector<SnapshotField> all = [] {
    std::vector<SnapshotField> fields(kFields.begin(), kFields.end());
    for (auto part : {worker_fields(), bottleneck_fields(), evaluation_fields(), answer_fields(), histogram_fields(),
                      stage_fields(), task_fields()})
      fields.insert(fields.end(), part.begin(), part.end());
    return fields;
  }();
  return all;
}

const SnapshotField& snapshot_field(std::string_view path) {
  const auto fields = snapshot_fields();
  const auto found = std::ranges::find(fields, path, &SnapshotField::path);
  TROUPE_CHECK(found != fields.end(), "path", std::string(path));
  return *found;
}

void put_figures(const StatsSnapshot& snapshot, std::span<const std::string_view> paths, Json& into) {
  for (const std::string_view path : paths) {
    size_t found = 0;
    for (const SnapshotField& field : snapshot_fields()) {
      if (field.path != path && !(path.ends_with('.') && field.path.starts_with(path))) continue;
      const size_t dot = field.path.find('.');
      Json& outer = into[std::string(field.path.substr(0, dot))];
      (dot == field.path.npos ? outer : outer[std::string(field.path.substr(dot + 1))]) = field.access.get(snapshot);
      ++found;
    }
    TROUPE_CHECK(found > 0, "path", std::string(path));
  }
}

bool depends_on_time(const SnapshotField& field) { return field.when.ends_with(kTimed); }

}  // namespace troupe
