#include "envs/bridge/server_process.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runtime/base/blocked.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/server_file.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

constexpr uint32_t kLongestMessage = 16 << 20;  // bytes; anything longer is not from env_server.py
constexpr const char* kClosed = "the process of the environment closed its connection and was killed";
constexpr std::chrono::milliseconds kFirstWait{20};  // before the output of a process is read during a step
constexpr uint64_t kStepsPerRead = 64;               // steps after which the output is read in any case
constexpr char kJson = 'j';
constexpr size_t kLongestTrace = 16384;
constexpr std::chrono::milliseconds kAborting{1000};

// Ends a process by SIGABRT, at which it writes its stack, and leaves no core file. Waits at most kAborting.
void abort_process(ChildProcess& process) {
  const rlimit none{0, 0};
  prlimit(process.id(), RLIMIT_CORE, &none, nullptr);
  if (::kill(process.id(), SIGABRT) == 0) process.wait(kAborting);
}

Descriptor make_trace(const std::string& id) {
  Descriptor trace(memfd_create("troupe-trace", MFD_CLOEXEC));
  if (trace.number() < 0) throw IoError(id, "no memory for the trace of its process", errno);
  return trace;
}

}  // namespace

ServerProcess::ServerProcess(const PythonTarget& target, int64_t rows, Probe probe)
    : target_(target),
      start_(target.start_timeout),
      trace_(make_trace(target.id)),
      child_(target.id, ChildKind::environment,
             {target.python, "-u", server_file("env_server.py", "envs/bridge"), "3", "4"},
             std::array{trace_.number()}) {
  send_json({{"id", target.id},
             {"params", nlohmann::ordered_json::parse(target.params)},
             {"rows", rows},
             {"probe", probe == Probe::yes}});
}

ServerProcess::~ServerProcess() {
  begin_close();
  child_.wait_closed();
}

void ServerProcess::lose(const std::string& what, bool closed) {
  const ChildConnection::End end = child_.end(closed, abort_process);
  throw ServerGone((end.by_itself ? "the process of the environment " + end.state : what) + end.last_line, traceback());
}

void ServerProcess::lose_late() {
  lose("the process of the environment has not answered within " +
       (starting_ ? target_.start_setting : target_.timeout_setting) + " (" +
       std::to_string((starting_ ? target_.start_timeout : target_.timeout).count()) + " ms) and was killed");
}

void ServerProcess::require(ChildConnection::Io io) {
  if (io == ChildConnection::Io::closed) lose(kClosed, /*closed=*/true);
  if (io == ChildConnection::Io::late) lose_late();
}

