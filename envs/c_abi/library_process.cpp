#include "envs/c_abi/library_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kTimeToEnd{500};  // between the end of a connection and that of its process

// The program troupe: beside the running program or, for the tests of a build, in the folder around.
std::string host_program() {
  std::error_code failed;
  const fs::path folder = fs::read_symlink("/proc/self/exe", failed).parent_path();
  for (const fs::path& place : {folder, folder.parent_path()})
    if (fs::is_regular_file(place / "troupe", failed)) return place / "troupe";
  throw IoError((folder / "troupe").string(), "is missing, and environments in C run in it");
}

}  // namespace

LibraryProcess::LibraryProcess(const LibraryTarget& target, int64_t rows)
    : target_(target), rows_(rows), output_(target.id) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw IoError(target.id, "no socket for its process", errno);
  socket_ = Descriptor(ends[0]);
  Descriptor other(ends[1]);
  file_ = Descriptor(memfd_create("troupe-library", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file_.number() < 0 || ftruncate(file_.number(), kStepOffset) != 0)
    throw IoError(target.id, "no memory for its process", errno);
  // A process that shortened the file would crash this one.
  fcntl(file_.number(), F_ADD_SEALS, F_SEAL_SHRINK);
  note_ = map_shared(file_.number(), kStepOffset);
  if (!note_) throw IoError(target.id, "no address space for its process", errno);
  const int descriptors[] = {other.number(), file_.number()};
  static_assert(kHostSocket == 3 && kHostMemory == 4);
  process_ = std::make_unique<ChildProcess>(std::vector<std::string>{host_program(), std::string(kHostWord)},
                                            descriptors, [this](std::string_view line) { output_.add(line); });
  other = Descriptor();  // so that its end closes the connection
  counted_ = std::make_unique<CountedChild>(ChildKind::environment, process_->id());
  const nlohmann::ordered_json open{
      {"id", target.id}, {"params", target.params}, {"chunk", target.chunk}, {"rows", rows}};
  spec_ = spec_of_text(target.id, ask(HostRequest::open, 0, 0, open.dump()).text);
}

LibraryProcess::~LibraryProcess() {
  const bool running = socket_.number() >= 0;
  socket_ = Descriptor();
  if (!running) return;
  if (!process_->wait(kClosing))
    log_warn(target_.id, "its process is still in " + std::string(name_of(notes().running)) + " after " +
                             std::to_string(kClosing.count()) + " ms and is killed");
  else if (process_->exit_code() != 0 || notes().running != 0)
    log_warn(target_.id, "its process " + process_->state() + " in " + name_of(notes().running));
}

// The function that runs in the process or ran when it ended, and the one that ran last.
LibraryNotes LibraryProcess::notes() const {
  LibraryNotes notes;
  std::memcpy(&notes, note_.get(), sizeof notes);
  return notes;
}

void LibraryProcess::lose(const std::string& what) {
  const bool ended = process_->wait(what.empty() ? kTimeToEnd : std::chrono::milliseconds(0));
  process_->kill();
  socket_ = Descriptor();
  const LibraryNotes at_end = notes();
  std::string text = printable(target_.id, 200) + ": ";
  if (at_end.running == 0)
    text += "its process, in which " + std::string(name_of(at_end.last)) + " ran last, ";
  else
    text += std::string(name_of(at_end.running)) + ' ' + (ended ? "ended its process, which " : "");
  text += ended          ? process_->state()
          : what.empty() ? "closed its connection and was killed"
                         : what + ", and the process was killed";
  const std::string last = printable(process_->last_line(), 120);
  throw LibraryLost(text + (last.empty() ? "" : "; the last line of its output: " + last));
}

// Waits until the connection is ready for `events`, and reads the output of the process meanwhile.
void LibraryProcess::await(short events, const Deadline& deadline) {
  while (true) {
    pollfd watched[2] = {{socket_.number(), events, 0}, {process_->output(), POLLIN, 0}};
    const int ready = poll(watched, 2, static_cast<int>(deadline.left().count()));
    if (ready < 0 && errno == EINTR) continue;
    if (watched[1].revents != 0) process_->read_output();
    if (watched[0].revents != 0) return;
    if (!deadline.passed()) continue;
    const auto limit = starting_ ? std::max(target_.start_timeout, target_.timeout) : target_.timeout;
    lose("has not returned within env." + std::string(starting_ ? "start" : "step") + "_timeout_ms (" +
         std::to_string(limit.count()) + " ms)");
  }
}

void LibraryProcess::read(char* data, size_t size, const Deadline& deadline) {
  while (size > 0) {
    await(POLLIN, deadline);
    const ssize_t got = recv(socket_.number(), data, size, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) lose("");
    if (got <= 0) continue;
    data += got;
    size -= static_cast<size_t>(got);
  }
}

void LibraryProcess::write(const char* data, size_t size, const Deadline& deadline) {
  while (size > 0) {
    const ssize_t sent = send(socket_.number(), data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR && errno != EAGAIN) lose("");
    if (sent < 0 && errno == EAGAIN) await(POLLOUT, deadline);
    if (sent <= 0) continue;
    data += sent;
    size -= static_cast<size_t>(sent);
  }
}

LibraryProcess::Reply LibraryProcess::ask(HostRequest request, uint64_t a, uint64_t b, std::string_view text) {
  if (socket_.number() < 0) throw LibraryLost(target_.id + ": its process has ended");
  const Deadline deadline(starting_ ? std::max(target_.start_timeout, target_.timeout) : target_.timeout);
  const HostMessage message{.kind = static_cast<uint32_t>(request), .a = a, .b = b, .size = text.size()};
  write(reinterpret_cast<const char*>(&message), sizeof message, deadline);
  write(text.data(), text.size(), deadline);
  HostMessage answer;
  read(reinterpret_cast<char*>(&answer), sizeof answer, deadline);
  const auto kind = static_cast<HostAnswer>(answer.kind);
  const bool known = kind == HostAnswer::done || kind == HostAnswer::refused || kind == HostAnswer::failed;
  if (!known || answer.size > kLongestHostText) lose("has written to the connection of its process");
  Reply reply{std::string(answer.size, '\0'), answer.a};
  read(reply.text.data(), reply.text.size(), deadline);
  if (request != HostRequest::open && request != HostRequest::attach) starting_ = false;
  if (kind == HostAnswer::refused) throw ConfigError(reply.text);
  if (kind == HostAnswer::failed) throw std::runtime_error(reply.text);
  return reply;
}

SharedStep& LibraryProcess::shared() {
  if (shared_) return *shared_;
  const size_t size = kStepOffset + SharedStep::step_bytes(spec_, rows_);
  std::shared_ptr<std::byte[]> memory;
  if (ftruncate(file_.number(), static_cast<off_t>(size)) == 0) memory = map_shared(file_.number(), size);
  if (!memory) throw IoError(target_.id, "no shared memory of " + std::to_string(size) + " bytes", errno);
  ask(HostRequest::attach, size);
  return shared_.emplace(spec_, rows_, memory);
}

}  // namespace troupe
