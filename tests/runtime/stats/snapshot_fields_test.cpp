#include "runtime/stats/snapshot_fields.h"

#include <array>
#include <cmath>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/stats/bottleneck.h"
#include "tests/support/test.h"

using namespace troupe;
using nlohmann::json;

namespace {

const ExperienceWords kTokenWords = [] {
  ExperienceWords words = kStepWords;
  words.tokens = true;
  return words;
}();

// A snapshot in which every figure of its kind of run has a value.
StatsSnapshot complete() {
  StatsSnapshot s;
  for (double* value : {&s.elapsed_seconds,
                        &s.progress,
                        &s.eta_seconds,
                        &s.env_steps_per_second,
                        &s.env_steps_per_second_60s,
                        &s.seconds_to_first_update,
                        &s.updates_per_second,
                        &s.reuse,
                        &s.trainer_wait_fraction,
                        &s.lag_p50,
                        &s.lag_p95,
                        &s.lag_max,
                        &s.batch_size_p50,
                        &s.inference_p50_ms,
                        &s.scorer_p50_ms,
                        &s.inference_p99_ms,
                        &s.return_mean,
                        &s.return_std,
                        &s.length_mean,
                        &s.success_rate,
                        &s.answer_tokens_per_second,
                        &s.trained_tokens_per_second,
                        &s.produced_length,
                        &s.trained_length,
                        &s.dropped_length,
                        &s.busy.workers,
                        &s.busy.stepping,
                        &s.busy.credit_wait,
                        &s.busy.action_wait,
                        &s.busy.inference,
                        &s.busy.scorers,
                        &s.busy.replay,
                        &s.busy.prefetcher,
                        &s.busy.trainer,
                        &s.busy.machine,
                        &s.busy.run,
                        &s.busy.waiting})
    *value = 0.5;
  s.answers = {10, 9, 1.5, 2, 3, 4, 5, 6, 0.25, 0.5};
  s.worker_bytes = s.environment_bytes = s.verifier_bytes = s.rss_bytes = 1000;
  s.evaluation = EvaluationResult{1, 2, 3, 4, 5, 0.25, 0.5};
  s.failed_evaluations = {.count = 3, .updates = 2, .env_steps = 1, .episodes = 4, .failed_episodes = 5, .error = "e"};
  s.evaluating = EvaluationUnderWay{1, 2, 3, 4, 5};
  s.verifier = VerifierFigures{1, 2, 3, 4, 5, 6};
  s.prompts = PromptSummary{1, 0.5, 0.5, 0.5};
  s.warmup = WarmupState{.step = 1, .of = 2, .pass_at_1 = 0.5, .loss = 1.5};
  s.told_bottleneck = Bottleneck{.what = "inference", .resource = Resource::inference, .share = 0.9, .gain = 0.4};
  s.stages = {.update = UpdateStages{1, 2, 3, 4, 5, 6, 7, 8, 9}, .transfer = 0.5, .env_step = 0.5, .answer = 0.5};
  s.actors.emplace();
  s.joined_actors.emplace();
  RunHistograms& h = s.histograms;
  for (Histogram* each :
       {&h.inference_seconds, &h.batch_rows, &h.lag, &h.update_seconds, &h.step_seconds, &h.answer_seconds})
    each->add(0.5);
  return s;
}

const json* at(const json& object, std::string_view path) {
  const size_t dot = path.find('.');
  const auto found = object.find(std::string(path.substr(0, dot)));
  if (found == object.end()) return nullptr;
  return dot == std::string_view::npos ? &*found : at(*found, path.substr(dot + 1));
}

// The paths of all values in the JSON that are not objects, or are histograms. Objects with keys that depend on the run
// are empty in complete().
void collect_paths(const std::string& path, const json& value, std::set<std::string>& paths) {
  if (!value.is_object() || value.empty() || value.contains("le")) {
    paths.insert(path);
    return;
  }
  for (const auto& [key, inner] : value.items()) collect_paths(path.empty() ? key : path + '.' + key, inner, paths);
}

}  // namespace

TEST_CASE("snapshot_fields: the JSON of a snapshot has exactly the fields of the table") {
  std::set<std::string> written, listed;
  collect_paths("", json::parse(to_json(complete())), written);
  for (const SnapshotField& field : snapshot_fields()) CHECK(listed.emplace(field.path).second);
  CHECK(written == listed);
  CHECK(listed.size() > 40);
}

