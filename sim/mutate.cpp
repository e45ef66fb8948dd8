#include "sim/mutate.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/inference.h"
#include "sim/actor_states.h"
#include "text/char_tokenizer.h"

namespace troupe::sim {

namespace {

// Without the last answer of its group.
std::shared_ptr<Rollout> split(const Rollout& whole) {
  auto part = std::make_shared<Rollout>(whole);
  Answers& a = std::get<Answers>(part->body);
  const int64_t count = a.count() - 1, tokens = a.sampled.offsets.view<int64_t>()[static_cast<size_t>(count)];
  a.sampled.offsets = a.sampled.offsets.slice(0, count + 1);
  AnswerReply::per_token(a.sampled, [&](const char*, Array& array, DType) { array = array.slice(0, tokens); });
  AnswerReply::per_answer(a.sampled, [&](const char*, Array& array, DType) { array = array.slice(0, count); });
  for (Array* array : {&a.group, &a.rewards, &a.right}) *array = array->slice(0, count);
  if (!a.messages.lengths.empty()) {
    a.messages.lengths = a.messages.lengths.slice(0, tokens);
    const auto lengths = a.messages.lengths.view<int32_t>();
    a.messages.ids = a.messages.ids.slice(0, std::accumulate(lengths.begin(), lengths.end(), 0));
  }
  if (!a.reference.empty()) a.reference = a.reference.slice(0, tokens);
  const auto version = a.sampled.version.view<int64_t>();
  part->oldest = static_cast<uint64_t>(std::ranges::min(version));
  part->newest = static_cast<uint64_t>(std::ranges::max(version));
  part->samples = part->env_steps = static_cast<uint64_t>(count);
  return part;
}

void mutate_reply(Mutation m, AnswerReply& reply) {
  if (m != Mutation::token_restamped && m != Mutation::token_stamped_late) return;
  reply.version = reply.version.clone();
  const auto version = reply.version.mutable_view<int64_t>();
  const auto offsets = reply.offsets.view<int64_t>();
  if (m == Mutation::token_stamped_late) {
    const auto next = std::ranges::adjacent_find(version, std::ranges::less());
    if (next != version.end()) next[1] = next[0];
    return;
  }
  for (size_t a = 0; a + 1 < offsets.size(); ++a)
    std::ranges::fill(
        version.subspan(static_cast<size_t>(offsets[a]), static_cast<size_t>(offsets[a + 1] - offsets[a])),
        version[static_cast<size_t>(offsets[a + 1] - 1)]);
}

void mutate_scores(SimulatedRun& run, ScoreReply& reply) {
  const Mutation m = run.scenario().mutation;
  const std::vector<Score> own = reply.scores;
  const std::vector<Score>& last = run.last_scores;
  if (m == Mutation::score_lost && run.chance(0.1)) reply.id += 1000;
  if (m == Mutation::score_zeroed)
    for (Score& score : reply.scores)
      if (score.scored == Scored::failed) score = {};
  if (m == Mutation::score_moved && last.size() == own.size()) reply.scores = last;
  if (m == Mutation::score_of_another_answer && own.size() > 1)
    std::ranges::rotate(reply.scores, reply.scores.begin() + 1);
  if (m == Mutation::baseline_of_another_prompt && !last.empty() && !own.empty()) reply.scores.back() = last.back();
  run.last_scores = own;
}

void mutate_scores(SimulatedRun& run, ScoreReplies& replies) {
  if (run.scenario().mutation == Mutation::call_mixed && replies.of.size() > 1 &&
      replies.of[0].scores.size() == replies.of[1].scores.size())
    std::swap(replies.of[0].scores, replies.of[1].scores);
  for (ScoreReply& reply : replies.of) mutate_scores(run, reply);
}

// The values of the array come to the next answer or token each.
void rotate(Array& array) {
  array = array.clone();
  const auto values = array.mutable_view<float>();
  if (!values.empty()) std::ranges::rotate(values, values.begin() + 1);
}

void mutate_reference(SimulatedRun& run, ScoringReply& reply) {
  if (run.scenario().mutation != Mutation::reference_moved) return;
  const Array own = reply.reference;
  if (run.last_reference.size() == own.size() && run.chance(0.5))
    reply.reference = run.last_reference;
  else
    rotate(reply.reference);
  run.last_reference = own;
}

// The last token of the first message becomes one of the answer, with the log-probability of the token after it.
std::shared_ptr<Rollout> with_trained_message(const Rollout& rollout) {
  auto changed = std::make_shared<Rollout>(rollout);
  Answers& a = std::get<Answers>(changed->body);
  const auto lengths = a.messages.lengths.view<int32_t>();
  const auto at = std::ranges::find_if(lengths, [](int32_t length) { return length > 0; }) - lengths.begin();
  if (at == static_cast<std::ptrdiff_t>(lengths.size())) return changed;
  const auto inserted = [&](const Array& array, auto value) {
    const auto all = array.view<decltype(value)>();
    std::vector<decltype(value)> result(all.begin(), all.end());
    result.insert(result.begin() + at, value);
    return Array::of(result);
  };
  const auto place = static_cast<size_t>(at);
  std::vector<int32_t> rest(lengths.begin(), lengths.end());
  const int32_t before = std::exchange(rest[place], 0) - 1;
  rest.insert(rest.begin() + at, before);
  std::vector<int64_t> offsets;
  for (const int64_t offset : a.sampled.offsets.view<int64_t>()) offsets.push_back(offset > at ? offset + 1 : offset);
  const auto ids = a.messages.ids.view<int32_t>();
  a.sampled.tokens = inserted(a.sampled.tokens, ids[static_cast<size_t>(before)]);
  a.sampled.log_probs = inserted(a.sampled.log_probs, a.sampled.log_probs.view<float>()[place]);
  a.sampled.version = inserted(a.sampled.version, a.sampled.version.view<int64_t>()[place]);
  if (!a.reference.empty()) a.reference = inserted(a.reference, a.reference.view<float>()[place]);
  std::vector<int32_t> fewer(ids.begin(), ids.end());
  fewer.erase(fewer.begin() + before);
  a.messages = {Array::of(fewer), Array::of(rest)};
  a.sampled.offsets = Array::of(offsets);
  return changed;
}

std::shared_ptr<Rollout> with_changed_message(const Rollout& rollout) {
  auto changed = std::make_shared<Rollout>(rollout);
  Array& ids = std::get<Answers>(changed->body).messages.ids;
  ids = ids.clone();
  const auto values = ids.mutable_view<int32_t>();
  if (!values.empty()) values.front() += values.front() > CharTokenizer::kFirstCharacter ? -1 : 1;
  return changed;
}

// Without the first token of the first history.
void cut_history(AnswerRequest& request) {
  std::vector<int64_t> offsets;
  for (const int64_t offset : request.history_offsets.view<int64_t>())
    offsets.push_back(std::max<int64_t>(offset - 1, 0));
  if (offsets[1] == 0) return;
  request.history_offsets = Array::of(offsets);
  request.history = request.history.slice(1, request.history.size());
}

void mutate_answers(SimulatedRun& run, RolloutMessage& message) {
  const Mutation m = run.scenario().mutation;
  const RolloutPtr whole = message.rollout;
  const bool several = whole->answers().count() > 1;
  if (m == Mutation::message_trained) message.rollout = with_trained_message(*whole);
  if (m == Mutation::message_changed) message.rollout = with_changed_message(*whole);
  if (m == Mutation::group_split && several) message.rollout = split(*whole);
  if (m == Mutation::scored_left_out && several) {
    auto changed = split(*whole);
    changed->env_steps = whole->env_steps;
    ++changed->unscored;
    message.rollout = changed;
  }
  if (m == Mutation::failure_hidden) {
    auto changed = std::make_shared<Rollout>(*whole);
    changed->unscored += std::exchange(changed->verifier_failed, 0);
    message.rollout = changed;
  }
  if (m == Mutation::parts_moved) {
    auto changed = std::make_shared<Rollout>(*whole);
    for (ReturnPart& part : changed->episodes.parts) rotate(part.values);
    message.rollout = changed;
  }
  if (m == Mutation::group_repeated && run.last_answers && run.last_answers->worker == whole->worker &&
      run.last_answers->epoch == whole->epoch) {
    auto changed = std::make_shared<Rollout>(*run.last_answers);
    changed->sequence = whole->sequence;
    message.rollout = changed;
  }
  if (m == Mutation::late_trained && !whole->answers().empty()) run.unused.push_back(whole);
  run.last_answers = whole;
}

std::shared_ptr<SuperBatch> with_other_rewards(const SuperBatch& batch) {
  auto changed = std::make_shared<SuperBatch>(batch);
  for (RolloutUnits& part : changed->parts) {
    auto rollout = std::make_shared<Rollout>(*part.rollout);
    rotate(std::get<Answers>(rollout->body).rewards);
    part.rollout = rollout;
  }
  return changed;
}

// A group that replay has dropped as stale joins the batch.
std::shared_ptr<SuperBatch> with_late_group(SimulatedRun& run, const SuperBatch& batch) {
  auto changed = std::make_shared<SuperBatch>(batch);
  for (const RolloutUnits& part : batch.parts) std::erase(run.unused, part.rollout);
  const auto bound = static_cast<uint64_t>(run.scenario().config.replay.max_policy_lag);
  const auto late = std::ranges::find_if(run.unused, [&](const RolloutPtr& rollout) {
    return rollout->epoch == batch.parts.front().rollout->epoch && rollout->newest + bound < batch.index;
  });
  if (late == run.unused.end()) return changed;
  changed->parts.push_back({*late, {0}, UnitKind::group});
  changed->samples += (*late)->samples;
  changed->least_version = 0;
  run.unused.erase(late);
  return changed;
}

std::shared_ptr<SuperBatch> without_masks(const SuperBatch& batch) {
  auto changed = std::make_shared<SuperBatch>(batch);
  changed->least_version = 0;
  return changed;
}

// What ranks tell each other.
void mutate_ranks(SimulatedRun& run, caf::mailbox_element& element) {
  const Mutation m = run.scenario().mutation;
  if (auto* said = mutable_content<RankSaid>(element); said != nullptr && m == Mutation::rank_counted_twice)
    for (GradientBranch& branch : said->part.branches)
      for (float& value : branch.values.mutable_view<float>()) value *= 2;
  if (auto* said = mutable_content<RoundSaid>(element); said != nullptr && m == Mutation::round_repeated) {
    const RoundResult all = said->all;
    if (run.last_round) said->all = *run.last_round;
    run.last_round = all;
  }
}

}  // namespace

void forget_request(SimulatedRun& run, caf::scheduled_actor& actor) {
  InferenceState* state = inference_of(&actor);
  if (state == nullptr || state->pending.empty() || !run.chance(0.2)) return;
  const auto [ticket, pending] = *state->pending.begin();
  state->server->forget(ticket);
  if (is_token_run(run.scenario().config)) return;
  state->tickets.erase(pending.id);
  state->pending.erase(ticket);
}

void mutate(SimulatedRun& run, caf::scheduled_actor& actor, caf::mailbox_element& element) {
  const std::string kind = actor.name();
  const Mutation m = run.scenario().mutation;
  const auto again = [&] { actor.enqueue(element.sender, element.mid, element.copy_content_to_message(), nullptr); };
  if (kind == "publisher") {
    if (auto* weights = mutable_content<WeightsMessage>(element);
        weights != nullptr && !is_reference(*weights->weights))
      run.old_weights.push_back(weights->weights);
  }
  if (kind == "inference") {
    auto* request = mutable_content<InferenceRequest>(element);
    auto* steps = request == nullptr ? nullptr : std::get_if<StepRequest>(&request->body);
    if (steps != nullptr && m == Mutation::state_kept && steps->rows > 0) {
      const Array now = steps->state;
      Array& last = run.last_states[{request->worker, request->group}];
      if (!last.empty()) steps->state = last;
      last = now;
    }
    if (request != nullptr && m == Mutation::history_cut)
      if (auto* answers = std::get_if<AnswerRequest>(&request->body); answers != nullptr && answers->continues())
        cut_history(*answers);
    auto* weights = mutable_content<WeightsMessage>(element);
    const bool reference = weights != nullptr && is_reference(*weights->weights);
    if (reference && m == Mutation::reference_of_policy) {
      const PolicyVersion version = weights->weights->version;
      weights->weights = fake_weights(version, version, run.scenario().given_weights);
    }
    if (weights != nullptr && !reference && weights->weights->version.number > run.start_version.number) {
      const PolicyVersion version = weights->weights->version;
      if (m == Mutation::weights_old)
        weights->weights = run.old_weights[run.old_weights.size() > 1 ? run.old_weights.size() - 2 : 0];
      if (m == Mutation::weights_torn)
        weights->weights = fake_weights(version, {version.epoch, version.number - 1}, run.scenario().given_weights);
    }
  }
  if (kind == "trainer" && m == Mutation::warmup_counted && element.content().match_elements<next_atom>()) {
    if (TrainerState* state = trainer_of(&actor); state->warmup) ++state->version.number;
  }
  if (kind == "trainer" || kind == "rank trainer" || kind == "rank exchange") mutate_ranks(run, element);
  mutate_peers(run, actor, element);
  if (kind == "worker") {
    if (m == Mutation::epoch_ignored) worker_of(&actor)->peers.epoch = 0;
    auto* reply = mutable_content<InferenceReply>(element);
    if (reply != nullptr && std::holds_alternative<AnswerReply>(reply->body)) mutate_reply(m, reply->answers());
    if (reply != nullptr && std::holds_alternative<ScoringReply>(reply->body))
      mutate_reference(run, std::get<ScoringReply>(reply->body));
    if (reply != nullptr && std::holds_alternative<StepReply>(reply->body)) {
      StepReply& steps = reply->steps();
      if (m == Mutation::reply_twice && run.chance(0.05)) again();
      if (m == Mutation::reply_lost && run.chance(0.1)) reply->id += 1000;
      if (m == Mutation::answers_unheard && run.outcome.events > 150) reply->group = 99;
      if (m == Mutation::reply_shifted && steps.values.size() > 1) {
        steps.values = steps.values.clone();
        std::ranges::rotate(steps.values.mutable_view<float>(), steps.values.mutable_view<float>().begin() + 1);
      }
      if (m == Mutation::state_shifted && steps.state.size() > 2) {
        steps.state = steps.state.clone();
        std::ranges::rotate(steps.state.mutable_view<float>(), steps.state.mutable_view<float>().begin() + 2);
      }
      if (m == Mutation::parameters_shifted && steps.policy_parameters.size() > kActions) {
        steps.policy_parameters = steps.policy_parameters.clone();
        const auto parameters = steps.policy_parameters.mutable_view<float>();
        std::ranges::rotate(parameters, parameters.begin() + kActions);
      }
      if (m == Mutation::reply_relabelled && reply->version.number > run.start_version.number && run.chance(0.3))
        --reply->version.number;
    }
    if (auto* scores = mutable_content<ScoreReplies>(element)) mutate_scores(run, *scores);
    if (auto* credits = mutable_content<Credits>(element)) {
      if (m == Mutation::credit_lost && run.chance(0.3)) --credits->count;
      if (m == Mutation::credit_extra) credits->count += 3;
    }
  }
  if (kind == "replay") {
    auto* message = mutable_content<RolloutMessage>(element);
    if (message != nullptr && message->rollout->kind() == Experience::answers) {
      mutate_answers(run, *message);
    } else if (message != nullptr) {
      auto changed = std::make_shared<Rollout>(*message->rollout);
      if (m == Mutation::rollout_twice && run.chance(0.2)) again();
      if (m == Mutation::rollout_renumbered && changed->sequence > 0) ++changed->sequence;
      if (m == Mutation::rollout_miscounted && run.chance(0.3)) ++changed->samples;
      Grid& grid = changed->grid();
      if (m == Mutation::start_forgotten && !grid.starts.empty()) grid.starts = Array(DType::u8, grid.starts.shape());
      if (m == Mutation::rollout_reordered && grid.steps() > 1) {
        grid.rewards = grid.rewards.clone();
        std::ranges::rotate(grid.rewards.mutable_view<float>(),
                            grid.rewards.mutable_view<float>().begin() + grid.columns());
      }
      message->rollout = changed;
    }
    if (auto* report = mutable_content<WorkerReport>(element); report != nullptr && m == Mutation::last_words_lost)
      report->partial.clear();
    if (auto* update = mutable_content<UpdateMessage>(element); update != nullptr && m == Mutation::update_claimed)
      update->failed = !update->failed;
  }
  if (kind == "prefetcher")
    if (auto* message = mutable_content<BatchMessage>(element)) {
      auto& batch = message->shards.front();
      if (m == Mutation::batch_again && run.last_batch) {
        auto changed = std::make_shared<SuperBatch>(*run.last_batch);
        changed->index = batch->index;
        batch = changed;
      }
      if (m == Mutation::late_trained) batch = with_late_group(run, *batch);
      if (m == Mutation::mask_lost) batch = without_masks(*batch);
      if (m == Mutation::reward_changed) batch = with_other_rewards(*batch);
      run.last_batch = batch;
      if (m == Mutation::shard_missing) message->shards.pop_back();
      if (m == Mutation::shard_repeated) message->shards.back() = batch;
    }
  if (kind == "evaluator")
    if (auto* job = mutable_content<EvaluateMessage>(element);
        job != nullptr && job->last && m == Mutation::evaluation_old && !run.old_weights.empty())
      job->weights = run.old_weights.front();
}

}  // namespace troupe::sim
