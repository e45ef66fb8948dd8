#include "runtime/caf_system.h"

#include <caf/atom.hpp>
#include <caf/io/middleman.hpp>
#include <caf/message.hpp>
#include <caf/to_string.hpp>

namespace troupe {

namespace {

const caf::atom_value kFaultCategory = caf::atom("troupe");

}  // namespace

void configure(caf::actor_system_config& config, const SystemOptions& options) {
  if (options.scheduler == SchedulerKind::single_step) {
    config.set("scheduler.policy", caf::atom("testing"));
  } else {
    config.set("scheduler.policy", caf::atom("sharing"));
    config.set("scheduler.max-threads", options.threads);
    config.set("scheduler.max-throughput", size_t{50});
  }
  if (!options.network) return;
  config.load<caf::io::middleman>();
  config.set("middleman.heartbeat-interval", caf::timespan(options.network_config.heartbeat));
  config.set("middleman.connection-timeout", caf::timespan(options.network_config.peer_timeout));
  config.set("middleman.app-identifiers", std::vector<std::string>{"troupe/1"});
}

caf::error make_error(Fault fault, const std::string& context) {
  return {static_cast<uint8_t>(fault), kFaultCategory, caf::make_message(context)};
}

Fault fault_of(const caf::error& error) {
  if (!error) return Fault::none;
  return error.category() == kFaultCategory ? static_cast<Fault>(error.code()) : Fault::internal;
}

caf::error fault_of_exception(const std::exception_ptr& pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const NotRestored& e) {
    return make_error(Fault::not_restored, e.what());
  } catch (const std::exception& e) {
    return make_error(Fault::internal, e.what());
  } catch (...) {
    return make_error(Fault::internal, "unknown exception");
  }
}

std::string describe(const caf::error& error) {
  if (!error) return "no error";
  if (error.category() != kFaultCategory) {
    if (error.category() == caf::atom("exit")) return caf::to_string(static_cast<caf::exit_reason>(error.code()));
    if (error == caf::sec::cannot_open_port) return "the address is in use, or not one of this machine's";
    if (error.category() == caf::atom("system")) return caf::to_string(static_cast<caf::sec>(error.code()));
    return "error " + std::to_string(error.code()) + " of " + caf::to_string(error.category());
  }
  std::string name = to_string(static_cast<Fault>(error.code()));
  if (error.context().match_elements<std::string>()) {
    const auto& context = error.context().get_as<std::string>(0);
    if (!context.empty()) return name + ": " + context;
  }
  return name;
}

}  // namespace troupe
