#include "actors/messages.h"

#include <caf/actor_system_config.hpp>

namespace troupe {

void register_messages(caf::actor_system_config& config) { config.add_message_types<caf::id_block::troupe>(); }

}  // namespace troupe
