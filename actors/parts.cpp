#include "actors/parts.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <caf/actor_system.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

namespace troupe {

std::vector<Part> split(const std::vector<char>& bytes, PartOf of, uint64_t stream, size_t chunk_bytes) {
  TROUPE_CHECK(chunk_bytes > 0 && !bytes.empty(), chunk_bytes, bytes.size());
  const size_t count = (bytes.size() + chunk_bytes - 1) / chunk_bytes;
  std::vector<Part> parts;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * chunk_bytes, size = std::min(chunk_bytes, bytes.size() - begin);
    Array data = Array::uninitialized(DType::u8, {static_cast<int64_t>(size)});
    std::memcpy(data.mutable_data(), bytes.data() + begin, size);
    parts.push_back({of, stream, static_cast<uint32_t>(i), static_cast<uint32_t>(count), data});
  }
  return parts;
}

std::optional<std::vector<char>> PartAssembler::add(const caf::actor_addr& sender, const Part& part) {
  if (part.index == 0) forget(sender);
  const auto [it, added] = open_.try_emplace(sender, Open{part.of, part.stream, part.count, 0, {}});
  Open& open = it->second;
  const bool fits = part.of == open.of && part.stream == open.stream && part.count == open.count &&
                    part.index == open.next && part.index < part.count && part.data.dtype() == DType::u8 &&
                    !part.data.empty();
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
template std::vector<char> serialize(caf::actor_system&, const InferenceRequest&);
template std::vector<char> serialize(caf::actor_system&, const InferenceReply&);
template std::vector<char> serialize(caf::actor_system&, const WorkerReport&);
template std::vector<char> serialize(caf::actor_system&, const RankState&);
template std::vector<char> serialize(caf::actor_system&, const RankSamples&);
template std::vector<char> serialize(caf::actor_system&, const RankSaid&);
template std::vector<char> serialize(caf::actor_system&, const RoundSaid&);
template std::vector<char> serialize(caf::actor_system&, const RankCopy&);
template std::vector<char> serialize(caf::actor_system&, const RankMoments&);
template RankState deserialize(caf::actor_system&, const std::vector<char>&);
template RankSamples deserialize(caf::actor_system&, const std::vector<char>&);
template RankSaid deserialize(caf::actor_system&, const std::vector<char>&);
template RoundSaid deserialize(caf::actor_system&, const std::vector<char>&);
template RankCopy deserialize(caf::actor_system&, const std::vector<char>&);
template RankMoments deserialize(caf::actor_system&, const std::vector<char>&);
template RolloutMessage deserialize(caf::actor_system&, const std::vector<char>&);
template InferenceRequest deserialize(caf::actor_system&, const std::vector<char>&);
template InferenceReply deserialize(caf::actor_system&, const std::vector<char>&);
template WorkerReport deserialize(caf::actor_system&, const std::vector<char>&);

namespace {

size_t bytes_of(uint64_t number) { return sizeof(number); }
size_t bytes_of(const Array& array) { return array.bytes(); }
size_t bytes_of(const Arrays& arrays) { return arrays.bytes(); }
size_t bytes_of(const Episodes& episodes) {
  return episodes.returns.bytes() + episodes.lengths.bytes() + episodes.success.bytes();
}

// Of a body of any kind.
template <class Body>
size_t bytes_of_fields(const Body& body) {
  const auto all = [](const auto&... fields) { return (size_t{0} + ... + bytes_of(fields)); };
  return std::visit([&](const auto& each) { return each.fields(each, all); }, body);
}

}  // namespace

size_t payload_bytes(const RolloutMessage& message) {
  return bytes_of_fields(message.rollout->body) + bytes_of(message.rollout->episodes);
}

namespace {

size_t bytes_of(const std::vector<ShardNumbers>& numbers, const std::vector<Array>& data,
                const std::optional<Array>& own) {
  size_t bytes = own ? own->bytes() : 0;
  for (const ShardNumbers& each : numbers) bytes += each.size() * sizeof(double);
  for (const Array& each : data) bytes += each.bytes();
  return bytes;
}

size_t bytes_of(const AdamMoments& moments) { return moments.first.bytes() + moments.second.bytes(); }
size_t bytes_of(const std::vector<AdamMoments>& slices) {
  size_t bytes = 0;
  for (const AdamMoments& slice : slices) bytes += bytes_of(slice);
  return bytes;
}

}  // namespace

size_t payload_bytes(const RankState& state) {
  size_t bytes = bytes_of(state.moments) + bytes_of(state.next);
  for (const auto* tensors : {&state.learner->model, &state.learner->optimizer})
    for (const auto& [name, tensor] : *tensors) bytes += name.size() + tensor.bytes();
  return bytes;
}

size_t payload_bytes(const RankSamples& samples) {
  size_t bytes = 0;
  for (const auto& batch : samples.batches)
    for (const RolloutUnits& units : batch->parts)
      bytes += payload_bytes(RolloutMessage{units.rollout}) + units.indices.size() * sizeof(int32_t);
  return bytes;
}

size_t payload_bytes(const RankSaid& said) {
  size_t bytes = bytes_of(said.part.numbers, said.part.data, said.part.own);
  for (const GradientBranch& branch : said.part.branches) bytes += branch.values.bytes();
  return bytes;
}

size_t payload_bytes(const RoundSaid& said) {
  return bytes_of(said.all.numbers, said.all.data, said.all.own) + said.all.gradients.bytes();
}

size_t payload_bytes(const RankCopy& copy) { return bytes_of(copy.piece); }
size_t payload_bytes(const RankMoments& moments) { return bytes_of(moments.slices); }

size_t payload_bytes(const InferenceRequest& request) { return bytes_of_fields(request.body); }

size_t payload_bytes(const InferenceReply& reply) { return bytes_of_fields(reply.body) + reply.error.size(); }

size_t payload_bytes(const WorkerReport& report) {
  size_t bytes = report.last_error.size();
  for (const PartialRollout& partial : report.partial) bytes += bytes_of(partial.episodes);
  return bytes;
}

}  // namespace troupe
