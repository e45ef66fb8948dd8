#include "sim/link.h"

#include <utility>
#include <vector>

#include <caf/actor_proxy.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/make_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages.h"

namespace troupe::sim {

class LinkProxy : public caf::actor_proxy {
 public:
  LinkProxy(caf::actor_config& config, std::weak_ptr<Link> link, Direction direction, caf::strong_actor_ptr target)
      : caf::actor_proxy(config), link_(std::move(link)), direction_(direction), target_(std::move(target)) {}

  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit*) override {
    const auto link = link_.lock();
    if (link && target_) link->accept(direction_, target_, id(), *element);
  }

  void kill_proxy(caf::execution_unit* context, caf::error reason) override {
    target_ = nullptr;
    cleanup(std::move(reason), context);
  }

 private:
  std::weak_ptr<Link> link_;
  Direction direction_;
  caf::strong_actor_ptr target_;
};

namespace {

// Passes the message through the wire format; false when it has another type.
template <class T>
bool through_wire(caf::actor_system& system, caf::message& content) {
  if (!content.match_elements<T>()) return false;
  std::vector<char> bytes;
  caf::binary_serializer out(system, bytes);
  T value = content.get_as<T>(0);
  TROUPE_CHECK(!out(value), "a message cannot be serialized");
  caf::binary_deserializer in(system, bytes);
  T copy;
  TROUPE_CHECK(!in(copy), "a message cannot be deserialized");
  content = caf::make_message(std::move(copy));
  return true;
}

void end(const caf::strong_actor_ptr& proxy, const caf::error& reason) {
  static_cast<LinkProxy*>(caf::actor_cast<caf::abstract_actor*>(proxy))->kill_proxy(nullptr, reason);
}

}  // namespace

caf::strong_actor_ptr Link::stand_in(const caf::strong_actor_ptr& actor, Direction direction) {
  if (!actor || !up_) return nullptr;
  caf::strong_actor_ptr& proxy = proxies_[index(direction)][actor->id()];
  if (proxy) return proxy;
  caf::actor_config config;
  proxy = caf::make_actor<LinkProxy, caf::strong_actor_ptr>(system_.next_actor_id(), system_.node(), &system_, config,
                                                            weak_from_this(), direction, actor);
  // The notification of the actor's end travels in the other direction, after the messages that it sent.
  actor->get()->attach_functor([link = weak_from_this(), direction, id = actor->id()](const caf::error& reason) {
    const auto self = link.lock();
    if (!self || !self->up_) return;
    Parcel news;
    news.ended = id;
    news.reason = reason;
    self->queues_[index(opposite(direction))].push_back(std::move(news));
  });
  return proxy;
}

void Link::accept(Direction direction, const caf::strong_actor_ptr& target, caf::actor_id proxy,
                  caf::mailbox_element& element) {
  if (!up_ || given_up_ || (muted_ && direction == Direction::to_run)) return;
  seen_(element.sender, proxy, element.content());
  Parcel parcel;
  parcel.to = target;
  parcel.from = element.sender;
  parcel.mid = element.mid;
  parcel.content = element.copy_content_to_message();
  queues_[index(direction)].push_back(std::move(parcel));
}

