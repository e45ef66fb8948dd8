#include "actors/parts.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <caf/actor_system.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

namespace troupe {

std::vector<Part> split(const std::vector<char>& bytes, uint64_t stream, size_t chunk_bytes) {
  TROUPE_CHECK(chunk_bytes > 0 && !bytes.empty(), chunk_bytes, bytes.size());
  const size_t count = (bytes.size() + chunk_bytes - 1) / chunk_bytes;
  std::vector<Part> parts;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * chunk_bytes, size = std::min(chunk_bytes, bytes.size() - begin);
    Array data = Array::uninitialized(DType::u8, {static_cast<int64_t>(size)});
    std::memcpy(data.mutable_data(), bytes.data() + begin, size);
    parts.push_back({stream, static_cast<uint32_t>(i), static_cast<uint32_t>(count), data});
  }
  return parts;
}

std::optional<std::vector<char>> PartAssembler::add(const caf::actor_addr& sender, const Part& part) {
  if (part.index == 0) forget(sender);
  const auto [it, added] = open_.try_emplace(sender, Open{part.stream, 0, {}});
  Open& open = it->second;
  const bool fits = part.stream == open.stream && part.index == open.next && part.index < part.count &&
                    part.data.dtype() == DType::u8;
  const size_t size = open.bytes.size() + part.data.bytes();
  const uint64_t together = bytes_ + part.data.bytes();
  if (!fits || size > most_of_one_ || together > most_together_) {
    forget(sender);
    TROUPE_CHECK(fits, "part", part.index, "of", part.count, "does not continue its message");
    TROUPE_CHECK(size <= most_of_one_, "a message in parts is larger than any of this run:", size, "of", most_of_one_);
    TROUPE_CHECK(together <= most_together_, "unfinished messages are larger than they may be together:", together,
                 "of", most_together_);
  }
  const auto* data = reinterpret_cast<const char*>(part.data.data());
  open.bytes.insert(open.bytes.end(), data, data + part.data.bytes());
  bytes_ += part.data.bytes();
  if (++open.next < part.count) return std::nullopt;
  std::vector<char> whole = std::move(open.bytes);
  bytes_ -= whole.size();
  open_.erase(it);
  return whole;
}

void PartAssembler::forget(const caf::actor_addr& sender) {
  const auto it = open_.find(sender);
  if (it == open_.end()) return;
  bytes_ -= it->second.bytes.size();
  open_.erase(it);
}

template <class Message>
std::vector<char> serialize(caf::actor_system& system, const Message& message) {
  std::vector<char> bytes;
  bytes.reserve(payload_bytes(message) + 4096);
  caf::binary_serializer sink(system, bytes);
  if (sink(const_cast<Message&>(message))) throw std::runtime_error("a message cannot be serialised");
  return bytes;
}

template <class Message>
Message deserialize(caf::actor_system& system, const std::vector<char>& bytes) {
  Message message;
  caf::binary_deserializer source(system, bytes);
  if (source(message)) throw std::runtime_error("a message in parts is damaged");
  return message;
}

template std::vector<char> serialize(caf::actor_system&, const RolloutMessage&);
template std::vector<char> serialize(caf::actor_system&, const ActRequest&);
template RolloutMessage deserialize(caf::actor_system&, const std::vector<char>&);
template ActRequest deserialize(caf::actor_system&, const std::vector<char>&);

size_t payload_bytes(const RolloutMessage& message) {
  const Rollout& r = *message.rollout;
  return r.observations.bytes() + r.action_mask.bytes() + r.actions.bytes() + r.log_probs.bytes() +
         r.advantages.bytes() + r.returns.bytes() + r.last_observations.bytes() + r.final_observations.bytes() +
         r.chunk_states.bytes() + r.policy_parameters.bytes() +
         7 * r.values.bytes();  // 7: the other arrays with one number for each step
}

size_t payload_bytes(const ActRequest& request) {
  return request.observations.bytes() + request.action_mask.bytes() + request.seeds.bytes() +
         request.value_observations.bytes() + request.state.bytes() + request.value_state.bytes();
}

}  // namespace troupe
