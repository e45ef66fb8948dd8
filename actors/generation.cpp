#include "actors/generation.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/experience/answers/answer_checks.h"
#include "actors/experience/common/state_bytes.h"
#include "actors/experience/kinds.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using GenerationSelf = SelfPointer<InferenceActor, GenerationState>;

constexpr std::chrono::milliseconds kGenerationReportInterval{500};
constexpr size_t kMostLatencies = 4096;  // between two reports

void send_reply(GenerationSelf self, const caf::strong_actor_ptr& client, InferenceReply reply) {
  auto& st = self->state;
  send_in_parts(self, caf::actor_cast<InferenceClient>(client), std::move(reply),
                static_cast<size_t>(st.context->config.network.chunk_bytes), st.streams);
}

void fail(GenerationSelf self, const GenerationState::Pending& pending, Fault fault, const std::string& error) {
  InferenceReply reply;
  reply.id = pending.request.id;
  reply.group = pending.request.group;
  if (self->state.version) reply.version = *self->state.version;
  reply.fault = fault;
  reply.error = error.substr(0, kMostErrorBytes);
  send_reply(self, pending.client, std::move(reply));
}

InferenceReply reply_of(const InferenceRequest& request, PolicyVersion newest, const Generation& done) {
  std::vector<int32_t> tokens;
  std::vector<int64_t> offsets{0}, version;
  std::vector<float> log_probs;
  std::vector<uint8_t> finish;
  for (const GeneratedAnswer& answer : done.answers) {
    tokens.insert(tokens.end(), answer.tokens.begin(), answer.tokens.end());
    log_probs.insert(log_probs.end(), answer.log_probs.begin(), answer.log_probs.end());
    version.insert(version.end(), answer.version.begin(), answer.version.end());
    offsets.push_back(static_cast<int64_t>(tokens.size()));
    finish.push_back(static_cast<uint8_t>(answer.finish));
  }
  InferenceReply reply;
  reply.id = request.id;
  reply.group = request.group;
  reply.version = newest;
  reply.body = AnswerReply{.tokens = Array::of(tokens),
                           .offsets = Array::of(offsets),
                           .log_probs = Array::of(log_probs),
                           .version = Array::of(version),
                           .finish = Array::of(finish)};
  return reply;
}

void continue_steps(GenerationSelf self) {
  auto& st = self->state;
  if (!st.version || st.scheduler->idle() || std::exchange(st.stepping, true)) return;
  self->send(self, due_atom_v, uint64_t{0});
}

void schedule(GenerationSelf self, uint64_t ticket, const AnswerRequest& request) {
  auto& st = self->state;
  const auto prompt = request.prompt.view<int32_t>();
  GenerationRequest asked{.ticket = ticket,
                          .prompt = {prompt.begin(), prompt.end()},
                          .max_tokens = st.context->tokens->answer_tokens,
                          .keys = {},
                          .greedy = false};
  for (const int64_t key : request.keys.view<int64_t>()) asked.keys.push_back(static_cast<uint64_t>(key));
  st.scheduler->add(std::move(asked));
}

void on_request(GenerationSelf self, const InferenceRequest& request) {
  auto& st = self->state;
  const caf::strong_actor_ptr& sender = self->current_sender();
  if (!sender) return;  // the connection is already lost
  const auto* asked = std::get_if<AnswerRequest>(&request.body);
  if (asked == nullptr) return fail(self, {sender, request}, Fault::bad_message, "the request is not one for answers");
  if (const auto why = misfit(st.context->config, *st.context->tokens, *asked))
    return fail(self, {sender, request}, Fault::bad_message, *why);
  for (auto it = st.pending.begin(); it != st.pending.end(); ++it) {
    const GenerationState::Pending& other = it->second;
    if (other.client != sender || other.request.group != request.group) continue;
    if (other.request.id == request.id) return;  // it has come again, and is in progress
    st.scheduler->forget(it->first);
    st.pending.erase(it);
    break;
  }
  if (st.clients.insert(sender->address()).second) self->monitor(caf::actor_cast<caf::actor>(sender));
  const uint64_t ticket = st.next_ticket++;
  st.pending.emplace(ticket, GenerationState::Pending{sender, request});
  schedule(self, ticket, *asked);
  continue_steps(self);
}

void on_part(GenerationSelf self, const Part& part) {
  auto& st = self->state;
  if (!self->current_sender()) return;
  InferenceRequest request;
  try {
    TROUPE_CHECK(part.of == PartOf::request, static_cast<int>(part.of));
    const auto whole = st.parts.add(self->current_sender()->address(), part);
    if (!whole) return;
    request = deserialize<InferenceRequest>(self->system(), *whole);
  } catch (const std::exception& e) {
    return st.log.warn(std::string("a request is dropped: ") + e.what(), self->clock().now());
  }
  on_request(self, request);
}

