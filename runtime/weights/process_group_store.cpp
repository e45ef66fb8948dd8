#include "runtime/weights/process_group_store.h"

#include <netdb.h>
#include <sys/socket.h>

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>

#include "runtime/base/descriptor.h"
#include "runtime/base/tcp_probe.h"

namespace troupe {

namespace {

using std::chrono::milliseconds;
using Kind = TransferError::Kind;

// Pauses between two checks for a key. c10d's own wait is not used: it cannot be stopped, and it logs a message each
// time it ends without the key.
constexpr milliseconds kFirstPause{1}, kLongestPause{20};

// The event-driven server limits what a client may send, and never waits for a client. The other server reads each
// message to its end, so a client that stops in the middle of one blocks all others. It is used only with PyTorch 2.4,
// whose event-driven server cannot take over a listening socket, and with a PyTorch that was built without libuv.
constexpr bool kEventDriven = TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 5;

[[noreturn]] void refuse_address(const std::string& address, const std::string& why) {
  throw ConfigError("cannot listen on " + address + ": " + why +
                    "; give the address of one of this machine's interfaces");
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// nullptr, and the reason in `error`, when the name cannot be resolved.
AddressList resolve(const std::string& host, uint16_t port, std::string& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    error = gai_strerror(code);
  return {found, freeaddrinfo};
}

// A socket that listens on a free port of that interface only; TCPStore by itself would listen on all of them.
int listen_on(const std::string& address, uint16_t& port) {
  if (address.empty() || address == "0.0.0.0" || address == "::") refuse_address(address, "it means every interface");
  std::string error;
  const AddressList found = resolve(address, 0, error);
  if (!found) refuse_address(address, error);
  Descriptor listening(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (listening.number() < 0 || bind(listening.number(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(listening.number(), 128) != 0 ||
      getsockname(listening.number(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    refuse_address(address, std::generic_category().message(errno));
  char service[NI_MAXSERV];
  getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, nullptr, 0, service, sizeof service, NI_NUMERICSERV);
  port = static_cast<uint16_t>(std::stoi(service));
  return listening.release();
}

c10::intrusive_ptr<c10d::TCPStore> serve(const std::string& address, bool event_driven) {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.useLibUV = event_driven;
  options.masterListenFd = listen_on(address, options.port);
  return c10::make_intrusive<c10d::TCPStore>(address, options);
}

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

struct GroupStore::Impl {
  c10::intrusive_ptr<c10d::TCPStore> store;

  // True when the key came, false when the deadline passed or `left` came and the key did not.
  bool wait_for(const std::string& key, const Deadline& deadline, const std::stop_token& stop,
                const std::string& left = "") {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      if (stop.stop_requested()) throw TransferError(Kind::stopped, {}, "stopped while waiting for the group");
      if (has(key)) return true;
      if (!left.empty() && has(left)) return has(key);  // it may have come just before
      if (deadline.passed()) return false;
      never.wait_for(lock, stop, std::min(pause, deadline.left()), [] { return false; });
    }
  }

  bool has(const std::string& key) {
    try {
      return store->check({key});
    } catch (const std::exception& error) {
      throw missing_ranks(Kind::peer_lost, {0}, plain_reason(error));
    }
  }
};

GroupStore::GroupStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GroupStore::~GroupStore() = default;

std::unique_ptr<GroupStore> GroupStore::listen(const std::string& address) {
  auto impl = std::make_unique<Impl>();
  try {
    impl->store = serve(address, kEventDriven);
  } catch (const c10::Error&) {
    impl->store = serve(address, false);
  }
  return std::unique_ptr<GroupStore>(new GroupStore(std::move(impl)));
}

std::unique_ptr<GroupStore> GroupStore::connect(const std::string& host, uint16_t port, milliseconds timeout) {
  // TCPStore would retry until its deadline and log a backtrace each time.
  const TcpProbe probe = probe_tcp(host, port, std::chrono::steady_clock::now() + timeout);
  if (probe.address.empty())
    throw missing_ranks(Kind::peer_lost, {0},
                        "cannot reach " + host + ':' + std::to_string(port) + ": " + probe.problem);
  c10d::TCPStoreOptions options;
  options.port = port;
  options.waitWorkers = false;
  options.timeout = std::max(timeout, milliseconds(1));
  auto impl = std::make_unique<Impl>();
  try {
    impl->store = c10::make_intrusive<c10d::TCPStore>(host, options);
  } catch (const std::exception& error) {
    throw missing_ranks(Kind::peer_lost, {0}, plain_reason(error));
  }
  return std::unique_ptr<GroupStore>(new GroupStore(std::move(impl)));
}

uint16_t GroupStore::port() const { return impl_->store->getPort(); }

c10d::Store& GroupStore::raw() { return *impl_->store; }

void GroupStore::set(const std::string& key, const std::string& value) {
  try {
    impl_->store->set(key, bytes_of(value));
  } catch (const std::exception& error) {
    throw missing_ranks(Kind::peer_lost, {0}, plain_reason(error));
  }
}

bool GroupStore::has(const std::string& key) { return impl_->has(key); }

void GroupStore::erase(const std::string& key) {
  try {
    impl_->store->deleteKey(key);
  } catch (const std::exception& error) {
    throw missing_ranks(Kind::peer_lost, {0}, plain_reason(error));
  }
}

std::string GroupStore::get(const std::string& key, int from, const Deadline& deadline, const std::stop_token& stop,
                            const std::string& left) {
  if (!impl_->wait_for(key, deadline, stop, left)) {
    if (!left.empty() && impl_->has(left)) throw missing_ranks(Kind::peer_lost, {from}, "left the group");
    throw missing_ranks(Kind::timeout, {from}, "did not come in time");
  }
  try {
    const std::vector<uint8_t> value = impl_->store->get(key);
    return {value.begin(), value.end()};
  } catch (const std::exception& error) {
    throw missing_ranks(Kind::peer_lost, {0}, plain_reason(error));
  }
}

void GroupStore::meet(const Rendezvous& r, const Deadline& deadline, const std::stop_token& stop) {
  if (r.rank != 0) {
    set(group_key(r, "here/" + std::to_string(r.rank)), "1");
    get(group_key(r, "go"), 0, deadline, stop);
    return;
  }
  std::vector<int> missing;
  for (int rank = 1; rank < r.size; ++rank)
    if (!impl_->wait_for(group_key(r, "here/" + std::to_string(rank)), deadline, stop)) missing.push_back(rank);
  if (!missing.empty())
    throw missing_ranks(Kind::timeout, std::move(missing),
                        "did not join group " + std::to_string(r.generation) + " in time");
  set(group_key(r, "go"), "1");
}

std::string group_key(const Rendezvous& r, const std::string& name) {
  return "group/" + std::to_string(r.generation) + '/' + name;
}

std::string plain_reason(const std::exception& error) {
  std::string text = error.what();
  text.resize(std::min(text.find('\n'), text.size()));
  if (const size_t end = text.find("] "); text.starts_with('[') && text.rfind(':', end) < end && end != text.npos)
    text.erase(0, end + 2);
  for (const char* guess : {". This is typically caused by", ". This may indicate", " GLHF"})
    text.resize(std::min(text.find(guess), text.size()));
  return text;
}

}  // namespace troupe
