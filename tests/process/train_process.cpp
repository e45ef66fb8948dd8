#include "tests/process/train_process.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace troupe::test {

Words set(const Words& settings) {
  Words words;
  for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
  return words;
}

Words train_line(const std::string& folder, const Words& more) {
  Words words{"troupe", "train", "cartpole", "--run", folder};
  const Words settings = set({"stats.interval_ms=100", "trainer.super_batch=1024", "rollout.length=16", "env.rows=8",
                              "evaluation.episodes=1", "evaluation.rows=1"});
  words.insert(words.end(), settings.begin(), settings.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json json_of(const std::string& path) {
  Json json = Json::parse(text_of(path), nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? Json() : json;
}

std::vector<Json> lines_of(const std::string& folder) {
  const std::string text = text_of(folder + "/metrics.jsonl");
  std::vector<Json> lines;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(Json::parse(text.substr(begin, end - begin)));
  return lines;
}

Json stats_at(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  if (::inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr) != 1) return {};
  const int connection = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string answer;
  if (::connect(connection, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    const std::string request = "GET /stats HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\n\r\n";
    if (::send(connection, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
      char block[4096];
      for (ssize_t got = 0; (got = ::recv(connection, block, sizeof block, 0)) > 0;)
        answer.append(block, static_cast<size_t>(got));
    }
  }
  ::close(connection);
  const size_t body = answer.find("\r\n\r\n");
  if (body == std::string::npos) return {};
  const Json message = Json::parse(answer.substr(body + 4), nullptr, /*allow_exceptions=*/false);
  return message.is_object() && message.contains("stats") ? message.at("stats") : Json();
}

Json metrics_of(const std::string& folder) {
  if (const Json endpoints = json_of(folder + "/endpoints.json"); endpoints.is_object() && endpoints.contains("stats"))
    if (Json stats = stats_at(endpoints.at("stats")); !stats.is_null()) return stats;
  const std::vector<Json> lines = lines_of(folder);
  return lines.empty() ? Json() : lines.back();
}

uint64_t updates_of(const std::string& folder) {
  const Json metrics = metrics_of(folder);
  return metrics.is_null() ? 0 : metrics.at("updates").get<uint64_t>();
}

size_t log_count(const std::string& folder, const std::string& text) {
  const std::string log = text_of(folder + "/log.txt");
  size_t count = 0;
  for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++count;
  return count;
}

bool log_has(const std::string& folder, const std::string& text) { return log_count(folder, text) > 0; }

std::vector<uint64_t> checkpoints_of(const std::string& folder) {
  std::vector<uint64_t> steps;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/checkpoints", none)) {
    const std::string name = entry.path().filename();
    if (std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
      steps.push_back(std::stoull(name));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string checkpoint_folder(const std::string& folder, uint64_t updates) {
  std::string name = std::to_string(updates);
  name.insert(0, 12 - name.size(), '0');
  return folder + "/checkpoints/" + name;
}

Json state_of(const std::string& folder) {
  return json_of(checkpoint_folder(folder, checkpoints_of(folder).back()) + "/state.json").at("state");
}

bool balances(const Json& ledger) {
  const auto count = [&](const char* key) { return ledger.at(key).get<uint64_t>(); };
  const uint64_t produced = count("produced");
  return produced > 0 && produced == count("trained") + count("dropped_stale") + count("dropped_full") +
                                         count("lost_in_crash") + count("left_over") + count("filtered") +
                                         count("unscored") + count("verifier_failed") + count("baselines") +
                                         count("waiting");
}

Words token_train_line(const std::string& folder, const Words& more) {
  std::ofstream(folder + "/tokens.json") << R"({
    "task": {"name": "reverse", "params": {"digits": 2}},
    "model": {"kind": "decoder", "decoder": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
                                              "num_key_value_heads": 2, "intermediate_size": 48}},
    "workers": {"groups": 8}, "generation": {"answers": 4, "answer_slots": 32}, "algorithm": {"advantage": "grpo"},
    "trainer": {"super_batch": 64, "minibatches": 1, "epochs": 1, "policy_lr": 1e-3, "lr_warmup": 0},
    "stats": {"interval_ms": 100}, "evaluation": {"episodes": 20}, "stop": {"env_steps": 0, "updates": 20}
  })";
  Words words{"troupe", "train", folder + "/tokens.json", "--run", folder + "/run"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TrainProcess::TrainProcess(const std::string& folder, const Words& more, std::optional<rlim_t> limit_file_size)
    : TrainProcess(folder, Line{train_line(folder, more), limit_file_size}) {}

TrainProcess::TrainProcess(const std::string& folder, const Line& line)
    : folder_(folder), process_(line.words, line.limit_file_size) {
  Json endpoints;
  const auto begun = [&] {
    endpoints = json_of(folder_ + "/endpoints.json");
    return process_.exit_code() || (!endpoints.is_null() && endpoints.at("pid") == process_.id());
  };
  if (!eventually(begun) || process_.exit_code()) throw std::runtime_error("the run did not begin: " + process_.err());
  workers_at_ = endpoints.at("workers");
  stats_at_ = endpoints.at("stats");
}

bool TrainProcess::makes_updates(uint64_t count) const {
  const uint64_t begin = updates();
  return eventually([&] { return updates() >= begin + count; });
}

std::optional<int> TrainProcess::interrupt() {
  process_.signal(SIGINT);
  return process_.wait();
}

NodeProcess::NodeProcess() {
  const std::string begin = "node listening on ";
  if (!eventually([&] { return process_.out().ends_with('\n'); }))
    throw std::runtime_error("the node does not listen: " + process_.err());
  address_ = process_.out().substr(begin.size());
  address_.pop_back();
}

CommandLine NodeProcess::spawn(int workers, const std::string& run) const {
  return CommandLine({"troupe", "spawn", "--node", address_, "--workers", std::to_string(workers), "--run", run});
}

std::unique_ptr<Process> start_worker(const std::string& address, int count) {
  return std::make_unique<Process>(Words{"troupe", "worker", "--connect", address, "--count", std::to_string(count)});
}

}  // namespace troupe::test
