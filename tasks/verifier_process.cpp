#include "tasks/verifier_process.h"

#include <poll.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/server_file.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

constexpr size_t kBytesPerReply = 256 << 10, kBytesPerVerdict = 8192;  // a reply may have a traceback
constexpr size_t kBytesPerPrompt = 2 << 20;  // with escapes; longer prompts are refused when they are read

constexpr size_t kLongestProblem = 400;

double number_of(const Json& value, const std::string& what) {
  if (!value.is_number()) throw VerifierFailed(what + " is " + printable(value.dump()) + ", expected a number");
  const double number = value.get<double>();
  if (!(std::abs(number) <= kMostReward))
    throw VerifierFailed(what + " is " + printable(value.dump()) + ", expected at most 1e6 in magnitude");
  return number;
}

std::vector<std::string> traceback_of(const Json& message) {
  std::vector<std::string> lines;
  if (const auto found = message.find("traceback"); found != message.end() && found->is_array())
    for (const Json& line : *found)
      if (line.is_string()) lines.push_back(line.get<std::string>());
  return lines;
}

std::string place_of(const Json& message) {
  const auto found = message.find("place");
  return found != message.end() && found->is_string() ? found->get<std::string>() : "";
}

Json columns_of(const std::string& text) {
  Json columns = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return columns.is_object() ? columns : Json::object();
}

std::vector<std::pair<std::string, double>> parts_of(const Json& parts, const std::string& index) {
  if (!parts.is_object() || parts.size() > kMostParts)
    throw VerifierFailed("the parts of score " + index + " are " + std::to_string(parts.size()) +
                         ", expected an object with at most " + std::to_string(kMostParts));
  std::vector<std::pair<std::string, double>> result;
  for (const auto& [name, part] : parts.items()) {
    if (name.empty() || name.size() > kLongestPartName)
      throw VerifierFailed("a part of score " + index + " has a name of " + std::to_string(name.size()) +
                           " bytes, expected 1 to " + std::to_string(kLongestPartName));
    result.emplace_back(name, number_of(part, "part " + printable(name) + " of score " + index));
  }
  return result;
}

