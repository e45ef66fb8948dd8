#pragma once
// FrameReader: reads the payload of a frame like CAF's binary_deserializer, but rejects lengths beyond the end, copies
// no array and refuses messages that would need much more memory than their bytes. Used by FrameCheck, on the network
// thread.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <caf/actor_control_block.hpp>
#include <caf/deserializer.hpp>
#include <caf/execution_unit.hpp>
#include <caf/node_id.hpp>
#include <caf/proxy_registry.hpp>
#include <caf/sec.hpp>

#include "runtime/caf/frames.h"

namespace troupe {

// Thrown for a frame that is refused. `why` continues a sentence that begins with "it".
struct Refusal {
  std::string why;
};

template <class T>
T big_endian(const char* bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value << 8 | static_cast<uint8_t>(bytes[i]));
  return value;
}

// Records the actor handles of a message that is only checked, without creating proxies for them.
class HandleNotes : public caf::proxy_registry::backend {
 public:
  explicit HandleNotes(const caf::node_id& peer) : peer_(peer) {}
  caf::strong_actor_ptr make_proxy(caf::node_id node, caf::actor_id actor) override {
    const bool nobody = node == caf::none || actor == caf::invalid_actor_id;
    if (!nobody && node == peer_) of_peer.push_back(actor);
    if (!nobody && node != peer_) of_others = true;
    return nullptr;
  }
  void set_last_hop(caf::node_id*) override {}

  std::vector<caf::actor_id> of_peer;
  bool of_others = false;  // neither of the peer nor of this process

 private:
  const caf::node_id& peer_;
};

class CheckContext : public caf::execution_unit {
 public:
  CheckContext(caf::actor_system& system, const caf::node_id& peer)
      : execution_unit(&system), handles(peer), registry_(system, handles) {
    proxy_registry_ptr(&registry_);
  }
  void exec_later(caf::resumable*) override {}

  HandleNotes handles;

 private:
  caf::proxy_registry registry_;
};

// Lists and texts in one message. Each costs the receiver up to about 400 bytes of memory beside its own, however short
// it is on the wire (an entry of Arrays, a tensor of a signature, an array of an unfinished rollout), so this bounds
// what a message of many short ones takes to some 13 MB. A signature has two for each tensor.
constexpr size_t kMostSequences = 32768;
// Elements of one list: extents of an array, or unfinished rollouts, of which a worker has at most 128.
constexpr size_t kMostElements = 1024;

class FrameReader : public caf::deserializer {
 public:
  FrameReader(caf::execution_unit* context, std::span<const char> bytes) : deserializer(context), rest_(bytes) {}

  size_t remaining() const { return rest_.size(); }
  template <class T>
  T number() {
    T value{};
    if (apply(value)) throw Refusal{"sent a message that ends too early"};
    return value;
  }
  std::string text() {
    std::string value;
    if (apply(value)) throw Refusal{"sent a message that ends too early"};
    return value;
  }
  NodeIdBytes node() {
    NodeIdBytes value{};
    if (rest_.size() < value.size()) throw Refusal{"sent a message that ends too early"};
    std::copy_n(rest_.begin(), value.size(), value.begin());
    rest_ = rest_.subspan(value.size());
    return value;
  }

  caf::error begin_object(uint16_t& number, std::string& name) override {
    if (auto failed = apply(number)) return failed;
    return number == 0 ? apply(name) : caf::error{};
  }
  caf::error end_object() override { return caf::none; }
  caf::error begin_sequence(size_t& size) override {
    if (auto failed = read_size(size)) return failed;
    return size <= kMostElements ? caf::error{} : caf::error{caf::sec::invalid_argument};
  }
  caf::error end_sequence() override { return caf::none; }
  caf::error apply_raw(size_t bytes, void*) override {
    if (bytes > rest_.size()) return caf::sec::end_of_stream;
    rest_ = rest_.subspan(bytes);
    return caf::none;
  }

 protected:
  caf::error apply_impl(int8_t& x) override { return read(x); }
  caf::error apply_impl(uint8_t& x) override { return read(x); }
  caf::error apply_impl(int16_t& x) override { return read(x); }
  caf::error apply_impl(uint16_t& x) override { return read(x); }
  caf::error apply_impl(int32_t& x) override { return read(x); }
  caf::error apply_impl(uint32_t& x) override { return read(x); }
  caf::error apply_impl(int64_t& x) override { return read(x); }
  caf::error apply_impl(uint64_t& x) override { return read(x); }
  // Floating-point numbers travel as integers (runtime/caf/inspect.h), texts as bytes.
  caf::error apply_impl(float&) override { return caf::sec::invalid_argument; }
  caf::error apply_impl(double&) override { return caf::sec::invalid_argument; }
  caf::error apply_impl(long double&) override { return caf::sec::invalid_argument; }
  caf::error apply_impl(std::u16string&) override { return caf::sec::invalid_argument; }
  caf::error apply_impl(std::u32string&) override { return caf::sec::invalid_argument; }
  caf::error apply_impl(std::string& x) override {
    size_t size = 0;
    if (auto failed = read_size(size)) return failed;
    x.assign(rest_.data(), size);
    rest_ = rest_.subspan(size);
    return caf::none;
  }

 private:
  // Reads the length of a list or a text.
  caf::error read_size(size_t& size) {
    if (++sequences_ > kMostSequences) return caf::sec::invalid_argument;
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      uint8_t low = 0;
      if (auto failed = apply_impl(low)) return failed;
      value |= static_cast<uint64_t>(low & 0x7f) << shift;
      if ((low & 0x80) != 0) continue;
      size = value;
      return value <= rest_.size() ? caf::error{} : caf::error{caf::sec::end_of_stream};
    }
    return caf::sec::end_of_stream;
  }
  template <class T>
  caf::error read(T& x) {
    if (rest_.size() < sizeof(T)) return caf::sec::end_of_stream;
    x = static_cast<T>(big_endian<std::make_unsigned_t<T>>(rest_.data()));
    rest_ = rest_.subspan(sizeof(T));
    return caf::none;
  }

  std::span<const char> rest_;
  size_t sequences_ = 0;
};

}  // namespace troupe