caf::message Link::as_received(caf::message content) {
  const auto far = [&](const auto& handle) {
    using Handle = std::decay_t<decltype(handle)>;
    return caf::actor_cast<Handle>(stand_in(caf::actor_cast<caf::strong_actor_ptr>(handle), Direction::to_run));
  };
  if (content.match_elements<Welcome>()) {
    Welcome welcome = content.get_as<Welcome>(0);
    welcome.inference = far(welcome.inference);
    if (welcome.scorer) welcome.scorer = far(welcome.scorer);
    welcome.replay = far(welcome.replay);
    welcome.stats = far(welcome.stats);
    return caf::make_message(std::move(welcome));
  }
  if (content.match_elements<InferenceReplaced>()) {
    InferenceReplaced replaced = content.get_as<InferenceReplaced>(0);
    if (replaced.inference) replaced.inference = far(replaced.inference);
    return caf::make_message(std::move(replaced));
  }
  if (content.match_elements<ServeRequest>()) {
    ServeRequest request = content.get_as<ServeRequest>(0);
    const InferenceService inference = std::exchange(request.inference, nullptr);
    content = caf::make_message(std::move(request));
    through_wire<ServeRequest>(system_, content);
    request = content.get_as<ServeRequest>(0);
    const auto near = stand_in(caf::actor_cast<caf::strong_actor_ptr>(inference), Direction::to_node);
    request.inference = caf::actor_cast<InferenceService>(near);
    return caf::make_message(std::move(request));
  }
  if (content.match_elements<RankReady>()) {
    RankReady ready = content.get_as<RankReady>(0);
    const RankActor rank = std::exchange(ready.rank, nullptr);
    content = caf::make_message(std::move(ready));
    through_wire<RankReady>(system_, content);
    ready = content.get_as<RankReady>(0);
    ready.rank = caf::actor_cast<RankActor>(stand_in(caf::actor_cast<caf::strong_actor_ptr>(rank), Direction::to_node));
    return caf::make_message(std::move(ready));
  }
  if (content.match_elements<RankUpdate>()) {
    RankUpdate update = content.get_as<RankUpdate>(0);
    const ExchangeService exchange = std::exchange(update.exchange, nullptr);
    content = caf::make_message(std::move(update));
    through_wire<RankUpdate>(system_, content);
    update = content.get_as<RankUpdate>(0);
    update.exchange = far(exchange);
    return caf::make_message(std::move(update));
  }
  through_wire<RankState>(system_, content) || through_wire<RankSamples>(system_, content) ||
      through_wire<RoundSaid>(system_, content) || through_wire<RankSaid>(system_, content) ||
      through_wire<RankCopy>(system_, content) || through_wire<RankDone>(system_, content) ||
      through_wire<RankSave>(system_, content) || through_wire<RankMoments>(system_, content) ||
      through_wire<RankPing>(system_, content) || through_wire<RankPong>(system_, content) ||
      through_wire<InferenceRequest>(system_, content) || through_wire<InferenceReply>(system_, content) ||
      through_wire<RolloutMessage>(system_, content) || through_wire<WorkerReport>(system_, content) ||
      through_wire<WorkerHello>(system_, content) || through_wire<Credits>(system_, content) ||
      through_wire<Part>(system_, content) || through_wire<Pause>(system_, content) ||
      through_wire<EnvironmentsFailing>(system_, content) || through_wire<JoinRequest>(system_, content) ||
      through_wire<Invitation>(system_, content) || through_wire<Expelled>(system_, content) ||
      through_wire<Serving>(system_, content) || through_wire<Applied>(system_, content) ||
      through_wire<InferenceReport>(system_, content);
  return content;
}

void Link::deliver(Direction direction) {
  Parcel parcel = std::move(queues_[index(direction)].front());
  queues_[index(direction)].pop_front();
  if (parcel.ended != 0) {
    auto& proxies = proxies_[index(opposite(direction))];
    const auto it = proxies.find(parcel.ended);
    if (it == proxies.end()) return;
    const caf::strong_actor_ptr proxy = it->second;
    proxies.erase(it);
    end(proxy, parcel.reason);
    return;
  }
  parcel.to->enqueue(stand_in(parcel.from, opposite(direction)), parcel.mid, as_received(std::move(parcel.content)),
                     nullptr);
}

void Link::end_proxies(Direction direction) {
  for (const auto& [id, proxy] : std::exchange(proxies_[index(direction)], {}))
    end(proxy, caf::exit_reason::remote_link_unreachable);
}

void Link::give_up() {
  if (!up_ || std::exchange(given_up_, true)) return;
  for (auto& queue : queues_) queue.clear();
  end_proxies(Direction::to_node);
}

void Link::cut(bool late) {
  if (!up_) return;
  std::deque<Parcel> lost = std::move(queues_[0]);
  std::map<caf::actor_id, caf::strong_actor_ptr> senders = proxies_[1];
  queues_[0].clear();
  queues_[1].clear();
  up_ = false;
  for (const Direction direction : {Direction::to_run, Direction::to_node}) end_proxies(direction);
  if (!late) return;
  for (Parcel& parcel : lost)
    if (parcel.ended == 0 && parcel.content.match_elements<RolloutMessage>() && parcel.from)
      parcel.to->enqueue(senders[parcel.from->id()], parcel.mid, parcel.content, nullptr);
}

}  // namespace troupe::sim