std::vector<std::string> ServerProcess::traceback() const {
  std::string text(kLongestTrace, '\0');
  const ssize_t size = pread(trace_.number(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (!line.empty() && !line.starts_with("Extension modules:") && line != "Fatal Python error: Aborted")
      lines.push_back(printable(line, 500));
  if (!lines.empty()) lines.insert(lines.begin(), "Traceback of its process:");
  return lines;
}

std::pair<int64_t, int64_t> ServerProcess::executing() const {
  if (block_ == nullptr) return {0, 0};
  const uint64_t code = block_->header->executing;
  const auto first = static_cast<int64_t>(code >> 32), end = static_cast<int64_t>(code & 0xffffffff);
  return first < end && end <= block_->rows() ? std::pair(first, end) : std::pair<int64_t, int64_t>(0, 0);
}

void ServerProcess::send_json(const nlohmann::ordered_json& value, std::span<const int> files) {
  if (!child_.open()) throw ServerGone("the process of the environment has ended");
  const std::string text = value.dump();
  const auto size = static_cast<uint32_t>(text.size());
  std::string bytes(1, kJson);
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  require(child_.send(bytes + text, Deadline(starting_ ? target_.start_timeout : target_.timeout), files));
}

// Waits for the socket or for the end of a request. Returns whether the socket is readable, which is examined first.
bool ServerProcess::wait_readable(const Deadline& deadline) {
  const auto ready = child_.wait(POLLIN, deadline, replied_.number());
  if (ready == ChildConnection::Wait::late) lose_late();
  return ready == ChildConnection::Wait::socket;
}

void ServerProcess::read(char* data, size_t size, const Deadline& deadline) {
  require(child_.receive(data, size, deadline));
}

nlohmann::ordered_json ServerProcess::read_json(const Deadline& deadline) {
  char kind = 0;
  read(&kind, 1, deadline);
  if (kind != kJson)
    lose("the process of the environment wrote to troupe's socket (byte " +
         std::to_string(static_cast<unsigned char>(kind)) + ") and was killed");
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

nlohmann::ordered_json ServerProcess::spaces() { return read_json(start_); }

void ServerProcess::attach(StepBlock& block) {
  requested_ = Descriptor(eventfd(0, EFD_CLOEXEC));
  replied_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (requested_.number() < 0 || replied_.number() < 0) throw IoError(target_.id, "no eventfd for its process", errno);
  *block.header = BlockHeader{};
  const int files[] = {block.descriptor(), requested_.number(), replied_.number()};
  send_json(block.layout(), files);
  block_ = &block;
}

void ServerProcess::request(RequestKind kind) {
  if (!child_.open() || block_ == nullptr) throw ServerGone("the process of the environment has ended");
  ++block_->header->request;
  block_->header->kind = static_cast<uint64_t>(kind);
  const uint64_t one = 1;
  if (write(requested_.number(), &one, sizeof one) != sizeof one) lose(kClosed, /*closed=*/true);
}

void ServerProcess::request_step(bool all) { request(all ? RequestKind::step_all : RequestKind::step); }

void ServerProcess::read_errors(std::vector<ServerRowError>& errors, const Deadline& deadline) {
  const nlohmann::ordered_json message = read_json(deadline);
  try {
    for (const auto& error : message.at("errors"))
      errors.push_back({error.at(0).get<int64_t>(), error.at(1).get<std::string>(),
                        error.at(2).get<std::vector<std::string>>(), error.at(3).get<bool>()});
  } catch (const nlohmann::json::exception&) {
    lose("the process of the environment sent an unexpected answer and was killed");
  }
}

std::vector<ServerRowError> ServerProcess::await_step(const Deadline& deadline) {
  std::vector<ServerRowError> errors;
  // The usual case first, because it is faster to wait for few descriptors.
  pollfd usual[2] = {{replied_.number(), POLLIN, 0}, {child_.socket(), POLLIN, 0}};
  const auto first = std::min<std::chrono::milliseconds>(kFirstWait, deadline.left());
  if (!poll_blocked(usual, first) || usual[1].revents != 0)
    while (wait_readable(deadline)) read_errors(errors, deadline);
  starting_ = false;
  if (++steps_ % kStepsPerRead == 0) child_.read_output();
  uint64_t replies = 0;
  const bool read_all = ::read(replied_.number(), &replies, sizeof replies) == sizeof replies && replies == 1;
  if (!read_all || block_->header->reply != block_->header->request)
    lose("the process of the environment answered another request than the last one and was killed");
  if (block_->header->errors != 0 && errors.empty()) read_errors(errors, deadline);
  return errors;
}

std::string ServerProcess::render(int64_t row) {
  send_json({{"render", row}});
  request(RequestKind::message);
  return read_json(Deadline(target_.timeout)).value("picture", "");
}

void ServerProcess::begin_close() {
  const uint64_t one = 1;
  if (block_ != nullptr) {
    block_->header->kind = static_cast<uint64_t>(RequestKind::close);
    // A process that does not end for any reason is killed.
    if (write(requested_.number(), &one, sizeof one) < 0) block_ = nullptr;
  }
  child_.close();
}

}  // namespace troupe