TEST_CASE("snapshot_fields: a field that is always reported has a value from the start") {
  StatsSnapshot first;
  first.progress = 0;  // a run sets it in every snapshot
  const json empty = json::parse(to_json(first));
  for (const SnapshotField& field : snapshot_fields()) {
    CAPTURE(field.path);
    const json* value = at(empty, field.path);
    if (field.when == "always") CHECK((value != nullptr && !value->is_null()));
  }
}

TEST_CASE("snapshot_fields: a field has no value in a deterministic run exactly if the table says so") {
  std::set<std::string_view> known;  // in control runs, or in token runs
  for (const ExperienceWords* words : {&kStepWords, &kTokenWords}) {
    StatsSnapshot s = complete();
    s.words = words;
    const json all = json::parse(to_json(s));
    forget_times(s);
    const json timeless = json::parse(to_json(s));
    for (const SnapshotField& field : snapshot_fields()) {
      CAPTURE(field.path);
      REQUIRE(at(all, field.path) != nullptr);
      if (at(all, field.path)->is_null()) continue;
      known.insert(field.path);
      const json* value = at(timeless, field.path);
      CHECK((value == nullptr || value->is_null()) == depends_on_time(field));
    }
  }
  CHECK(known.size() == snapshot_fields().size());
}

TEST_CASE("snapshot_fields: figures of one kind of run are null in the other") {
  StatsSnapshot s = complete();
  const auto is_null = [&](const char* path) {
    const json all = json::parse(to_json(s));
    return at(all, path)->is_null();
  };
  CHECK(is_null("answers.tokens"));
  CHECK_FALSE(is_null("batch.full"));
  s.words = &kTokenWords;
  CHECK_FALSE(is_null("answers.tokens"));
  CHECK(is_null("batch.full"));
}

TEST_CASE("snapshot_fields: failed evaluations as JSON and back; without one in this start there is only the count") {
  FailedEvaluations failed{
      .count = 3, .updates = 20, .env_steps = 100, .episodes = 4, .failed_episodes = 5, .error = "e\n"};
  CHECK(json::parse(to_json(failed)) == json{{"count", 3},
                                             {"updates", 20},
                                             {"env_steps", 100},
                                             {"episodes", 4},
                                             {"failed_episodes", 5},
                                             {"error", "e\n"}});
  const FailedEvaluations again = failed_evaluations_of(to_json(failed));
  CHECK(to_json(again) == to_json(failed));
  failed.error.clear();
  const json only_count = json::parse(to_json(failed));
  CHECK(only_count["count"] == 3);
  for (const char* name : {"updates", "env_steps", "episodes", "failed_episodes", "error"})
    CHECK(only_count[name].is_null());
  CHECK(failed_evaluations_of(only_count.dump()).count == 3);
  CHECK(failed_evaluations_of(only_count.dump()).error.empty());
  for (const char* wrong : {"", "null", "[]", "{}", R"({"count": -1})", R"({"count": "3"})"})
    CHECK_THROWS_AS(failed_evaluations_of(wrong), ConfigError);
}

TEST_CASE("snapshot_fields: an evaluation as JSON and back, with pass@k in the order of k") {
  EvaluationResult result{.updates = 3, .episodes = 64, .return_mean = 0.1, .success_rate = 0.25, .env_steps = 7};
  result.pass_at = {{1, 0.25}, {2, kUnknown}, {16, 1.0 / 3}};
  const EvaluationResult back = evaluation_result_of(to_json(result));
  CHECK(to_json(back) == to_json(result));
  CHECK(back.updates == 3);
  CHECK(back.return_mean == 0.1);
  CHECK(std::isnan(back.length_mean));
  REQUIRE(back.pass_at.size() == 3);
  CHECK(std::isnan(back.pass_at[1].second));
  CHECK(back.pass_at[2] == std::pair<uint64_t, double>(16, 1.0 / 3));
  for (const char* wrong : {"", "null", "[]", R"({"updates": 1})"})
    CHECK_THROWS_AS(evaluation_result_of(wrong), ConfigError);
}

