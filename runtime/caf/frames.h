#pragma once
// Checks what a connected peer sends. CAF 0.17.6 trusts its peers: a header whose payload is missing crashes it,
// so does a payload of a type that CAF handles internally (links, exits, nested messages), and CAF allocates any length
// that a header announces. So this code reads every frame completely first and passes on only frames that CAF can
// handle and troupe's protocol needs.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <caf/deserializer.hpp>
#include <caf/error.hpp>
#include <caf/fwd.hpp>
#include <caf/node_id.hpp>
#include <caf/type_id.hpp>

namespace caf {
class actor_system;
}

namespace troupe {

class FrameReader;

// A type that may be the whole content of a message: its name on the wire, and how one is read.
struct AcceptedType {
  std::string_view name;
  caf::error (*read)(caf::deserializer&);
  bool relayed;  // may be addressed to another process, to which this one relays it
};

template <class T>
AcceptedType accepted_type(bool relayed) {
  return {caf::type_name<T>::value,
          [](caf::deserializer& source) -> caf::error {
            T message{};
            return source(message);
          },
          relayed};
}

// All messages that a listening process accepts from its peers, besides CAF's own.
struct AcceptedMessages {
  std::vector<AcceptedType> types;

  // Whether this process relays frames between its peers.
  bool relays() const;
};

// Maximum number of a peer's own actors that it may name, as senders and in messages, at a time: CAF keeps a proxy for
// each until the peer reports its end. A process of 1000 workers names about 2000.
constexpr size_t kMostActorsOfPeer = 16384;

constexpr size_t kFrameHeaderBytes = 32;
constexpr size_t kNodeIdBytes = 32;
using NodeIdBytes = std::array<char, kNodeIdBytes>;

// The frames of one connection that was accepted, in order. Used only by the network thread.
class FrameCheck {
 public:
  // `messages` must outlive it. `max_payload_bytes` is for one frame, after the handshake.
  FrameCheck(caf::actor_system& system, const AcceptedMessages& messages, size_t max_payload_bytes);

  // Why the next piece must not reach CAF, as text that continues "it ..."; empty when it may. A piece is a
  // header of kFrameHeaderBytes or, when that has announced one, its whole payload.
  std::string check(std::span<const char> piece);
  // Bytes of the payload that the last header announced; 0 when the next piece is a header.
  size_t awaits() const { return in_payload_ ? header_.payload_bytes : 0; }
  // Whether the peer has said who it is.
  bool introduced() const { return handshakes_ > 0; }

 private:
  struct Header {
    uint8_t operation = 0;
    uint8_t flags = 0;
    uint32_t payload_bytes = 0;
    uint64_t data = 0, source = 0, target = 0;
  };

  std::string check_header(std::span<const char> piece);
  std::string check_handshake(std::span<const char> payload);
  std::string check_payload(std::span<const char> payload);
  std::string check_message(FrameReader& reader, bool relayed) const;
  std::string check_content(FrameReader& reader, const std::string& name, bool relayed) const;
  bool is_relayed(FrameReader& reader) const;
  void note_actors(const std::vector<caf::actor_id>& in_message);

  caf::actor_system& system_;
  const AcceptedMessages& messages_;
  size_t max_payload_bytes_;
  NodeIdBytes own_node_{};
  NodeIdBytes peer_{};
  caf::node_id peer_id_;
  std::unordered_set<caf::actor_id> actors_of_peer_;  // named by the peer, not yet ended
  uint32_t handshakes_ = 0;
  bool in_payload_ = false;
  Header header_;
};

}  // namespace troupe
