#include "envs/c_abi/library_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
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

constexpr uint64_t kStartRequests = 2;  // open and attach

// The program troupe: beside the running program or, for the tests of a build, in the folder around.
std::string host_program() {
  std::error_code failed;
  const fs::path folder = fs::read_symlink("/proc/self/exe", failed).parent_path();
  for (const fs::path& place : {folder, folder.parent_path()})
    if (fs::is_regular_file(place / "troupe", failed)) return place / "troupe";
  throw IoError((folder / "troupe").string(), "is missing, and environments in C run in it");
}

Descriptor make_file(const std::string& id) {
  Descriptor file(memfd_create("troupe-library", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.number() < 0 || ftruncate(file.number(), kStepOffset) != 0)
    throw IoError(id, "no memory for its process", errno);
  fcntl(file.number(), F_ADD_SEALS, F_SEAL_SHRINK);  // a process that shortened the file would crash this one
  return file;
}

std::shared_ptr<std::byte[]> map_notes(const std::string& id, const Descriptor& file) {
  auto notes = map_shared(file.number(), kStepOffset);
  if (!notes) throw IoError(id, "no address space for its process", errno);
  return notes;
}

}  // namespace

LibraryProcess::LibraryProcess(const LibraryTarget& target, int64_t rows)
    : target_(target),
      rows_(rows),
      file_(make_file(target.id)),
      note_(map_notes(target.id, file_)),
      deadline_(limit()),
      child_(target.id, ChildKind::environment, {host_program(), std::string(kHostWord)}, std::array{file_.number()}) {
  static_assert(kHostSocket == 3 && kHostMemory == 4);
  const nlohmann::ordered_json open{
      {"id", target.id}, {"params", target.params}, {"chunk", target.chunk}, {"rows", rows}};
  begin(HostRequest::open, 0, 0, open.dump());
}

LibraryProcess::~LibraryProcess() {
  if (lost_) return;
  if (!child_.wait_closed())
    log_warn(target_.id, "its process is still in " + std::string(name_of(notes().running)) + " after " +
                             std::to_string(ChildConnection::kClosing.count()) + " ms and is killed");
  else if (child_.exit_code() != 0 || notes().running != 0)
    log_warn(target_.id, "its process " + child_.state() + " in " + name_of(notes().running));
}

// The function that runs in the process or ran when it ended, and the one that ran last.
LibraryNotes LibraryProcess::notes() const {
  LibraryNotes notes;
  std::memcpy(&notes, note_.get(), sizeof notes);
  return notes;
}

// `what` is empty if the process has closed its connection.
void LibraryProcess::lose(const std::string& what) {
  const ChildConnection::End end = child_.end(/*closed=*/what.empty());
  lost_ = true;
  const LibraryNotes at_end = notes();
  std::string text = printable(target_.id, 200) + ": ";
  if (at_end.running == 0)
    text += "its process, in which " + std::string(name_of(at_end.last)) + " ran last, ";
  else
    text += std::string(name_of(at_end.running)) + ' ' + (end.by_itself ? "ended its process, which " : "");
  text += end.by_itself  ? end.state
          : what.empty() ? "closed its connection and was killed"
                         : what + ", and the process was killed";
  throw LibraryLost(text + end.last_line);
}

// Whether no request that begins episodes was answered: until then the process starts.
bool LibraryProcess::starting() const { return answered_ <= kStartRequests; }

std::chrono::milliseconds LibraryProcess::limit() const { return starting() ? target_.start_timeout : target_.timeout; }

void LibraryProcess::require(ChildConnection::Io io) {
  if (io == ChildConnection::Io::closed) lose("");
  if (io == ChildConnection::Io::late)
    lose("has not returned within " + (starting() ? target_.start_setting : target_.timeout_setting) + " (" +
         std::to_string(limit().count()) + " ms)");
}

void LibraryProcess::begin(HostRequest request, uint64_t a, uint64_t b, std::string_view text) {
  if (lost_) throw LibraryLost(target_.id + ": its process has ended");
  if (asked_++ == 0 && answered_ > 0) deadline_ = Deadline(limit());
  const HostMessage message{.kind = static_cast<uint32_t>(request), .a = a, .b = b, .size = text.size()};
  require(child_.send({reinterpret_cast<const char*>(&message), sizeof message}, deadline_));
  require(child_.send(text, deadline_));
}

LibraryProcess::Reply LibraryProcess::receive() {
  if (lost_) throw LibraryLost(target_.id + ": its process has ended");
  HostMessage answer;
  require(child_.receive(reinterpret_cast<char*>(&answer), sizeof answer, deadline_));
  const auto kind = static_cast<HostAnswer>(answer.kind);
  const bool known = kind == HostAnswer::done || kind == HostAnswer::refused || kind == HostAnswer::failed;
  if (!known || answer.size > kLongestHostText) lose("has written to the connection of its process");
  Reply reply{std::string(answer.size, '\0'), answer.a};
  require(child_.receive(reply.text.data(), reply.text.size(), deadline_));
  --asked_;
  ++answered_;
  if (kind == HostAnswer::refused) throw ConfigError(reply.text);
  if (kind == HostAnswer::failed) throw std::runtime_error(reply.text);
  if (answered_ == 1) spec_ = spec_of_text(target_.id, reply.text);
  return reply;
}

LibraryProcess::Reply LibraryProcess::finish() {
  Reply reply;
  while (asked_ > 0) reply = receive();
  return reply;
}

LibraryProcess::Reply LibraryProcess::ask(HostRequest request, uint64_t a, uint64_t b, std::string_view text) {
  begin(request, a, b, text);
  return finish();
}

const EnvSpec& LibraryProcess::spec() {
  if (!spec_) receive();
  return *spec_;
}

void LibraryProcess::attach(const EnvSpec& spec) {
  const size_t size = kStepOffset + SharedStep::step_bytes(spec, rows_);
  std::shared_ptr<std::byte[]> memory;
  if (ftruncate(file_.number(), static_cast<off_t>(size)) == 0) memory = map_shared(file_.number(), size);
  if (!memory) throw IoError(target_.id, "no shared memory of " + std::to_string(size) + " bytes", errno);
  begin(HostRequest::attach, size);
  shared_.emplace(spec, rows_, memory);
}

}  // namespace troupe
