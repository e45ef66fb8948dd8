#pragma once
// Large messages in parts. CAF notices a silent peer only between whole messages, and a run closes a connection that
// announces a message of more than 4 * network.chunk_bytes + 1 MiB (tools/cli/join_listener.cpp). So a message whose
// payload is larger than network.chunk_bytes is serialised, cut, sent as Part messages in order and put together again.
// Plain logic; one thread each.
//
// Every message to a run or by way of it, and what bounds it:
//  - InferenceRequest, InferenceReply, RolloutMessage, WorkerReport to replay, RankSaid, RankCopy and RankMoments: in
//    parts above network.chunk_bytes. Beside the payload they have names, shapes and counts: a few kilobytes.
//  - WorkerReport to stats: without unfinished rollouts; its error text has at most kMostErrorBytes.
//  - EnvironmentsFailing, GradientsFailed, and the error with which an actor ends: a text of at most kMostErrorBytes.
//  - InferenceReport: two arrays of at most 4096 numbers.
//  - ServeRequest, RankReady: a name and a shape for each tensor of the model, at most kMostSequences
//  (runtime/caf/frame_reader.h)
//    lists and names; 1 MiB is 10,000 tensors with names of 80 bytes.
//  - JoinRequest: the name of a host. Part: network.chunk_bytes. WorkerHello, Pause, Applied, Serving, RankDone:
//    numbers.
// A node takes SpawnRequest: the name of a host. What a run or a node sends to a process that has joined has no limit
// there: Welcome (the config), Invitation, Expelled, Stop, InferenceReplaced, Credits.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include <caf/actor_addr.hpp>
#include <caf/send.hpp>

#include "actors/messages.h"
#include "runtime/caf/system.h"

namespace caf {
class actor_system;
}

namespace troupe {

// The parts of one serialised message, in order. `stream` tells messages of one sender apart.
std::vector<Part> split(const std::vector<char>& bytes, PartOf of, uint64_t stream, size_t chunk_bytes);

// Puts parts together again, per sender. A sender has at most one message under way; one that skips a part or sends
// more than a message may have loses it, and so does one for which no room is left. Room is made for the bytes that
// have come, never for those announced. Parts are kept until the message is whole or forget() is called: call it when a
// sender ends, and, where ends may go unnoticed, when one has been silent for long.
class PartAssembler {
 public:
  // Bytes of one message, and of the unfinished messages of all senders together.
  explicit PartAssembler(size_t most_of_one = kMaxArrayBytes,
                         uint64_t most_together = std::numeric_limits<uint64_t>::max())
      : most_of_one_(most_of_one), most_together_(most_together) {}

  // The whole message when `part` was its last one. Throws InvariantError when the part does not continue its message,
  // or passes a limit; the message is lost then.
  std::optional<std::vector<char>> add(const caf::actor_addr& sender, const Part& part);
  void forget(const caf::actor_addr& sender);
  // Of the unfinished messages.
  uint64_t bytes() const { return bytes_; }

 private:
  struct Open {
    PartOf of = PartOf::request;
    uint64_t stream = 0;
    uint32_t count = 0, next = 0;
    std::vector<char> bytes;
  };
  size_t most_of_one_;
  uint64_t most_together_;
  uint64_t bytes_ = 0;
  std::map<caf::actor_addr, Open> open_;
};

// The bytes of a message as CAF would send them, and back; throws std::runtime_error when they are no such message.
template <class Message>
std::vector<char> serialize(caf::actor_system& system, const Message& message);
template <class Message>
Message deserialize(caf::actor_system& system, const std::vector<char>& bytes);

// Bytes of the arrays and texts of a message, which is nearly all of it.
size_t payload_bytes(const RolloutMessage& message);
size_t payload_bytes(const InferenceRequest& request);
size_t payload_bytes(const InferenceReply& reply);
size_t payload_bytes(const WorkerReport& report);
size_t payload_bytes(const RankState& state);
size_t payload_bytes(const RankSamples& samples);
size_t payload_bytes(const RankSaid& said);
size_t payload_bytes(const RoundSaid& said);
size_t payload_bytes(const RankCopy& copy);
size_t payload_bytes(const RankMoments& moments);

inline PartOf part_of(const RolloutMessage&) { return PartOf::rollout; }
inline PartOf part_of(const InferenceRequest&) { return PartOf::request; }
inline PartOf part_of(const InferenceReply&) { return PartOf::reply; }
inline PartOf part_of(const WorkerReport&) { return PartOf::report; }
inline PartOf part_of(const RankState&) { return PartOf::rank_state; }
inline PartOf part_of(const RankSamples&) { return PartOf::rank_samples; }
inline PartOf part_of(const RankSaid&) { return PartOf::rank_said; }
inline PartOf part_of(const RoundSaid&) { return PartOf::round_said; }
inline PartOf part_of(const RankCopy&) { return PartOf::rank_copy; }
inline PartOf part_of(const RankMoments&) { return PartOf::rank_moments; }

// Sends a message from `self`: whole and without a copy inside a process, whole when it is small, else in parts.
// `streams` counts the messages that `self` has sent in parts.
template <class Self, class Service, class Message>
void send_in_parts(Self self, const Service& service, Message message, size_t chunk_bytes, uint64_t& streams) {
  if (service.node() == self->node() || payload_bytes(message) <= chunk_bytes) {
    self->send(service, std::move(message));
    return;
  }
  for (Part& part : split(serialize(self->system(), message), part_of(message), ++streams, chunk_bytes))
    self->send(service, std::move(part));
}

}  // namespace troupe
