#include "envs/bridge/server_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace fs = std::filesystem;

namespace {

constexpr uint32_t kLongestMessage = 16 << 20;  // bytes; anything longer is not from env_server.py
constexpr const char* kClosed = "the process of the environment closed its connection and was killed";
constexpr std::chrono::milliseconds kEnding{500};  // between the end of a connection and that of its process
constexpr char kJson = 'j', kStep = 's', kDone = 'd';

// env_server.py: installed with the program, or in the source tree if the program is in its build folder.
std::string server_file() {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed).parent_path();
  const fs::path installed = program.parent_path() / "share" / "troupe" / "env_server.py";
  if (fs::exists(installed, failed)) return installed;
  const fs::path source = fs::path(TROUPE_SOURCE_DIR) / "envs" / "bridge" / "env_server.py";
  if (program.string().starts_with(TROUPE_BUILD_DIR) && fs::exists(source, failed)) return source;
  throw IoError(installed.string(), "is missing; it is installed together with troupe");
}

}  // namespace

ServerProcess::ServerProcess(const PythonTarget& target, bool probe) : target_(target) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw IoError(target.id, "no socket for its process", errno);
  socket_ = Descriptor(ends[0]);
  const Descriptor other(ends[1]);
  process_ = std::make_unique<ChildProcess>(std::vector<std::string>{target.python, "-u", server_file(), "3"},
                                            std::span(&ends[1], 1), [this](std::string_view line) { on_line(line); });
  send_json({{"id", target.id}, {"params", nlohmann::ordered_json::parse(target.params)}, {"probe", probe}});
}

ServerProcess::~ServerProcess() {
  begin_close();
  process_->wait(kClosing);
}

void ServerProcess::on_line(std::string_view line) {
  if (lines_.take(1, TokenBucket::Clock::now())) log_info(target_.id, line);
}

void ServerProcess::lose(const std::string& what) {
  const bool ended = process_->wait(what == kClosed ? kEnding : std::chrono::milliseconds(0));
  process_->kill();
  socket_ = Descriptor();
  const std::string last = printable(process_->last_line(), 120);
  throw ServerGone((ended ? "the process of the environment " + process_->state() : what) +
                   (last.empty() ? "" : "; the last line of its output: " + last));
}

void ServerProcess::send(std::string_view bytes, int file) {
  if (socket_.number() < 0) throw ServerGone("the process of the environment has ended");
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (file >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
  }
  while (part.iov_len > 0) {
    const ssize_t sent = sendmsg(socket_.number(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) lose(kClosed);
    part.iov_base = static_cast<char*>(part.iov_base) + sent;
    part.iov_len -= static_cast<size_t>(sent);
    message.msg_control = nullptr;
    message.msg_controllen = 0;
  }
}

void ServerProcess::send_json(const nlohmann::ordered_json& value, int file) {
  const std::string text = value.dump();
  const auto size = static_cast<uint32_t>(text.size());
  std::string bytes(1, kJson);
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  send(bytes + text, file);
}

// Fills `data`. Meanwhile reads the output of the process, which would stop if its pipe were full.
void ServerProcess::read(char* data, size_t size, const Deadline& deadline) {
  while (size > 0) {
    pollfd watched[2] = {{socket_.number(), POLLIN, 0}, {process_->output(), POLLIN, 0}};
    const int ready = poll(watched, 2, static_cast<int>(deadline.left().count()));
    if (ready < 0 && errno == EINTR) continue;
    if (watched[1].revents != 0) process_->read_output();
    if (ready > 0 && watched[0].revents != 0) {
      const ssize_t got = recv(socket_.number(), data, size, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) lose(kClosed);
      if (got <= 0) continue;
      data += got;
      size -= static_cast<size_t>(got);
    } else if (deadline.passed()) {
      lose("the process of the environment has not answered within env.step_timeout_ms (" +
           std::to_string(target_.timeout.count()) + " ms) and was killed");
    }
  }
}

char ServerProcess::read_kind(const Deadline& deadline) {
  char kind = 0;
  read(&kind, 1, deadline);
  if (kind != kJson && kind != kDone)
    lose("the process of the environment wrote to troupe's socket (byte " +
         std::to_string(static_cast<unsigned char>(kind)) + ") and was killed");
  return kind;
}

nlohmann::ordered_json ServerProcess::read_json(const Deadline& deadline) {
  uint32_t size = 0;
  read(reinterpret_cast<char*>(&size), sizeof size, deadline);
  if (size > kLongestMessage)
    lose("the process of the environment sent a message of " + std::to_string(size) + " bytes and was killed");
  std::string text(size, '\0');
  read(text.data(), size, deadline);
  try {
    return parse_strict(text, "message");
  } catch (const ConfigError& error) {
    lose("the process of the environment sent a damaged message (" + printable(error.what(), 100) + ") and was killed");
  }
}

nlohmann::ordered_json ServerProcess::spaces() {
  const Deadline deadline(target_.timeout);
  if (read_kind(deadline) != kJson) lose("the process of the environment sent an unexpected answer and was killed");
  return read_json(deadline);
}

void ServerProcess::attach(const nlohmann::ordered_json& layout, int block) { send_json(layout, block); }

void ServerProcess::request_step() { send({&kStep, 1}); }

std::vector<ServerRowError> ServerProcess::await_step(const Deadline& deadline) {
  std::vector<ServerRowError> errors;
  while (read_kind(deadline) == kJson) {
    const nlohmann::ordered_json message = read_json(deadline);
    try {
      for (const auto& error : message.at("errors"))
        errors.push_back(
            {error.at(0).get<int64_t>(), error.at(1).get<std::string>(), error.at(2).get<std::vector<std::string>>()});
    } catch (const nlohmann::json::exception&) {
      lose("the process of the environment sent an unexpected answer and was killed");
    }
  }
  return errors;
}

std::string ServerProcess::render(int64_t row) {
  const Deadline deadline(target_.timeout);
  send_json({{"render", row}});
  if (read_kind(deadline) != kJson) lose("the process of the environment sent an unexpected answer and was killed");
  return read_json(deadline).value("picture", "");
}

}  // namespace troupe
