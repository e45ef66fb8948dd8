#include "runtime/caf/frames.h"

#include <algorithm>

#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <caf/atom.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/io/basp/header.hpp>

#include "runtime/caf/frame_reader.h"

namespace troupe {

namespace {

namespace basp = caf::io::basp;
using basp::message_type;

constexpr uint32_t kMaxHandshakes = 2;  // the first frame, and one that chooses between two connections
constexpr uint8_t kMaxErrorTexts = 8;

const char* name_of(message_type operation) {
  switch (operation) {
    case message_type::server_handshake: return "a server's handshake";
    case message_type::client_handshake: return "a handshake";
    case message_type::direct_message: return "a direct message";
    case message_type::routed_message: return "a routed message";
    case message_type::monitor_message: return "a monitor message";
    case message_type::down_message: return "a down message";
    case message_type::heartbeat: return "a heartbeat";
  }
  return "an operation";
}

std::string without_article(const std::string& name) { return name.substr(name.find(' ') + 1); }

constexpr std::string_view kNodeInfoRequest = "@atom+@atom+@str";            // CAF's request after connecting
constexpr std::string_view kNodeInfo = "@atom+@str+@strong_actor_ptr+@str";  // and its answer
const uint64_t kSpawnServer = static_cast<uint64_t>(caf::atom("SpawnServ"));

bool is_node_id(const NodeIdBytes& node) {
  const auto not_zero = [](char byte) { return byte != 0; };
  return big_endian<uint64_t>(node.data()) == static_cast<uint64_t>(caf::node_id::default_data::class_id) &&
         std::any_of(node.begin() + 8, node.begin() + 12, not_zero) &&
         std::any_of(node.begin() + 12, node.end(), not_zero);
}

// An error code, its category, and a context of texts.
void read_error(FrameReader& reader) {
  reader.number<uint8_t>();
  reader.number<uint64_t>();
  if (reader.number<uint16_t>() != 0) throw Refusal{"sent an error with a context of an unknown kind"};
  const std::string types = reader.text();
  constexpr std::string_view kText = "+@str";
  if (!types.starts_with("@<>") || types.size() > 3 + kText.size() * kMaxErrorTexts)
    throw Refusal{"sent an error with a context of an unknown kind"};
  for (std::string_view rest = std::string_view(types).substr(3); !rest.empty(); rest.remove_prefix(kText.size())) {
    if (!rest.starts_with(kText)) throw Refusal{"sent an error with a context of an unknown kind"};
    reader.text();
  }
}

}  // namespace

bool AcceptedMessages::relays() const { return std::ranges::any_of(types, &AcceptedType::relayed); }

FrameCheck::FrameCheck(caf::actor_system& system, const AcceptedMessages& messages, size_t max_payload_bytes)
    : system_(system), messages_(messages), max_payload_bytes_(max_payload_bytes) {
  std::vector<char> bytes;
  caf::binary_serializer sink{system, bytes};
  caf::node_id node = system.node();
  if (!sink(node) && bytes.size() == own_node_.size()) std::copy(bytes.begin(), bytes.end(), own_node_.begin());
}

std::string FrameCheck::check(std::span<const char> piece) {
  try {
    const std::string why = in_payload_ ? check_payload(piece) : check_header(piece);
    in_payload_ = !in_payload_ && header_.payload_bytes > 0;
    return why;
  } catch (const Refusal& refusal) {
    return refusal.why;
  } catch (const std::exception& error) {
    return std::string("sent a message that cannot be read: ") + error.what();
  }
}

std::string FrameCheck::check_header(std::span<const char> piece) {
  if (piece.size() != kFrameHeaderBytes) return "sent less than a header";
  Header& h = header_;
  h = {static_cast<uint8_t>(piece[0]),  static_cast<uint8_t>(piece[3]),   big_endian<uint32_t>(&piece[4]),
       big_endian<uint64_t>(&piece[8]), big_endian<uint64_t>(&piece[16]), big_endian<uint64_t>(&piece[24])};
  const auto operation = static_cast<message_type>(h.operation);
  if (h.operation > static_cast<uint8_t>(message_type::heartbeat) || piece[1] != 0 || piece[2] != 0)
    return "does not speak the protocol of troupe's processes";
  if (!introduced() && operation != message_type::client_handshake)
    return std::string("began with ") + name_of(operation) + " instead of its handshake";
  const size_t limit = operation == message_type::client_handshake ? kNodeIdBytes : max_payload_bytes_;
  if (h.payload_bytes > limit)
    return "announced a payload of " + std::to_string(h.payload_bytes) + " bytes for its " +
           without_article(name_of(operation)) + "; the limit is " + std::to_string(limit);
  const auto malformed = [&] { return std::string("sent ") + name_of(operation) + " with a malformed header"; };
  switch (operation) {
    case message_type::server_handshake: return "sent a server's handshake, but it is the client";
    case message_type::client_handshake:
      if (handshakes_ >= kMaxHandshakes) return "repeated its handshake";
      if (h.payload_bytes != kNodeIdBytes || (h.flags & ~basp::header::select_connection_flag) != 0 || h.data != 0 ||
          h.source != 0 || h.target != 0)
        return malformed();
      break;
    case message_type::direct_message:
    case message_type::routed_message:
      if (h.payload_bytes == 0 || (h.flags & ~basp::header::named_receiver_flag) != 0 || h.target == 0)
        return malformed();
      break;
    case message_type::monitor_message:
      if (h.payload_bytes != 2 * kNodeIdBytes || h.flags != 0 || h.data != 0 || h.source != 0 || h.target == 0)
        return malformed();
      break;
    case message_type::down_message:
      if (h.payload_bytes == 0 || h.flags != 0 || h.data != 0 || h.source == 0 || h.target != 0) return malformed();
      break;
    case message_type::heartbeat:
      if (h.payload_bytes != 0 || h.flags != 0 || h.data != 0 || h.source != 0 || h.target != 0) return malformed();
      break;
  }
  return "";
}

std::string FrameCheck::check_handshake(std::span<const char> payload) {
  NodeIdBytes node{};
  std::copy(payload.begin(), payload.end(), node.begin());
  if (!is_node_id(node)) return "sent a handshake without a valid name of its process";
  if (node == own_node_)
    return "has the same host id and process id as this process (containers that share a host network?)";
  if (introduced() && node != peer_) return "changed its name in a second handshake";
  caf::binary_deserializer source(system_, payload.data(), payload.size());
  if (source(peer_id_)) return "sent a handshake without a valid name of its process";
  peer_ = node;
  ++handshakes_;
  return "";
}

// Reads sender and receiver of a frame and returns whether the receiver is in another process. A peer may only send
// frames in its own name.
bool FrameCheck::is_relayed(FrameReader& reader) const {
  if (reader.node() != peer_) throw Refusal{"sent a message in another process's name"};
  const NodeIdBytes receiver = reader.node();
  if (!is_node_id(receiver)) throw Refusal{"sent a message for no valid process"};
  if (receiver != own_node_ && !messages_.relays()) throw Refusal{"sent a message for another process"};
  return receiver != own_node_;
}

void FrameCheck::note_actors(const std::vector<caf::actor_id>& in_message) {
  if (static_cast<message_type>(header_.operation) == message_type::down_message) {
    actors_of_peer_.erase(header_.source);
    return;
  }
  if (header_.source != 0) actors_of_peer_.insert(header_.source);
  actors_of_peer_.insert(in_message.begin(), in_message.end());
  if (actors_of_peer_.size() > kMostActorsOfPeer)
    throw Refusal{"named more than " + std::to_string(kMostActorsOfPeer) + " actors that have not ended"};
}

std::string FrameCheck::check_payload(std::span<const char> payload) {
  if (payload.size() != header_.payload_bytes) return "sent less than it announced";
  const auto operation = static_cast<message_type>(header_.operation);
  if (operation == message_type::client_handshake) return check_handshake(payload);
  CheckContext context(system_, peer_id_);
  FrameReader reader(&context, payload);
  const bool relayed = operation != message_type::direct_message && is_relayed(reader);
  if (operation == message_type::direct_message || operation == message_type::routed_message) {
    if (std::string why = check_message(reader, relayed); !why.empty()) return why;
  } else if (operation == message_type::down_message) {
    read_error(reader);
  }
  if (context.handles.of_others) return "sent a message with an actor of another process";
  note_actors(context.handles.of_peer);
  return reader.remaining() == 0 ? "" : std::string("sent ") + name_of(operation) + " with bytes after its end";
}

std::string FrameCheck::check_message(FrameReader& reader, bool relayed) const {
  if (reader.number<uint8_t>() != 0) return "sent a message with a list of forwarding actors";
  if (reader.number<uint16_t>() != 0) return "sent a message of an unknown kind";
  const std::string types = reader.text();
  if (types == "@<>" && !relayed) return "";
  if (!types.starts_with("@<>+")) return "sent a message of an unknown kind";
  return check_content(reader, types.substr(4), relayed);
}

std::string FrameCheck::check_content(FrameReader& reader, const std::string& name, bool relayed) const {
  const bool named = (header_.flags & basp::header::named_receiver_flag) != 0;
  if (named != (name == kNodeInfoRequest) || (named && header_.target != kSpawnServer))
    return "addressed a message of type " + name.substr(0, 80) + (named ? " by name" : " by number");
  if (named) {
    const auto first = reader.number<uint64_t>(), second = reader.number<uint64_t>();
    reader.text();
    const bool known = first == caf::sys_atom::uint_value() && second == caf::get_atom::uint_value();
    return known ? "" : "asked something unknown about this process";
  }
  if (name == kNodeInfo) {
    const auto first = reader.number<uint64_t>();
    caf::strong_actor_ptr server;
    reader.text();
    if (first != caf::ok_atom::uint_value() || reader(server)) return "sent malformed news about its process";
    reader.text();
    return "";
  }
  const auto type = std::ranges::find(messages_.types, name, &AcceptedType::name);
  if (relayed && (type == messages_.types.end() || !type->relayed))
    return "sent a message of type " + name.substr(0, 80) + " for another process";
  if (name == "@error") {
    read_error(reader);
    return "";
  }
  if (type == messages_.types.end())
    return "sent a message of type " + name.substr(0, 80) + ", which is not for this process";
  return type->read(reader) ? "sent a malformed message of type " + name : "";
}

}  // namespace troupe