void on_down(GenerationSelf self, const caf::down_msg& down) {
  auto& st = self->state;
  st.parts.forget(down.source);
  st.clients.erase(down.source);
  std::erase_if(st.pending, [&](const auto& entry) {
    if (entry.second.client->address() != down.source) return false;
    st.scheduler->forget(entry.first);
    return true;
  });
}

void step(GenerationSelf self) {
  auto& st = self->state;
  st.stepping = false;
  if (!st.version || st.scheduler->idle()) return;
  const auto begun = std::chrono::steady_clock::now();
  std::vector<Generation> done;
  try {
    done = st.scheduler->step(*st.generator, st.version->number);
  } catch (const std::exception& e) {
    ++st.report.failed;
    for (const auto& [ticket, pending] : std::exchange(st.pending, {})) {
      st.scheduler->forget(ticket);
      fail(self, pending, Fault::forward_failed, e.what());
    }
    return;
  }
  ++st.report.batches;
  const auto rows = static_cast<int32_t>(st.scheduler->last_rows());
  st.report.rows += static_cast<uint64_t>(rows);
  if (st.batch_rows.size() < kMostLatencies) {
    st.batch_rows.push_back(rows);
    st.latency_us.push_back(std::chrono::duration<float, std::micro>(std::chrono::steady_clock::now() - begun).count());
  }
  for (const Generation& each : done) {
    const auto it = st.pending.find(each.ticket);
    send_reply(self, it->second.client, reply_of(it->second.request, *st.version, each));
    st.pending.erase(it);
  }
  continue_steps(self);
}

void load(GenerationSelf self, const WeightSnapshot& weights) {
  auto& st = self->state;
  if (st.version && weights.version <= *st.version) return;
  st.generator->load(weights);
  // An answer has tokens of one start of the run only.
  if (st.version && st.version->epoch != weights.version.epoch)
    for (const auto& [ticket, pending] : st.pending) {
      st.scheduler->forget(ticket);
      schedule(self, ticket, pending.request.answers());
    }
  st.version = weights.version;
  self->send(st.peers.replay, Applied{st.inference_index, *st.version});
  self->send(st.peers.stats, Applied{st.inference_index, *st.version});
  continue_steps(self);
}

void report(GenerationSelf self) {
  auto& st = self->state;
  InferenceReport report = st.report;
  report.inference_index = st.inference_index;
  if (st.version) report.version = *st.version;
  report.busy_us = self->busy_us();
  report.batch_rows = Array::of(std::exchange(st.batch_rows, {}));
  report.latency_us = Array::of(std::exchange(st.latency_us, {}));
  self->send(st.peers.stats, std::move(report));
}

}  // namespace

InferenceActor::behavior_type generation_actor(GenerationSelf self, RunContextPtr context,
                                               InferenceIndex inference_index, InferencePeers peers) {
  guard(self);
  auto& st = self->state;
  st.context = context;
  st.inference_index = inference_index;
  st.peers = peers;
  st.generator = context->make_generator();
  st.scheduler.emplace(*st.generator, context->tokens->generation(context->config));
  const size_t most = kind_of(*context).most_bytes_of_request(*context);
  st.parts = PartAssembler(most, 64 * most);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->send(peers.publisher, next_atom_v);
  const std::string name = "inference " + std::to_string(inference_index);
  if (const std::string* state = context->state_of(name))
    restoring([&] { from_bytes(*state, name, st.report.batches, st.report.rows, st.report.failed); });
  beat_after(self, *context, kGenerationReportInterval);
  return {
      [self](const InferenceRequest& request) { on_request(self, request); },
      [self](const Part& part) { on_part(self, part); },
      [](const Pause&) {},  // a step never waits for a client
      [self](const WeightsMessage& message) { load(self, *message.weights); },
      [self](due_atom, uint64_t) { step(self); },
      [self, context](beat_atom) {
        report(self);
        beat_after(self, *context, kGenerationReportInterval);
      },
      [self, name](const SaveMessage& save) {
        const InferenceReport& r = self->state.report;
        TROUPE_CHECK(self->state.pending.empty(), self->state.pending.size());
        self->send(save.recorder, ActorState{name, to_bytes(r.batches, r.rows, r.failed)});
      },
      [self](const Stop&) {
        for (const auto& [ticket, pending] : self->state.pending)
          fail(self, pending, Fault::shutting_down, "the run is ending");
        report(self);
        self->quit();
      },
  };
}

}  // namespace troupe