Verdict verdict_of(const Json& value, const std::string& index) {
  Verdict verdict;
  Score& score = verdict.score;
  if (value.is_null()) {
    score.scored = Scored::none;
  } else if (!value.is_object()) {
    score.reward = number_of(value, "score " + index);
    score.right = score.reward >= 1;
  } else if (value.contains("failed")) {
    score.scored = Scored::failed;
    score.problem = printable(value.at("failed").get<std::string>(), kLongestProblem);
    verdict.traceback = traceback_of(value);
    verdict.place = place_of(value);
  } else {
    score.reward = number_of(value.at("reward"), "reward " + index);
    score.right = value.at("right").get<bool>();
    score.parts = parts_of(value.at("parts"), index);
    if (const auto turns = value.find("turns"); turns != value.end())
      for (const Json& reward : *turns)
        score.turns.push_back(number_of(reward, "a reward of a turn of score " + index));
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

Json json_of(const std::vector<Turn>& turns) {
  Json list = Json::array();
  for (const Turn& turn : turns) {
    list.push_back({{"answer", turn.answer}, {"message", turn.message}});
    if (turn.role != "user") list.back()["role"] = turn.role;
  }
  return list;
}

std::string request_text(uint64_t id, std::span<const VerifierItem> items, bool reply) {
  Json list = Json::array();
  Json columns = Json::object();
  const std::string* of = nullptr;  // what `columns` was read from: answers to one prompt follow each other
  for (const VerifierItem& item : items) {
    if (of == nullptr ? !item.columns.empty() : item.columns != *of) columns = columns_of(item.columns);
    of = &item.columns;
    list.push_back({{"prompt", item.prompt}, {"truth", item.truth}, {"answer", item.answer}, {"columns", columns}});
    if (item.earlier) list.back()["turns"] = json_of(*item.earlier);
  }
  Json request{{"id", id}, {"items", std::move(list)}};
  if (reply) request["reply"] = true;
  return request.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

// Whether the object has this key or path of keys. Null is a value.
bool has_key(const Json& object, const std::string& key) {
  if (!object.is_object()) return false;
  if (object.contains(key)) return true;
  const size_t point = key.find('.');
  const auto outer = point == std::string::npos ? object.end() : object.find(key.substr(0, point));
  return outer != object.end() && has_key(*outer, key.substr(point + 1));
}

std::string listed(std::span<const std::string> keys, const std::string& last_joint) {
  std::string text;
  for (size_t i = 0; i < keys.size(); ++i)
    text += (i == 0 ? "" : i + 1 == keys.size() ? last_joint : ", ") + ('"' + printable(keys[i]) + '"');
  return text;
}

std::vector<std::string> command_of(const VerifierTarget& target) {
  std::vector<std::string> command = {target.python, "-u", server_file("verifier_server.py", "tasks"), "3",
                                      target.function};
  if (!target.params.empty()) command.push_back(target.params);
  if (target.replies) command.emplace_back("--replies");
  return command;
}

// Throws unless the reply is to the request `id` and reports no error.
void check_reply(const Json& reply, uint64_t id) {
  if (reply.at("id") != id)
    throw VerifierFailed("the reply is to request " + printable(reply.at("id").dump()) + ", expected " +
                         std::to_string(id));
  if (reply.contains("error"))
    throw VerifierRaised(printable(reply.at("error").get<std::string>(), kLongestProblem), traceback_of(reply),
                         place_of(reply));
}

}  // namespace

namespace {

// The list with this key of the reply to the request `id` about `count` answers, each element read by `read`.
template <class Read>
auto read_list(std::string_view line, uint64_t id, size_t count, const std::string& key, Read&& read) {
  const Json reply = parse_line(line);
  try {
    check_reply(reply, id);
    const Json& list = reply.at(key);
    if (!list.is_array() || list.size() != count)
      throw VerifierFailed("the reply has " + std::to_string(list.size()) + ' ' + key + ", expected " +
                           std::to_string(count));
    std::vector<decltype(read(list[0], std::string()))> result;
    for (size_t i = 0; i < count; ++i) result.push_back(read(list[i], std::to_string(i)));
    return result;
  } catch (const Json::exception&) {
    throw VerifierFailed("the reply is \"" + printable(line) + "\", expected {\"id\", \"" + key + "\"}");
  }
}

Reply reply_of(const Json& value, const std::string& index) {
  if (value.is_null()) return {};
  if (value.is_object() && value.contains("failed"))
    return {.problem = printable(value.at("failed").get<std::string>(), kLongestProblem)};
  if (value.is_object()) {
    const auto role = value.at("role").get<std::string>();
    if (std::ranges::find(kMessageRoles, role) == kMessageRoles.end())
      throw VerifierFailed("reply " + index + " has the role \"" + printable(role) + "\", expected user or tool");
    return {.message = value.at("content").get<std::string>(), .role = role};
  }
  if (!value.is_string())
    throw VerifierFailed("reply " + index + " is " + printable(value.dump()) + ", expected a text");
  return {.message = value.get<std::string>()};
}

}  // namespace

std::vector<Verdict> read_verdicts(std::string_view line, uint64_t id, size_t count) {
  return read_list(line, id, count, "scores", verdict_of);
}

std::vector<Reply> read_replies(std::string_view line, uint64_t id, size_t count) {
  return read_list(line, id, count, "replies", reply_of);
}

std::string problem_of_prompt(const Prompt& prompt, std::span<const VerifierNeed> needs,
                              const std::string& truth_setting) {
  const Json columns = columns_of(prompt.columns);
  for (const VerifierNeed& need : needs) {
    const auto given = [&](const std::string& key) {
      return key == "truth" ? !prompt.truth.empty() : has_key(columns, key);
    };
    if (std::ranges::any_of(need.keys, given)) continue;
    std::vector<std::string> keys;
    for (const auto& [key, value] : columns.items()) keys.push_back(key);
    return "the verifier requires " + printable(need.parameter) + ", but the prompt has no " +
           listed(need.keys, " or ") + (keys.empty() ? "" : ", only " + printable(listed(keys, " and "), 200)) +
           "; add it, " +
           (truth_setting.empty() || std::ranges::find(need.keys, "truth") == need.keys.end()
                ? ""
                : "name the key of the truth in " + truth_setting + ", ") +
           "or give the parameter a default";
  }
  return "";
}

VerifierTarget verifier_target(const TaskConfig& config) {
  constexpr size_t kScheme = 3;  // "py:"
  TROUPE_CHECK(config.verifier.starts_with("py:"), config.verifier);
  return {.function = config.verifier.substr(kScheme),
          .params = config.verifier == config.name ? config.params : "",
          .python = config.python,
          .timeout = config.verifier_timeout,
          .starting = config.verifier_start_timeout,
          .answers_per_call = config.verifier_batch};
}

VerifierTarget reply_target(const TaskConfig& config) {
  TaskConfig own = config;
  own.verifier = config.reply;
  VerifierTarget target = verifier_target(own);
  target.params.clear();
  target.replies = true;
  return target;
}

VerifierProcess::VerifierProcess(const VerifierTarget& target, int abandoned)
    : target_(target), child_("verifier", ChildKind::verifier, command_of(target)), abandoned_(abandoned) {}

std::string VerifierProcess::who() const {
  return target_.replies ? "the reply function" : target_.params.empty() ? "the verifier" : "the task";
}

void VerifierProcess::lose(const std::string& what, bool closed) {
  const ChildConnection::End end = child_.end(closed);
  throw VerifierFailed((end.by_itself ? who() + ' ' + end.state : what) + end.last_line);
}

std::string VerifierProcess::exchange(std::string_view text, std::chrono::milliseconds limit, const char* setting,
                                      size_t longest) {
  using Io = ChildConnection::Io;
  const Deadline deadline(limit);
  const auto require = [&](Io io) {
    if (io == Io::closed) lose(who() + " closed its connection and was killed", /*closed=*/true);
    if (io == Io::late)
      lose(who() + " has not answered within " + std::string(setting) + " (" + std::to_string(limit.count()) +
           " ms) and was killed");
  };
  require(child_.send(text, deadline));
  size_t end = 0;
  while ((end = received_.find('\n')) == std::string::npos) {
    if (child_.wait(POLLIN, deadline, abandoned_) == ChildConnection::Wait::other)
      lose("nobody waits for " + who() + " any more, and it was killed");
    require(child_.receive_some(received_, deadline));
    if (received_.size() > longest)
      lose(who() + " sent more than " + std::to_string(longest) + " bytes for one reply and was killed");
  }
  if (end + 1 != received_.size())
    lose(who() + " wrote \"" + printable(received_) + "\" to troupe's socket, expected one reply per request");
  received_.pop_back();
  return std::exchange(received_, {});
}

void VerifierProcess::await_ready() {
  const Json message = parse_line(exchange("", target_.starting, "task.verifier_start_timeout_ms", kBytesPerReply));
  if (message.contains("error") && message["error"].is_string())
    throw VerifierFailed(who() + ' ' + printable(target_.function) +
                             " cannot be loaded: " + printable(message["error"].get<std::string>(), kLongestProblem),
                         traceback_of(message));
  try {
    ready_ = message.at("ready").get<bool>();
    replies_ = message.at("replies").get<bool>();
    for (const Json& need : message.at("needs"))
      needs_.push_back({need.at(0).get<std::string>(), need.at(1).get<std::vector<std::string>>()});
  } catch (const Json::exception&) {
    throw VerifierFailed(who() + " wrote \"" + printable(message.dump()) + "\" before it was ready");
  }
}

template <class Work>
auto VerifierProcess::or_kill(Work work) {
  if (!child_.open()) throw VerifierFailed("the process of " + who() + " has ended");
  try {
    if (!ready_) await_ready();
    return work();
  } catch (const VerifierRaised&) {
    throw;
  } catch (const VerifierFailed&) {
    child_.end(/*closed=*/false);
    throw;
  }
}

void VerifierProcess::start() {
  or_kill([] {});
}

std::string VerifierProcess::ask_about(std::span<const VerifierItem> items, bool reply) {
  return exchange(request_text(++requests_, items, reply), target_.timeout, "task.verifier_timeout_ms",
                  kBytesPerReply + items.size() * kBytesPerVerdict);
}

std::vector<Verdict> VerifierProcess::score(std::span<const VerifierItem> items) {
  return or_kill([&] {
    const std::string line = ask_about(items, /*reply=*/false);
    return read_verdicts(line, requests_, items.size());
  });
}

std::vector<Reply> VerifierProcess::reply(std::span<const VerifierItem> items) {
  return or_kill([&] {
    const std::string line = ask_about(items, /*reply=*/true);
    return read_replies(line, requests_, items.size());
  });
}

std::vector<std::string> VerifierProcess::prompts(uint64_t first, uint64_t end) {
  return or_kill([&] {
    const uint64_t id = ++requests_;
    const Json request{{"id", id}, {"prompts", {first, end}}};
    const Json reply = parse_line(exchange(request.dump() + '\n', target_.timeout, "task.verifier_timeout_ms",
                                           kBytesPerReply + (end - first) * kBytesPerPrompt));
    try {
      check_reply(reply, id);
      auto texts = reply.at("prompts").get<std::vector<std::string>>();
      if (texts.size() > end - first)
        throw VerifierFailed("the reply has " + std::to_string(texts.size()) + " prompts, expected at most " +
                             std::to_string(end - first));
      return texts;
    } catch (const Json::exception&) {
      throw VerifierFailed("the reply has no list of prompts");
    }
  });
}

}  // namespace troupe
