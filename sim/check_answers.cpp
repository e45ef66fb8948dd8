// The checks of answers: when they arrive at replay, and when an update uses them.

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "actors/experience/answers/conversation.h"
#include "models/experience/rollout_units.h"
#include "sim/fake_reference.h"
#include "sim/fakes.h"
#include "text/char_tokenizer.h"

namespace troupe::sim {

namespace {

// One answer of a rollout.
struct Answer {
  const Rollout& rollout;
  size_t index = 0;
  std::string who;

  size_t begin() const { return static_cast<size_t>(rollout.answers().sampled.offsets.view<int64_t>()[index]); }
  size_t end() const { return static_cast<size_t>(rollout.answers().sampled.offsets.view<int64_t>()[index + 1]); }
  float log_prob(size_t token) const { return rollout.answers().sampled.log_probs.view<float>()[token]; }
  PolicyVersion version(size_t token) const {
    return {rollout.epoch, static_cast<uint64_t>(rollout.answers().sampled.version.view<int64_t>()[token])};
  }
};

// One turn of an answer.
struct AnswerTurn {
  size_t begin = 0, end = 0;     // tokens
  std::vector<int32_t> message;  // before it
};

std::vector<AnswerTurn> turns_of(const Answer& answer) {
  const MessageTokens& messages = answer.rollout.answers().messages;
  std::vector<AnswerTurn> turns{{answer.begin(), answer.end(), {}}};
  if (messages.lengths.empty()) return turns;
  const auto lengths = messages.lengths.view<int32_t>();
  auto id = messages.ids.view<int32_t>().begin() +
            std::accumulate(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(answer.begin()), 0);
  for (size_t t = answer.begin(); t < answer.end(); ++t) {
    if (lengths[t] == 0) continue;
    turns.back().end = t;
    turns.push_back({t, answer.end(), {id, id + lengths[t]}});
    id += lengths[t];
  }
  return turns;
}

// The tokens of an answer are those that were drawn for it, in order, with the versions that drew them.
void check_tokens(World& world, const Answer& answer, const std::map<uint64_t, bool>& published) {
  const auto tokens = answer.rollout.answers().sampled.tokens.view<int32_t>();
  DrawnRecord* const first = world.tokens.find(answer.log_prob(answer.begin()));
  size_t number = 0;
  for (const AnswerTurn& turn : turns_of(answer)) {
    const DrawnRecord* begin = world.tokens.find(answer.log_prob(turn.begin));
    for (size_t t = turn.begin; t < turn.end; ++t) {
      const std::string at = answer.who + ", token " + std::to_string(t - answer.begin());
      DrawnRecord* record = world.tokens.find(answer.log_prob(t));
      if (record == nullptr) return world.violate(at + ": was never drawn");
      if (record->key != turn_key(first->key, number) || record->index != static_cast<int64_t>(t - turn.begin) ||
          record->token != tokens[t] || record->generator != begin->generator)
        return world.violate(at + ": was not drawn for this place of the answer");
      if (record->version != answer.version(t))
        return world.violate(at + ": has version " + answer.version(t).text() + ", but was drawn by version " +
                             record->version.text());
      if (!published.contains(record->version.number))
        return world.violate(at + ": version " + record->version.text() + " was never published");
      if (t > turn.begin && record->version < answer.version(t - 1))
        return world.violate(at + ": the version goes backwards");
      if (std::exchange(record->arrived, true)) return world.violate(at + ": arrived before");
      first->newest = std::max(first->newest, record->version);
    }
    ++number;
  }
}

// The messages are those of the task, and no turn is missing.
void check_messages(World& world, const Answer& answer) {
  const auto tokens = answer.rollout.answers().sampled.tokens.view<int32_t>();
  const std::string prompt = text_of(answer.rollout.answers().prompts.view<int32_t>());
  std::vector<Turn> turns;
  for (const AnswerTurn& turn : turns_of(answer)) {
    const auto message = turns.empty() ? std::nullopt : message_after(prompt, turns);
    if (!turns.empty() && (!message || ids_of(*message) != turn.message))
      return world.violate(answer.who + " has a message after turn " + std::to_string(turns.size()) +
                           " that its task did not give");
    if (!turns.empty()) turns.back().message = *message;
    turns.push_back({text_of(tokens.subspan(turn.begin, turn.end - turn.begin))});
  }
  const auto most = static_cast<size_t>(world.scenario.config.task.turns);
  if (turns.size() > most || (turns.size() < most && message_after(prompt, turns)))
    world.violate(answer.who + " has " + std::to_string(turns.size()) + " turns, expected " +
                  (turns.size() > most ? "at most " : "more, at most ") + std::to_string(most));
}

void check_finish(World& world, const Answer& answer) {
  const auto tokens = answer.rollout.answers().sampled.tokens.view<int32_t>();
  const auto ended = [&](size_t t) { return tokens[t] == CharTokenizer::kEos; };
  Finish right = Finish::stop;
  for (const AnswerTurn& turn : turns_of(answer)) {
    for (size_t t = turn.begin; t + 1 < turn.end; ++t)
      if (ended(t)) return world.violate(answer.who + " goes on after its end token");
    const auto length = static_cast<int64_t>(turn.end - turn.begin);
    right = ended(turn.end - 1) ? Finish::stop : Finish::length;
    if (right == Finish::length && length != world.scenario.config.generation.max_tokens)
      return world.violate(answer.who + " ends after " + std::to_string(length) + " tokens without an end token");
  }
  if (answer.rollout.answers().sampled.finish.view<uint8_t>()[answer.index] != static_cast<uint8_t>(right))
    world.violate(answer.who + " has a wrong reason for its end");
}

// The answers of one request that have a score, each once and in order.
void check_group(World& world, const Rollout& r, const std::string& who) {
  const Answers& a = r.answers();
  const DrawnRecord* first = world.tokens.find(a.sampled.log_probs.view<float>().front());
  if (first == nullptr) return;  // already reported
  const AskedGroup& asked = *world.tokens.asked.at(first->key);
  const uint64_t n = asked.keys.size(), without = r.unscored + r.verifier_failed;
  const uint64_t baselines = needs_greedy_answer(world.scenario.config) ? 1 : 0;
  if (r.baselines != baselines || a.baselines.size() != static_cast<int64_t>(baselines))
    return world.violate(who + " has " + std::to_string(r.baselines) + " baselines, expected " +
                         std::to_string(baselines));
  if (a.groups() != 1 || r.samples + without + baselines != n || (without > 0 && !may_lack_scores(world.scenario)))
    return world.violate(who + " holds " + std::to_string(a.count()) + " of the " + std::to_string(n) +
                         " answers of its group, and counts " + std::to_string(without) + " without a score");
  if (asked.worker != r.worker || !std::ranges::equal(a.prompts.view<int32_t>(), asked.prompt))
    return world.violate(who + " holds answers to another prompt");
  const auto end = asked.keys.end() - static_cast<std::ptrdiff_t>(baselines);  // the greedy answer is not trained on
  auto next = asked.keys.begin();
  for (size_t i = 0; i < r.samples; ++i) {
    const DrawnRecord* record =
        world.tokens.find(a.sampled.log_probs.view<float>()[static_cast<size_t>(a.sampled.offsets.view<int64_t>()[i])]);
    next = std::find(next, end, record->key);
    if (next++ == end) return world.violate(who + ": answer " + std::to_string(i) + " belongs to another group");
    if (record->generator != first->generator) return world.violate(who + " mixes answers of two generators");
  }
  check_missing(world, r, asked, first->generator, who);
}

// Checks the lag of the tokens of an answer that update `batch` trains on.
void check_lag(World& world, const Answer& answer, const SuperBatch& batch) {
  const auto bound = static_cast<uint64_t>(world.scenario.config.replay.max_policy_lag);
  for (size_t t = answer.begin(); t < answer.end(); ++t)
    if (answer.version(t).number >= batch.least_version &&
        lag_between(answer.version(t), {world.epoch, batch.index}) > bound)
      return world.violate(answer.who + ", version " + answer.version(t).text() + ", is used by update " +
                           std::to_string(batch.index) + " of epoch " + std::to_string(world.epoch) + ": lag above " +
                           std::to_string(bound));
}

// The rewards and the baseline of these answers are those with which they arrived.
void check_rewards_used(World& world, const RolloutUnits& part) {
  const Answers& a = part.rollout->answers();
  const auto rewards = a.rewards.view<float>(), baselines = a.baselines.view<float>();
  const auto offsets = a.sampled.offsets.view<int64_t>();
  for (size_t i = 0; i < rewards.size(); ++i) {
    const DrawnRecord* record = world.tokens.find(a.sampled.log_probs.view<float>()[static_cast<size_t>(offsets[i])]);
    const auto group = static_cast<size_t>(a.group.view<int32_t>()[i]);
    if (record == nullptr) return;
    if (rewards[i] != record->reward || (!baselines.empty() && baselines[group] != record->baseline))
      return world.violate("answer " + std::to_string(i) +
                           " is used with another reward or baseline than it arrived with");
  }
}

}  // namespace

uint64_t least_version(const World& world, uint64_t index) {
  const ReplayConfig& replay = world.scenario.config.replay;
  return replay.late == "mask" ? index - std::min(index, static_cast<uint64_t>(replay.max_policy_lag)) : 0;
}

void note_request(World& world, const InferenceRequest& request, uint64_t process) {
  if (const auto* scoring = std::get_if<ScoringRequest>(&request.body))
    return check_scoring_request(world, request.worker, *scoring);
  if (request.answers().continues()) return note_turn(world, request);
  const auto prompt = request.answers().prompt.view<int32_t>();
  auto group = std::make_shared<AskedGroup>(AskedGroup{request.worker, process, {prompt.begin(), prompt.end()}, {}});
  for (const int64_t key : request.answers().keys.view<int64_t>()) group->keys.push_back(static_cast<uint64_t>(key));
  for (const uint64_t key : group->keys) {
    const auto [it, added] = world.tokens.asked.try_emplace(key, group);
    if (!added && it->second->process != process) return world.violate("a resumed run draws the same prompts again");
    if (!added && (it->second->prompt != group->prompt || it->second->worker != group->worker))
      return world.violate("two requests have answers with the same key");
  }
}

std::vector<DrawnRecord*> answers_of(World& world, const RolloutUnits& part) {
  std::vector<DrawnRecord*> result;
  const Answers& a = part.rollout->answers();
  for (int64_t i = 0; i < a.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (std::ranges::find(part.indices, a.group.view<int32_t>()[at]) == part.indices.end()) continue;
    if (DrawnRecord* record = world.tokens.find(
            a.sampled.log_probs.view<float>()[static_cast<size_t>(a.sampled.offsets.view<int64_t>()[at])]))
      result.push_back(record);
  }
  return result;
}

void check_answers(World& world, const Rollout& r, const std::map<uint64_t, bool>& published) {
  const std::string who = "rollout " + std::to_string(r.sequence) + " of worker " + std::to_string(r.worker);
  const Answers& a = r.answers();
  const auto count = static_cast<uint64_t>(a.count());
  if (r.samples != count || r.env_steps != count + r.unscored + r.verifier_failed + r.baselines)
    return world.violate(who + " claims " + std::to_string(r.samples) + " samples but contains " +
                         std::to_string(count));
  for (size_t i = 0; i < count && !world.violation; ++i) {
    const Answer answer{r, i, who + ", answer " + std::to_string(i)};
    check_tokens(world, answer, published);
    check_finish(world, answer);
    check_messages(world, answer);
  }
  if (!world.violation) check_reference(world, a, who);
  if (a.empty()) return check_all_missing(world, r, who);
  if (!world.violation) check_scores(world, r, who);
  if (!world.violation) check_group(world, r, who);
  const auto version = a.sampled.version.view<int64_t>();
  if (static_cast<uint64_t>(std::ranges::min(version)) != r.oldest ||
      static_cast<uint64_t>(std::ranges::max(version)) != r.newest)
    world.violate(who + ": oldest and newest are not those of its tokens");
}

void check_answer_use(World& world, const SuperBatch& batch) {
  const bool once = world.scenario.config.replay.mode == "consume_once";
  const auto limit = once ? 1u : static_cast<uint32_t>(world.scenario.config.replay.max_reuse);
  uint64_t samples = 0;
  std::set<const DrawnRecord*> seen;
  if (batch.least_version > least_version(world, batch.index))
    world.violate("update " + std::to_string(batch.index) + " masks tokens of versions below " +
                  std::to_string(batch.least_version) + ", which are new enough");
  for (const RolloutUnits& part : batch.parts) {
    if (part.rollout->newest < batch.least_version)
      world.violate("a group is used, although all of its tokens are masked");
    if (part.kind != UnitKind::group) return world.violate("a batch of a token run is not made of groups");
    for (size_t i = 0; i < static_cast<size_t>(part.rollout->answers().count()); ++i)
      check_lag(world, {*part.rollout, i, "answer " + std::to_string(i)}, batch);
    check_rewards_used(world, part);
    check_reference(world, part.rollout->answers(), "a group that is used");
    for (DrawnRecord* record : answers_of(world, part)) {
      ++samples;
      if (!seen.insert(record).second) world.violate("an answer occurs twice in a batch");
      if (++record->uses > limit) world.violate("an answer is used by more than " + std::to_string(limit) + " updates");
    }
  }
  const TrainerConfig& trainer = world.scenario.config.trainer;
  const auto super_batch = static_cast<uint64_t>(trainer.super_batch / trainer.shards);
  // Groups without all of their answers may not fill a batch exactly.
  const auto most =
      super_batch +
      (may_lack_scores(world.scenario) ? static_cast<uint64_t>(world.scenario.config.generation.answers) - 1 : 0);
  if (samples != batch.samples || samples < super_batch || samples > most)
    world.violate("a batch of " + std::to_string(samples) + " answers claims " + std::to_string(batch.samples) +
                  ", expected " + std::to_string(super_batch));
}

}  // namespace troupe::sim
