#include "runtime/base/child_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

constexpr std::chrono::milliseconds kEnding{500};  // between the end of a connection and that of its process
constexpr size_t kLongestShownLine = 120;

// Makes a socket pair, and returns the descriptors of the child.
std::vector<int> connect(const std::string& name, Descriptor& socket, Descriptor& other, std::span<const int> files) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw IoError(name, "no socket for its process", errno);
  socket = Descriptor(ends[0]);
  other = Descriptor(ends[1]);
  std::vector<int> descriptors{ends[1]};
  descriptors.insert(descriptors.end(), files.begin(), files.end());
  return descriptors;
}

bool again(ssize_t result) { return result < 0 && (errno == EINTR || errno == EAGAIN); }

}  // namespace

ChildConnection::ChildConnection(const std::string& name, ChildKind kind, const std::vector<std::string>& arguments,
                                 std::span<const int> files)
    : output_(name),
      process_(arguments, connect(name, socket_, other_end_, files),
               [this](std::string_view line) { output_.add(line); }),
      counted_(kind, process_.id()) {
  other_end_ = Descriptor();  // so that the end of the child closes the connection
}

ChildConnection::Wait ChildConnection::wait(short events, const Deadline& deadline, int other) {
  pollfd watched[2] = {{socket_.number(), events, 0}, {other, POLLIN, 0}};
  process_.wait_for(watched, deadline);
  if (watched[0].revents != 0) return Wait::socket;
  return watched[1].revents != 0 ? Wait::other : Wait::late;
}

ChildConnection::Io ChildConnection::send(std::string_view bytes, const Deadline& deadline,
                                          std::span<const int> files) {
  TROUPE_CHECK(files.size() <= kMostFiles, files.size());
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFiles * sizeof(int))] = {};
  if (!files.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(header), files.data(), files.size_bytes());
  }
  while (part.iov_len > 0) {
    const ssize_t sent = sendmsg(socket_.number(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !again(sent)) return Io::closed;
    if (sent < 0 && wait(POLLOUT, deadline) == Wait::late) return Io::late;
    if (sent <= 0) continue;
    part.iov_base = static_cast<char*>(part.iov_base) + sent;
    part.iov_len -= static_cast<size_t>(sent);
    message.msg_control = nullptr;
    message.msg_controllen = 0;
  }
  return Io::done;
}

ChildConnection::Io ChildConnection::receive(char* data, size_t size, const Deadline& deadline) {
  while (size > 0) {
    if (wait(POLLIN, deadline) == Wait::late) return Io::late;
    const ssize_t got = recv(socket_.number(), data, size, MSG_DONTWAIT);
    if (again(got)) continue;
    if (got <= 0) return Io::closed;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return Io::done;
}

ChildConnection::Io ChildConnection::receive_some(std::string& bytes, const Deadline& deadline) {
  char buffer[1 << 16];
  while (true) {
    if (wait(POLLIN, deadline) == Wait::late) return Io::late;
    const ssize_t got = recv(socket_.number(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (again(got)) continue;
    if (got <= 0) return Io::closed;
    bytes.append(buffer, static_cast<size_t>(got));
    return Io::done;
  }
}

ChildConnection::End ChildConnection::end(bool closed, const std::function<void(ChildProcess&)>& before_kill) {
  const bool by_itself = process_.wait(closed ? kEnding : std::chrono::milliseconds(0));
  if (!by_itself && before_kill) before_kill(process_);
  process_.kill();
  socket_ = Descriptor();
  const std::string last = printable(process_.last_line(), kLongestShownLine);
  return {.by_itself = by_itself,
          .state = process_.state(),
          .last_line = last.empty() ? "" : "; the last line of its output: " + last};
}

void ChildConnection::close() {
  socket_ = Descriptor();
  if (!closing_) closing_.emplace(kClosing);
}

bool ChildConnection::wait_closed() {
  close();
  return process_.wait(closing_->left());
}

}  // namespace troupe
