#pragma once
// Large messages in parts. CAF notices a silent peer only between whole messages and trusts the length of each, so
// nothing larger than network.chunk_bytes crosses the network in one piece: it is serialised, cut, sent as Part
// messages in order and put together again. Plain logic; one thread each.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include <caf/actor_addr.hpp>

#include "actors/messages.h"

namespace caf {
class actor_system;
}

namespace troupe {

// The parts of one serialised message, in order. `stream` tells messages of one sender apart.
std::vector<Part> split(const std::vector<char>& bytes, uint64_t stream, size_t chunk_bytes);

// Puts parts together again, per sender. A sender has at most one message under way; one that skips a part or sends
// more than a message may have loses it, and so does one for which no room is left. Parts are kept until the message is
// whole or forget() is called: call it when a sender ends, and, where ends may go unnoticed, when one has been silent
// for long.
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
    uint64_t stream = 0;
    uint32_t next = 0;
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

// Bytes of the arrays of a message, which is nearly all of it.
size_t payload_bytes(const RolloutMessage& message);
size_t payload_bytes(const ActRequest& request);

}  // namespace troupe