TEST_CASE("snapshot_fields: each field has the value of its member") {
  StatsSnapshot s = complete();
  s.lag_p95 = 7;
  s.ledger.left_over = 8;
  s.batches_timeout = 9;
  s.evaluation->length_mean = 10;
  s.workers_up = 11;
  s.workers_starting = 12;
  s.ranks_up = 13;
  s.ranks_total = 14;
  s.verifier->busy_us = 1'500'000;
  const json value = json::parse(to_json(s));
  CHECK(value["lag"]["p95"] == 7);
  CHECK(value["ledger"]["left_over"] == 8);
  CHECK(value["batch"]["timeout"] == 9);
  CHECK(value["eval"]["length_mean"] == 10);
  CHECK(value["workers"]["up"] == 11);
  CHECK(value["workers"]["starting"] == 12);
  CHECK(value["ranks"]["up"] == 13);
  CHECK(value["ranks"]["total"] == 14);
  CHECK(value["verifier"]["seconds"] == 1.5);
  s.verifier.reset();
  CHECK(json::parse(to_json(s))["verifier"].is_null());
}

TEST_CASE("snapshot_fields: a snapshot as JSON and back has the same figures, also those without a value") {
  for (StatsSnapshot s : {complete(), StatsSnapshot{}}) {
    s.learner = {{"kl", 0.01}, {"ess", kUnknown}};
    s.alarms = {{"kl_high", {AlarmLevel::warning, 3, "high"}}, {"non_finite", {AlarmLevel::error, 4, "not\n"}}};
    s.rows_served = {{"a \"name\"", 7}};
    s.env_steps = UINT64_MAX;
    s.verifier = VerifierFigures{.busy_us = 1'500'001};
    const StatsSnapshot back = snapshot_of(to_json(s), kStepWords);
    CHECK(to_json(back) == to_json(s));
    CHECK(back.alarms.at("non_finite").level == AlarmLevel::error);
  }
}

TEST_CASE("snapshot_fields: a snapshot from JSON has the verdict that was told, not a new one") {
  StatsSnapshot s = complete();
  s.told_bottleneck = Bottleneck{"sampling", "why", "what to do", "workers"};
  CHECK(find_bottleneck(snapshot_of(to_json(s), kStepWords)).why == "why");
}

TEST_CASE("snapshot_fields: figures of another type in the JSON are unknown, and what is no object is refused") {
  const StatsSnapshot s = snapshot_of(
      R"({"progress": "x", "env_steps": -1, "learner": 3, "alarms": [2], "alarm_texts": "a", "lag": 4,
          "eval": {"updates": 1, "pass_at": {"x": 1, "2": 0.5, "1": null}}, "rows_served": {"a": 1.5}, "new": {}})",
      kStepWords);
  CHECK(std::isnan(s.progress));
  CHECK(s.env_steps == 0);
  CHECK(s.learner.empty());
  CHECK(s.alarms.empty());
  CHECK(std::isnan(s.lag_p95));
  REQUIRE(s.evaluation);
  REQUIRE(s.evaluation->pass_at.size() == 2);
  CHECK(s.evaluation->pass_at[1] == std::pair<uint64_t, double>(2, 0.5));
  CHECK(s.rows_served.at("a") == 0);
  const std::string deep = R"({"env_steps": )" + std::string(100'000, '[') + std::string(100'000, ']') + '}';
  for (const std::string& wrong : {std::string(), std::string("null"), std::string("[]"), std::string("{"), deep})
    CHECK_THROWS_AS(snapshot_of(wrong, kStepWords), ConfigError);
}

TEST_CASE("snapshot_fields: figures are put into an object at their paths, and a path that is none is a bug") {
  StatsSnapshot s = complete();
  s.ledger.left_over = 8;
  nlohmann::ordered_json into = {{"seed", 3}, {"lag", {{"other", 1}}}};
  const std::array<std::string_view, 4> paths = {"env_steps", "lag.p95", "ledger.", "env_failures"};
  put_figures(s, paths, into);
  const json all = json::parse(to_json(s)), found = json::parse(into.dump());
  CHECK(found["seed"] == 3);
  CHECK(found["lag"] == json{{"other", 1}, {"p95", all["lag"]["p95"]}});
  CHECK(found["ledger"] == all["ledger"]);
  CHECK(found["env_failures"] == json::object());
  CHECK(found.size() == 5);
  for (const std::string_view wrong : {"", "lag", "ledger", "lag.p9", "nothing."})
    CHECK_THROWS_AS(put_figures(s, std::array{wrong}, into), InvariantError);
}
