#pragma once
// The base of all actors of a run: one that measures the time in its handlers. Its thread reads the figure, in a
// handler. An actor that is watched also notes on a board how it spends its time and, once a second, how long a message
// has waited for it: a probe that it has sent to itself with a delay, since CAF does not say when messages arrived.

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/invoke_message_result.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/replies_to.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_actor.hpp>

#include "runtime/base/blocked.h"
#include "runtime/stats/actor_board.h"

namespace troupe {

struct Probe {};

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Probe)

namespace troupe {

template <class Base>
class Measured : public Base {
 public:
  using Base::Base;

  // Microseconds in handlers since the actor began, without the handler that runs now.
  uint64_t busy_us() const { return static_cast<uint64_t>(busy_.count() / 1000); }

  bool is_watched() const { return entry_ != nullptr; }
  // Notes its times there from now on.
  void watch(std::shared_ptr<ActorBoard::Entry> entry) {
    entry_ = std::move(entry);
    send_probe();
  }

 protected:
  caf::invoke_message_result consume(caf::mailbox_element& element) override {
    const auto begin = std::chrono::steady_clock::now();
    if (entry_) {
      if (element.content().template match_elements<Probe>()) {
        entry_->take_probe(begin);
        send_probe();
        return caf::invoke_message_result::consumed;
      }
      entry_->begin_handler(begin);
    }
    const caf::invoke_message_result result = handle(element);
    const auto end = std::chrono::steady_clock::now();
    busy_ += end - begin;
    if (entry_) entry_->end_handler(begin, end);
    return result;
  }
  using Base::consume;

 private:
  caf::invoke_message_result handle(caf::mailbox_element& element) {
    if (!entry_) return Base::consume(element);
    const CountBlocked count(entry_->blocked());
    return Base::consume(element);
  }

  // It arrives as any message of another actor would.
  void send_probe() {
    constexpr std::chrono::seconds kInterval{1};
    entry_->expect_probe(std::chrono::steady_clock::now() + kInterval);
    this->delayed_send(caf::actor_cast<caf::typed_actor<caf::reacts_to<Probe>>>(this->ctrl()), kInterval, Probe{});
  }

  std::chrono::nanoseconds busy_{0};
  std::shared_ptr<ActorBoard::Entry> entry_;  // null: not watched
};

// The type of `self` in the function that makes an actor's behaviour.
template <class Actor, class State>
using SelfPointer = caf::stateful_actor<State, Measured<typename Actor::base>>*;

}  // namespace troupe
