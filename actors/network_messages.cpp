#include "actors/network_messages.h"

#include "actors/messages.h"

namespace troupe {

const AcceptedMessages& messages_from_peers() {
  static const AcceptedMessages messages{
      {
          accepted_type<JoinRequest>(),
          accepted_type<ServeRequest>(),
          accepted_type<Serving>(),
          accepted_type<SpawnRequest>(),
          accepted_type<WorkerHello>(),
          accepted_type<RolloutMessage>(),
          accepted_type<Part>(),
          accepted_type<WorkerReport>(),
          accepted_type<EnvironmentsFailing>(),
          accepted_type<Applied>(),
          accepted_type<InferenceReport>(),
          accepted_type<ActRequest>(),
          accepted_type<ActReply>(),
          accepted_type<Pause>(),
      },
      {status_atom::value},
  };
  return messages;
}

}  // namespace troupe
