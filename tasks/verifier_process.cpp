#include "tasks/verifier_process.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cmath>

#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "runtime/base/server_file.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

constexpr size_t kBytesPerReply = 4096, kBytesPerVerdict = 8192;
constexpr std::chrono::milliseconds kEnding{500};  // between the end of a connection and that of its process
constexpr const char* kClosed = "the verifier closed its connection and was killed";

double number_of(const Json& value, const std::string& what) {
  if (!value.is_number()) throw VerifierFailed(what + " is " + printable(value.dump()) + ", expected a number");
  const double number = value.get<double>();
  if (!(std::abs(number) <= kMostReward))
    throw VerifierFailed(what + " is " + printable(value.dump()) + ", expected at most 1e6 in magnitude");
  return number;
}

Verdict verdict_of(const Json& value, const std::string& index) {
  if (!value.is_object()) {
    const double reward = number_of(value, "score " + index);
    return {.reward = reward, .right = reward >= 1, .parts = {}};
  }
  Verdict verdict{
      .reward = number_of(value.at("reward"), "reward " + index), .right = value.at("right").get<bool>(), .parts = {}};
  const Json& parts = value.at("parts");
  if (!parts.is_object() || parts.size() > kMostParts)
    throw VerifierFailed("the parts of score " + index + " are " + std::to_string(parts.size()) +
                         ", expected an object with at most " + std::to_string(kMostParts));
  for (const auto& [name, part] : parts.items()) {
    if (name.empty() || name.size() > kLongestPartName)
      throw VerifierFailed("a part of score " + index + " has a name of " + std::to_string(name.size()) +
                           " bytes, expected 1 to " + std::to_string(kLongestPartName));
    verdict.parts.emplace_back(name, number_of(part, "part " + printable(name) + " of score " + index));
  }
  return verdict;
}

Json parse_line(std::string_view line) {
  try {
    Json message = parse_strict(line, "reply");
    if (message.is_object()) return message;
  } catch (const std::exception&) {
  }
  throw VerifierFailed("the verifier wrote \"" + printable(line) + "\" to troupe's socket, expected an object");
}

std::string request_text(uint64_t id, std::span<const VerifierItem> items) {
  Json list = Json::array();
  for (const VerifierItem& item : items)
    list.push_back({{"prompt", item.prompt}, {"truth", item.truth}, {"answer", item.answer}});
  const Json request{{"id", id}, {"items", std::move(list)}};
  return request.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

std::vector<Verdict> read_verdicts(std::string_view line, uint64_t id, size_t count) {
  const Json reply = parse_line(line);
  try {
    if (reply.at("id") != id)
      throw VerifierFailed("the reply is to request " + printable(reply.at("id").dump()) + ", expected " +
                           std::to_string(id));
    if (reply.contains("error")) throw VerifierFailed(printable(reply.at("error").get<std::string>(), 300));
    const Json& scores = reply.at("scores");
    if (!scores.is_array() || scores.size() != count)
      throw VerifierFailed("the reply has " + std::to_string(scores.size()) + " scores, expected " +
                           std::to_string(count));
    std::vector<Verdict> verdicts;
    for (size_t i = 0; i < count; ++i) verdicts.push_back(verdict_of(scores[i], std::to_string(i)));
    return verdicts;
  } catch (const Json::exception&) {
    throw VerifierFailed("the reply is \"" + printable(line) + "\", expected {\"id\", \"scores\"}");
  }
}

VerifierProcess::VerifierProcess(const VerifierTarget& target) : target_(target) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw IoError(target.function, "no socket for its process", errno);
  socket_ = Descriptor(ends[0]);
  const Descriptor other(ends[1]);
  const std::vector<std::string> command = {target.python, "-u", server_file("verifier_server.py", "tasks"), "3",
                                            target.function};
  process_ = std::make_unique<ChildProcess>(command, std::span(&ends[1], 1),
                                            [this](std::string_view line) { output_.add(line); });
  counted_ = std::make_unique<CountedChild>(ChildKind::verifier, process_->id());
}

void VerifierProcess::lose(const std::string& what) {
  const bool ended = process_->wait(what == kClosed ? kEnding : std::chrono::milliseconds(0));
  process_->kill();
  socket_ = Descriptor();
  const std::string last = printable(process_->last_line(), 120);
  throw VerifierFailed((ended ? "the verifier " + process_->state() : what) +
                       (last.empty() ? "" : "; the last line of its output: " + last));
}

void VerifierProcess::receive(size_t longest) {
  char buffer[1 << 16];
  const ssize_t got = recv(socket_.number(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) lose(kClosed);
  if (got > 0) received_.append(buffer, static_cast<size_t>(got));
  if (received_.size() > longest)
    lose("the verifier sent more than " + std::to_string(longest) + " bytes for one reply and was killed");
}

std::string VerifierProcess::exchange(std::string_view text, std::chrono::milliseconds limit, const char* setting,
                                      size_t longest) {
  const Deadline deadline(limit);
  while (true) {
    const auto sending = static_cast<short>(text.empty() ? 0 : POLLOUT);
    pollfd watched[2] = {{socket_.number(), static_cast<short>(POLLIN | sending), 0}, {process_->output(), POLLIN, 0}};
    if (poll(watched, 2, static_cast<int>(deadline.left().count())) < 0 && errno != EINTR) lose(kClosed);
    if (watched[1].revents != 0) process_->read_output();
    if ((watched[0].revents & POLLOUT) != 0) {
      const ssize_t sent = send(socket_.number(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EINTR && errno != EAGAIN) lose(kClosed);
      if (sent > 0) text.remove_prefix(static_cast<size_t>(sent));
    }
    if ((watched[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) receive(longest);
    if (const size_t end = received_.find('\n'); end != std::string::npos) {
      if (!text.empty() || end + 1 != received_.size())
        lose("the verifier wrote \"" + printable(received_) + "\" to troupe's socket, expected one reply per request");
      received_.pop_back();
      return std::exchange(received_, {});
    }
    if (deadline.passed())
      lose("the verifier has not answered within " + std::string(setting) + " (" + std::to_string(limit.count()) +
           " ms) and was killed");
  }
}

void VerifierProcess::await_ready() {
  const Json message = parse_line(exchange("", target_.starting, "its time to start", kBytesPerReply));
  if (message.contains("error") && message["error"].is_string())
    throw VerifierFailed("the verifier " + printable(target_.function) +
                         " cannot be loaded: " + printable(message["error"].get<std::string>(), 300));
  if (message != Json{{"ready", true}})
    throw VerifierFailed("the verifier wrote \"" + printable(message.dump()) + "\" before it was ready");
  ready_ = true;
}

std::vector<Verdict> VerifierProcess::score(std::span<const VerifierItem> items) {
  if (socket_.number() < 0) throw VerifierFailed("the process of the verifier has ended");
  try {
    if (!ready_) await_ready();
    const uint64_t id = ++requests_;
    const std::string line = exchange(request_text(id, items), target_.timeout, "the time for one call",
                                      kBytesPerReply + items.size() * kBytesPerVerdict);
    return read_verdicts(line, id, items.size());
  } catch (const VerifierFailed&) {
    process_->kill();
    socket_ = Descriptor();
    throw;
  }
}

}  // namespace troupe
