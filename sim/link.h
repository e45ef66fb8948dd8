#pragma once
// Link: one connection between a simulated remote process and the run. On each side, proxies represent the actors of
// the other side. A message to a proxy waits in the link, in order, until the simulator delivers it. Cutting the link
// loses messages in flight and ends the proxies of both sides, as CAF does when a connection breaks.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/message.hpp>

namespace troupe::sim {

enum class Direction : uint8_t { to_run = 0, to_node = 1 };

class Link : public std::enable_shared_from_this<Link> {
 public:
  // Called for every message when it is sent, with its sender and the proxy it was sent to.
  using Seen = std::function<void(const caf::strong_actor_ptr& from, caf::actor_id proxy,
                                  const caf::type_erased_tuple& content)>;

  Link(caf::actor_system& system, Seen seen) : system_(system), seen_(std::move(seen)) {}

  // The proxy that represents `actor` on the far side; its messages travel in `direction`.
  caf::strong_actor_ptr stand_in(const caf::strong_actor_ptr& actor, Direction direction);
  bool up() const { return up_; }
  size_t waiting(Direction direction) const { return queues_[index(direction)].size(); }
  // Delivers the oldest message of a direction.
  void deliver(Direction direction);
  // The run gives up the remote process: what its proxies stand for has ended for the run, and nothing arrives there
  // any more. The process does not know that before cut().
  void give_up();
  bool given_up() const { return given_up_; }
  // From now on nothing that the remote process sends arrives, and neither side notices.
  void mute() { muted_ = true; }
  // `late`: rollouts in flight to the run arrive after their sender is known to be gone; everything else is lost.
  void cut(bool late);

 private:
  friend class LinkProxy;
  struct Parcel {
    caf::strong_actor_ptr to;
    caf::strong_actor_ptr from;
    caf::message_id mid;
    caf::message content;
    caf::actor_id ended = 0;  // not 0: this is no message, but this actor ended for `reason`
    caf::error reason;
  };
  static size_t index(Direction direction) { return static_cast<size_t>(direction); }
  static Direction opposite(Direction direction) {
    return direction == Direction::to_run ? Direction::to_node : Direction::to_run;
  }
  void accept(Direction direction, const caf::strong_actor_ptr& target, caf::actor_id proxy,
              caf::mailbox_element& element);
  caf::message as_received(caf::message content);
  // Ends the proxies for actors whose messages travel in the other direction.
  void end_proxies(Direction direction);

  caf::actor_system& system_;
  Seen seen_;
  bool up_ = true, given_up_ = false, muted_ = false;
  std::deque<Parcel> queues_[2];
  std::map<caf::actor_id, caf::strong_actor_ptr> proxies_[2];  // by the actor that they represent
};

}  // namespace troupe::sim
