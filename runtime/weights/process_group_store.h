#pragma once
// GroupStore: the small key-value store through which the members of a group find each other (c10d's TCPStore). One
// process listens; each member has its own connection, used from one thread. Only for the backends in
// runtime/weights/process_group_*.

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/weights/process_group.h"

namespace c10d {
class Store;
}

namespace troupe {

class GroupStore {
 public:
  // Listens on a free port of one interface. Throws ConfigError.
  static std::unique_ptr<GroupStore> listen(const std::string& address);
  // Throws TransferError naming rank 0 when it does not answer in time.
  static std::unique_ptr<GroupStore> connect(const std::string& host, uint16_t port, std::chrono::milliseconds timeout);
  ~GroupStore();

  uint16_t port() const;
  void set(const std::string& key, const std::string& value);
  // Whether the key exists now.
  bool has(const std::string& key);
  void erase(const std::string& key);
  // Blocks until the key exists. `from` is the rank that sets it, for the error message. If `left` is given and that
  // key exists while the other does not, the rank counts as lost.
  std::string get(const std::string& key, int from, const Deadline& deadline, const std::stop_token& stop,
                  const std::string& left = "");
  // Blocks until every member of the generation has called it. Rank 0 learns who is missing before any data connection
  // is tried.
  void meet(const Rendezvous& rendezvous, const Deadline& deadline, const std::stop_token& stop);

  // c10d's own object, owned by this one.
  c10d::Store& raw();

 private:
  struct Impl;
  explicit GroupStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// "group/<generation>/<name>": the key of a value of one generation.
std::string group_key(const Rendezvous& rendezvous, const std::string& name);
// The message of a c10d or Gloo exception in one line, without the source location, the backtrace and guesses about the
// peer.
std::string plain_reason(const std::exception& error);

}  // namespace troupe
