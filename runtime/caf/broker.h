#pragma once
// CAF's broker for the connections between processes. Its state belongs to CAF's network thread.

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman.hpp>

namespace troupe {

inline caf::strong_actor_ptr broker_of(caf::actor_system& system) {
  return caf::actor_cast<caf::strong_actor_ptr>(
      system.middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP")));
}

// Call only on CAF's network thread, where `broker` runs too. Null when it has ended.
inline caf::io::basp_broker* running(const caf::strong_actor_ptr& broker) {
  auto* const result = dynamic_cast<caf::io::basp_broker*>(caf::actor_cast<caf::abstract_actor*>(broker));
  return result == nullptr || result->getf(caf::abstract_actor::is_terminated_flag) ? nullptr : result;
}

}  // namespace troupe
