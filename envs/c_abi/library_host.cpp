#include "envs/c_abi/library_host.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "envs/c_abi/host_messages.h"
#include "envs/c_abi/library_call.h"
#include "envs/c_abi/library_env.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

struct Answer {
  std::string text;
  uint64_t a = 0;
};

class Host {
 public:
  [[noreturn]] void run();

 private:
  HostMessage read_message(std::string& text);
  Answer answer(const HostMessage& message, const std::string& text);
  Answer open(const std::string& text);
  void attach(size_t size);
  void begin_episodes(uint64_t seed, std::string_view rows_and_episodes);
  Answer errors();

  std::unique_ptr<Env> env_;
  std::shared_ptr<std::byte[]> memory_;
  std::optional<SharedStep> shared_;
  bool singly_ = false;  // see Env::play_singly
};

// Ends this process without the destructors of the library, which could hang.
[[noreturn]] void leave() { _exit(0); }

void read_bytes(char* data, size_t size) {
  while (size > 0) {
    const ssize_t got = recv(kHostSocket, data, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) leave();
    data += got;
    size -= static_cast<size_t>(got);
  }
}

HostMessage Host::read_message(std::string& text) {
  HostMessage message;
  // The end of the connection is the end of a HostedEnv: then the environments are destroyed.
  ssize_t got = 0;
  while ((got = recv(kHostSocket, &message, sizeof message, MSG_WAITALL)) < 0 && errno == EINTR) continue;
  if (got != sizeof message) {
    env_.reset();
    leave();
  }
  text.resize(message.size);
  read_bytes(text.data(), text.size());
  return message;
}

Answer Host::open(const std::string& text) {
  const auto given = nlohmann::ordered_json::parse(text);
  LibraryTarget target;
  target.id = given.at("id").get<std::string>();
  target.params = given.at("params").get<std::string>();
  target.chunk = given.at("chunk").get<int64_t>();
  env_ = make_library_rows(target, given.at("rows").get<int64_t>());
  return {spec_text(env_->spec())};
}

void Host::attach(size_t size) {
  note_calls_at(nullptr);
  memory_ = map_shared(kHostMemory, size);
  if (!memory_) throw std::runtime_error("no address space for " + std::to_string(size) + " bytes");
  note_calls_at(reinterpret_cast<volatile LibraryNotes*>(memory_.get()));
  shared_.emplace(env_->spec(), env_->rows(), memory_);
}

void Host::begin_episodes(uint64_t seed, std::string_view rows_and_episodes) {
  if (!std::exchange(singly_, true)) env_->play_singly(seed);
  for (uint64_t pair[2]; rows_and_episodes.size() >= sizeof pair; rows_and_episodes.remove_prefix(sizeof pair)) {
    std::memcpy(pair, rows_and_episodes.data(), sizeof pair);
    env_->begin_episode(static_cast<int64_t>(pair[0]), pair[1]);
  }
}

// The errors of the rows, one a line.
Answer Host::errors() {
  Answer answer;
  for (const std::string& error : shared_->step.errors) answer.text += error + '\n';
  return answer;
}

Answer Host::answer(const HostMessage& message, const std::string& text) {
  const auto row = static_cast<int64_t>(message.a);
  Answer result;
  const auto kind = static_cast<HostRequest>(message.kind);
  const bool ready = kind == HostRequest::open || (env_ && (kind == HostRequest::attach || shared_));
  if (!ready) throw std::runtime_error("a request before it failed");
  switch (kind) {
    case HostRequest::open: return open(text);
    case HostRequest::attach: attach(message.a); break;
    case HostRequest::reset: env_->reset(message.a, message.b, shared_->step); return errors();
    case HostRequest::step:
      if (message.a != 0) begin_episodes(message.b, text);
      env_->step(shared_->actions, shared_->step);
      return errors();
    case HostRequest::observe: env_->observe(shared_->step); return errors();
    case HostRequest::set_active: env_->set_active(row, message.b != 0); break;
    case HostRequest::render: result.text = env_->render(row); break;
    case HostRequest::save: result.a = env_->save(result.text) ? 1 : 0; break;
    case HostRequest::load: result.a = env_->load(text) ? 1 : 0; break;
  }
  return result;
}

void Host::run() {
  memory_ = map_shared(kHostMemory, kStepOffset);
  if (memory_) note_calls_at(reinterpret_cast<volatile LibraryNotes*>(memory_.get()));
  while (true) {
    std::string text;
    const HostMessage message = read_message(text);
    HostMessage reply{.kind = static_cast<uint32_t>(HostAnswer::done)};
    Answer result;
    try {
      result = answer(message, text);
      reply.a = result.a;
    } catch (const ConfigError& mistake) {
      reply.kind = static_cast<uint32_t>(HostAnswer::refused);
      result.text = mistake.what();
    } catch (const std::exception& failure) {
      reply.kind = static_cast<uint32_t>(HostAnswer::failed);
      result.text = failure.what();
    }
    if (!send_message(kHostSocket, reply, result.text)) leave();
  }
}

}  // namespace

void run_library_host() { Host().run(); }

}  // namespace troupe
