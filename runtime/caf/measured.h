#pragma once
// The base of all actors of a run: one that measures the time in its handlers. Its thread reads the figure, in a
// handler.

#include <chrono>
#include <cstdint>

#include <caf/invoke_message_result.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/stateful_actor.hpp>

namespace troupe {

template <class Base>
class Measured : public Base {
 public:
  using Base::Base;

  // Microseconds in handlers since the actor began, without the handler that runs now.
  uint64_t busy_us() const { return static_cast<uint64_t>(busy_.count() / 1000); }

 protected:
  caf::invoke_message_result consume(caf::mailbox_element& element) override {
    const auto begin = std::chrono::steady_clock::now();
    const caf::invoke_message_result result = Base::consume(element);
    busy_ += std::chrono::steady_clock::now() - begin;
    return result;
  }
  using Base::consume;

 private:
  std::chrono::nanoseconds busy_{0};
};

// The type of `self` in the function that makes an actor's behaviour.
template <class Actor, class State>
using SelfPointer = caf::stateful_actor<State, Measured<typename Actor::base>>*;

}  // namespace troupe
