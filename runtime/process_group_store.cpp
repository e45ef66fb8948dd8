#include "runtime/process_group_store.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>

namespace troupe {

namespace {

using std::chrono::milliseconds;
using Kind = TransferError::Kind;

// Between two looks for a key: c10d's own wait cannot be stopped, and logs each time that it ends without the key.
constexpr milliseconds kFirstPause{1}, kLongestPause{20};

// The event-driven server bounds what a client may send and never waits for one. The other one reads each message to its end, so a
// client that stops in the middle of one stops all others; only PyTorch 2.4 gets it, whose event-driven server takes no listening
// socket.
constexpr bool kEventDriven = TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 5;

[[noreturn]] void refuse_address(const std::string& address, const std::string& why) {
  throw ConfigError("cannot listen on " + address + ": " + why +
                    "; give the address of one of this machine's interfaces");
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// nullptr and `error` when the name means nothing.
AddressList resolve(const std::string& host, uint16_t port, std::string& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    error = gai_strerror(code);
  return {found, freeaddrinfo};
}

struct Socket {
  explicit Socket(int descriptor) : fd(descriptor) {}
  ~Socket() {
    if (fd >= 0) close(fd);
  }
  int fd;
};

// A socket that listens on a free port of that interface only; TCPStore by itself would listen on all of them.
int listen_on(const std::string& address, uint16_t& port) {
  if (address.empty() || address == "0.0.0.0" || address == "::") refuse_address(address, "it means every interface");
  std::string error;
  const AddressList found = resolve(address, 0, error);
  if (!found) refuse_address(address, error);
  Socket listening(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (listening.fd < 0 || bind(listening.fd, found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(listening.fd, 128) != 0 || getsockname(listening.fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    refuse_address(address, std::generic_category().message(errno));
  char service[NI_MAXSERV];
  getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, nullptr, 0, service, sizeof service, NI_NUMERICSERV);
  port = static_cast<uint16_t>(std::stoi(service));
  return std::exchange(listening.fd, -1);
}

// Whether somebody listens there; "" or why not. TCPStore would retry until its deadline and log a backtrace each time.
std::string why_unreachable(const std::string& host, uint16_t port, milliseconds timeout) {
  std::string error;
  const AddressList list = resolve(host, port, error);
  for (const addrinfo* each = list.get(); each; each = each->ai_next) {
    const Socket trying(socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    pollfd waiting{trying.fd, POLLOUT, 0};
    int result = 0;
    socklen_t size = sizeof result;
    if (connect(trying.fd, each->ai_addr, each->ai_addrlen) != 0 && errno != EINPROGRESS)
      result = errno;
    else if (poll(&waiting, 1, static_cast<int>(timeout.count())) <= 0)
      result = ETIMEDOUT;
    else
      getsockopt(trying.fd, SOL_SOCKET, SO_ERROR, &result, &size);
    if (result == 0) return {};
    error = std::generic_category().message(result);
  }
  return error;
}

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

struct GroupStore::Impl {
  c10::intrusive_ptr<c10d::TCPStore> store;

  // True when the key came, false when the deadline passed.
  bool wait_for(const std::string& key, const Deadline& deadline, const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      if (stop.stop_requested()) throw TransferError(Kind::stopped, {}, "stopped while waiting for the group");
      if (has(key)) return true;
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
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.useLibUV = kEventDriven;
  options.masterListenFd = listen_on(address, options.port);
  auto impl = std::make_unique<Impl>();
  impl->store = c10::make_intrusive<c10d::TCPStore>(address, options);
  return std::unique_ptr<GroupStore>(new GroupStore(std::move(impl)));
}

std::unique_ptr<GroupStore> GroupStore::connect(const std::string& host, uint16_t port, milliseconds timeout) {
  if (const std::string error = why_unreachable(host, port, timeout); !error.empty())
    throw missing_ranks(Kind::peer_lost, {0}, "cannot reach " + host + ':' + std::to_string(port) + ": " + error);
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

std::string GroupStore::get(const std::string& key, int from, const Deadline& deadline, const std::stop_token& stop) {
  if (!impl_->wait_for(key, deadline, stop)) throw missing_ranks(Kind::timeout, {from}, "did not come in time");
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
