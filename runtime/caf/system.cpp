#include "runtime/caf/system.h"

#include <unistd.h>

#include <charconv>
#include <memory>
#include <new>
#include <system_error>

#include <caf/atom.hpp>
#include <caf/io/middleman.hpp>
#include <caf/message.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/to_string.hpp>

#include "runtime/base/limited_log.h"

namespace troupe {

namespace {

const caf::atom_value kFaultCategory = caf::atom("troupe");

constexpr const char* kNoThread =
    "the system starts no further thread (see `ulimit -u`, `-v`, `-d` and the limits of the container)";

std::string in_words(caf::exit_reason reason) {
  switch (reason) {
    case caf::exit_reason::normal: return "it ended";
    case caf::exit_reason::user_shutdown:
    case caf::exit_reason::kill: return "it was told to end";
    case caf::exit_reason::unhandled_exception: return "it failed";
    case caf::exit_reason::unknown: return "it had ended already";
    case caf::exit_reason::remote_link_unreachable:
    case caf::exit_reason::unreachable: return "the connection is lost";
    default: return "it ended for an unknown reason";
  }
}

// An error of CAF for a connection or a request, in words that follow an address.
std::string in_words(caf::sec code) {
  switch (code) {
    case caf::sec::cannot_connect_to_node: return "the connection was refused";
    case caf::sec::disconnect_during_handshake: return "it closed the connection";
    case caf::sec::request_timeout: return "no answer in time";
    case caf::sec::connection_timeout: return "nothing was heard from it in time";
    case caf::sec::request_receiver_down:
    case caf::sec::remote_linking_failed: return "it ended before it answered";
    case caf::sec::no_actor_published_at_port: return "no run is open there";
    case caf::sec::no_route_to_receiving_node:
    case caf::sec::cannot_forward_to_invalid_actor:
    case caf::sec::socket_disconnected:
    case caf::sec::redundant_connection: return "the connection is lost";
    case caf::sec::unexpected_message:
    case caf::sec::unexpected_response:
    case caf::sec::unexpected_actor_messaging_interface:
    case caf::sec::incompatible_versions:
    case caf::sec::incompatible_application_ids: return "it is another program, or another version of troupe";
    case caf::sec::malformed_basp_message:
    case caf::sec::serializing_basp_payload_failed:
    case caf::sec::end_of_stream:
    case caf::sec::unknown_type: return "it sent a message that cannot be read";
    case caf::sec::cannot_open_port: return "the address is in use, or not one of this machine's";
    case caf::sec::runtime_error: return "it failed";
    default: return "an unexpected network error, number " + std::to_string(static_cast<int>(code));
  }
}

// Text for a fault without a context.
std::string in_words(Fault fault) {
  switch (fault) {
    case Fault::forward_failed: return "the policy failed to compute actions";
    case Fault::shutting_down: return "it is ending";
    case Fault::stale: return "the data is too old";
    case Fault::full: return "there is no room";
    case Fault::bad_message: return "the message does not fit the run";
    case Fault::signature_mismatch: return "the weights do not fit the policy";
    case Fault::not_ready: return "it is not ready";
    case Fault::peer_gone: return "the other side is gone";
    case Fault::env_failed: return "the environment failed";
    case Fault::io_failed: return "a file or a connection failed";
    case Fault::not_restored: return "the checkpoint does not fit";
    case Fault::incompatible: return "its messages do not fit the run";
    case Fault::score_failed: return "answers could not be scored";
    default: return to_string(fault);
  }
}

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
  return {static_cast<uint8_t>(fault), kFaultCategory, caf::make_message(context.substr(0, kMostErrorBytes))};
}

Fault fault_of(const caf::error& error) {
  if (!error) return Fault::none;
  return error.category() == kFaultCategory ? static_cast<Fault>(error.code()) : Fault::internal;
}

std::string process_of(const caf::node_id& node) {
  if (!node) return "process " + std::to_string(::getpid());  // the node id is invalid if the system has no network
  const std::string text = to_string(node);
  return "process " + text.substr(text.rfind('#') + 1);
}

std::optional<pid_t> process_here(const caf::node_id& own, const caf::node_id& node) {
  if (!own || !node || own == node) return std::nullopt;
  const std::string a = to_string(own), b = to_string(node);
  const size_t host = b.rfind('#');  // then the number of the process follows
  if (host == std::string::npos || a.substr(0, a.rfind('#')) != b.substr(0, host)) return std::nullopt;
  pid_t process = 0;
  const auto [end, error] = std::from_chars(b.data() + host + 1, b.data() + b.size(), process);
  if (error != std::errc() || end != b.data() + b.size() || process <= 0) return std::nullopt;
  return process;
}

void drop_strange_messages(caf::scheduled_actor* self, const std::string& name) {
  const auto log = std::make_shared<LimitedLog>(name);
  const auto sender_of = [](caf::scheduled_actor* actor) {
    const caf::strong_actor_ptr& sender = actor->current_sender();
    return sender ? process_of(sender->node()) : std::string("an unknown process");
  };
  self->set_default_handler(
      [log, sender_of](caf::scheduled_actor* actor, caf::message_view&) -> caf::result<caf::message> {
        log->warn("a message from " + sender_of(actor) + " is dropped: it is none that this actor knows");
        if (actor->current_message_id().is_request()) return caf::sec::unexpected_message;
        return caf::message();  // no answer
      });
  self->set_error_handler([log, sender_of](caf::scheduled_actor* actor, caf::error& error) {
    log->warn("an error that " + sender_of(actor) + " reports is ignored: " + describe(error));
  });
}

caf::error fault_of_exception(const std::exception_ptr& pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const NotRestored& e) {
    return make_error(Fault::not_restored, e.what());
  } catch (const std::system_error& e) {
    return make_error(Fault::internal, e.code() == std::errc::resource_unavailable_try_again ? kNoThread : e.what());
  } catch (const std::bad_alloc&) {
    return make_error(Fault::internal, "out of memory");
  } catch (const std::exception& e) {
    return make_error(Fault::internal, e.what());
  } catch (...) {
    return make_error(Fault::internal, "unknown exception");
  }
}

std::string describe(const caf::error& error) {
  if (!error) return "no error";
  if (error.category() == caf::atom("exit")) return in_words(static_cast<caf::exit_reason>(error.code()));
  if (error.category() == caf::atom("system")) return in_words(static_cast<caf::sec>(error.code()));
  if (error.category() != kFaultCategory) return "an unknown error, number " + std::to_string(error.code());
  if (error.context().match_elements<std::string>()) {
    const auto& context = error.context().get_as<std::string>(0);
    if (!context.empty()) return context;
  }
  return in_words(static_cast<Fault>(error.code()));
}

}  // namespace troupe
