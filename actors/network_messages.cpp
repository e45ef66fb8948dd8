#include "actors/network_messages.h"

#include <algorithm>

#include <caf/replies_to.hpp>

#include "actors/messages.h"

namespace troupe {

namespace {

// Adds the input of one handler of an interface to the list. A handler of an atom or with several arguments does not
// compile, because FrameCheck finds a message by the name of a single type.
template <class Signature>
struct Input;

template <class Message, class Output>
struct Input<caf::typed_mpi<caf::detail::type_list<Message>, Output>> {
  static void add_to(AcceptedMessages& messages, bool relayed) {
    const AcceptedType type = accepted_type<Message>(relayed);
    const auto known = std::ranges::find(messages.types, type.name, &AcceptedType::name);
    if (known == messages.types.end()) {
      messages.types.push_back(type);
    } else {
      known->relayed |= relayed;
    }
  }
};

template <class... Signatures>
void add(AcceptedMessages& messages, caf::detail::type_list<Signatures...>, bool relayed) {
  (Input<Signatures>::add_to(messages, relayed), ...);
}

template <class... Interfaces>
void add(AcceptedMessages& messages, bool relayed) {
  (add(messages, typename Interfaces::signatures{}, relayed), ...);
}

}  // namespace

const AcceptedMessages& messages_to_run() {
  static const AcceptedMessages messages = [] {
    AcceptedMessages result;
    add<JoinService, ReplayService, StatsService, ExchangeService, RankLead>(result, /*relayed=*/false);
    add<InferenceService, InferenceClient>(result, /*relayed=*/true);
    return result;
  }();
  return messages;
}

const AcceptedMessages& messages_to_node() {
  static const AcceptedMessages messages = [] {
    AcceptedMessages result;
    add<NodeActor>(result, /*relayed=*/false);
    return result;
  }();
  return messages;
}

}  // namespace troupe
