#include "runtime/stats/protocol.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"

namespace troupe {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxTopicBytes = 256;
constexpr size_t kMaxTopics = 100;
constexpr uint64_t kMaxLast = 100'000;
constexpr size_t kMaxEvaluations = 4096;
constexpr uint64_t kKeptOf[] = {1, 16, 256};  // one snapshot of so many, by part of the history

// Text from a peer may not be UTF-8. Invalid bytes are replaced, because dump() would throw otherwise.
std::string dump(const ordered_json& message) { return message.dump(-1, ' ', false, json::error_handler_t::replace); }

// The value at a dotted path. Keys may contain dots themselves: the longest key that fits is tried first.
const json* find_topic(const json& object, std::string_view topic) {
  for (size_t end = topic.size(); end != std::string_view::npos && end > 0 && object.is_object();
       end = topic.rfind('.', end - 1)) {
    const auto found = object.find(std::string(topic.substr(0, end)));
    if (found == object.end()) continue;
    if (end == topic.size()) return &*found;
    if (const json* value = find_topic(*found, topic.substr(end + 1))) return value;
  }
  return nullptr;
}

std::string value_text(const json& snapshot, const std::string& topic) {
  const json* value = find_topic(snapshot, topic);
  return value != nullptr ? value->dump() : "null";
}

// The whole number at a dotted path; nothing if there is none.
std::optional<uint64_t> number_at(const json& object, std::string_view topic) {
  const json* value = find_topic(object, topic);
  return value != nullptr && value->is_number_unsigned() ? std::optional(value->get<uint64_t>()) : std::nullopt;
}

std::string topic_field(const json& value) {
  if (!value.is_string()) throw RequestError("topic is not a string");
  std::string topic = value.get<std::string>();
  if (topic.empty()) throw RequestError("topic is empty; leave it out for whole snapshots");
  if (topic.size() > kMaxTopicBytes) throw RequestError("topic is longer than 256 bytes");
  return topic;
}

std::vector<std::string> topics_field(const json& value) {
  if (!value.is_array() || value.empty() || value.size() > kMaxTopics)
    throw RequestError("topics is not a list of 1 to " + std::to_string(kMaxTopics) + " topics");
  std::vector<std::string> topics;
  for (const json& topic : value) topics.push_back(topic_field(topic));
  return topics;
}

bool flag_field(const json& value) {
  if (!value.is_boolean()) throw RequestError("ranges is not true or false");
  return value.get<bool>();
}

uint64_t number_field(const json& value, const char* key, uint64_t most) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 || value.get<uint64_t>() > most)
    throw RequestError(std::string(key) + " is not a whole number from 1 to " + std::to_string(most));
  return value.get<uint64_t>();
}

StatsRequest::Kind kind_of(const json& message) {
  const auto type = message.find("type");
  if (type == message.end()) throw RequestError("a request needs a \"type\"");
  if (*type == "history") return StatsRequest::Kind::history;
  if (*type == "subscribe") return StatsRequest::Kind::subscribe;
  if (*type == "metrics") return StatsRequest::Kind::metrics;
  if (*type == "ping") return StatsRequest::Kind::ping;
  throw RequestError("unknown type " + type->dump() + ", known are \"history\", \"subscribe\", \"metrics\", \"ping\"");
}

}  // namespace

StatsRequest parse_stats_request(std::string_view line) {
  json message;
  try {
    message = parse_strict(line, "request");
  } catch (const ConfigError& error) {
    throw RequestError(error.what());
  }
  if (!message.is_object()) throw RequestError("a request is a JSON object");
  StatsRequest request;
  request.kind = kind_of(message);
  const bool history = request.kind == StatsRequest::Kind::history;
  for (const auto& [key, value] : message.items()) {
    if (key == "type") continue;
    if (key == "topic" && (history || request.kind == StatsRequest::Kind::subscribe))
      request.topic = topic_field(value);
    else if (key == "topics" && history)
      request.topics = topics_field(value);
    else if (key == "ranges" && history)
      request.ranges = flag_field(value);
    else if (key == "last" && history)
      request.last = number_field(value, "last", kMaxLast);
    else if (key == "before" && history)
      request.before = number_field(value, "before", UINT64_MAX);
    else
      throw RequestError("unknown field \"" + key.substr(0, 64) + "\"");
  }
  if (!request.topic.empty() && !request.topics.empty()) throw RequestError("either topic or topics, not both");
  if (request.ranges && request.topics.empty()) throw RequestError("ranges needs topics");
  return request;
}

std::string hello_message(const std::string& run, const std::string& config, const std::string& defaults,
                          const std::string& started, const std::string& name) {
  ordered_json message = {{"type", "hello"}, {"protocol", kStatsProtocolVersion}, {"program", "troupe"}, {"run", run}};
  if (!name.empty()) message["name"] = name;
  if (!started.empty()) message["started"] = ordered_json::parse(started);
  message["config"] = ordered_json::parse(config);
  message["defaults"] = ordered_json::parse(defaults);
  return dump(message);
}

std::string metrics_message(std::span<const ExportedMetric> metrics) {
  ordered_json list = ordered_json::array();
  for (const ExportedMetric& metric : metrics)
    list.push_back({{"path", metric.path}, {"name", metric.name}, {"help", metric.meaning}});
  return dump({{"type", "metrics"}, {"metrics", std::move(list)}});
}

std::string error_message(const std::string& reason) { return dump({{"type", "error"}, {"reason", reason}}); }

std::string subscribed_message(const std::string& topic) { return dump({{"type", "subscribed"}, {"topic", topic}}); }

std::string pong_message() { return R"({"type":"pong"})"; }

struct StatsHistory::Parsed {
  json value;
};

StatsHistory::StatsHistory(size_t max_snapshots, size_t max_bytes)
    : max_snapshots_(std::max<size_t>(max_snapshots, 1)), max_bytes_(max_bytes), newest_(std::make_unique<Parsed>()) {}

StatsHistory::~StatsHistory() = default;

bool StatsHistory::add(const std::string& snapshot) {
  // Parsed with the order of its keys for sending; the other copy is for looking up topics.
  ordered_json value = ordered_json::parse(snapshot, nullptr, false);
  if (!value.is_object()) return false;
  newest_text_ = dump(value);
  newest_->value = json::parse(newest_text_);
  ++sequence_;
  json others = newest_->value;
  const auto updates = number_at(others, "eval.updates");
  json evaluation = json::object({{"eval", std::move(others["eval"])}});
  others.erase("eval");
  if (updates) keep_evaluation(*updates, dump(value["eval"]), columns_.row_of(evaluation));
  const bool evaluates = value.erase("eval") > 0;
  keep(0, {sequence_, dump(value), number_at(newest_->value, "updates"), evaluates, columns_.row_of(others)});
  return true;
}

void StatsHistory::keep_evaluation(uint64_t updates, std::string text, FigureRow row) {
  if (!evaluations_.empty() && evaluations_.back().updates == updates) return;
  evaluations_.push_back({updates, sequence_, std::move(text), std::move(row)});
  if (evaluations_.size() <= kMaxEvaluations) return;
  // Every second one of the older half is left out.
  std::vector<EvaluationEntry> kept;
  for (size_t i = 0; i < evaluations_.size(); ++i)
    if (i >= kMaxEvaluations / 2 || i % 2 == 0) kept.push_back(std::move(evaluations_[i]));
  evaluations_ = std::move(kept);
}

std::map<uint64_t, const StatsHistory::EvaluationEntry*> StatsHistory::evaluations_by_snapshot() const {
  std::map<uint64_t, const EvaluationEntry*> result;
  auto next = evaluations_.begin();
  // A second one is in the snapshot after the next; of more, only the newest is in any.
  std::deque<const EvaluationEntry*> waiting;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part)
    for (const Entry& entry : part->entries) {
      if (!entry.evaluates) continue;
      for (; next != evaluations_.end(); ++next) {
        if (entry.updates ? *entry.updates < next->updates : entry.sequence < next->sequence) break;
        waiting.push_back(&*next);
      }
      if (waiting.size() > 2) waiting.erase(waiting.begin(), waiting.end() - 1);
      if (waiting.empty()) continue;
      result[entry.sequence] = waiting.front();
      waiting.pop_front();
    }
  return result;
}

void StatsHistory::keep(size_t part, Entry entry) {
  auto& entries = parts_[part].entries;
  size_t& bytes = parts_[part].bytes;
  bytes += entry.text.size();
  entries.push_back(std::move(entry));
  while (entries.size() > max_snapshots_ || (bytes > max_bytes_ && entries.size() > 1)) {
    Entry oldest = std::move(entries.front());
    entries.pop_front();
    bytes -= oldest.text.size();
    if (part + 1 >= parts_.size()) continue;
    FigureRanges& ranges = parts_[part + 1].left_out;
    ranges.add(oldest.row);
    ranges.add(oldest.ranges);
    if (oldest.sequence % kKeptOf[part + 1] != 0) continue;
    oldest.ranges = std::exchange(ranges, {});
    keep(part + 1, std::move(oldest));
  }
}

size_t StatsHistory::size() const {
  size_t sum = 0;
  for (const Part& part : parts_) sum += part.entries.size();
  return sum;
}

std::string StatsHistory::latest_message() const {
  return R"({"type":"stats","sequence":)" + std::to_string(sequence_) + R"(,"stats":)" +
         (sequence_ == 0 ? "null" : newest_text_) + '}';
}

std::string StatsHistory::topic_message(const std::string& topic) const {
  return R"({"type":"topic","topic":)" + dump(topic) + R"(,"sequence":)" + std::to_string(sequence_) + R"(,"value":)" +
         value_text(newest_->value, topic) + '}';
}

bool StatsHistory::has_topic(const std::string& topic) const {
  return sequence_ == 0 || find_topic(newest_->value, topic) != nullptr;
}

std::string StatsHistory::topic_of(const Entry& entry, const EvaluationEntry* evaluation,
                                   const std::string& topic) const {
  if (const std::optional<size_t> column = columns_.find(topic)) {
    const std::string value = columns_.text(entry.row, *column);
    return value == "null" && evaluation != nullptr ? columns_.text(evaluation->row, *column) : value;
  }
  json snapshot = json::parse(entry.text);
  if (entry.evaluates) snapshot["eval"] = evaluation != nullptr ? json::parse(evaluation->text) : json();
  return value_text(snapshot, topic);
}

std::string StatsHistory::range_of(const Entry& entry, const EvaluationEntry* evaluation,
                                   const std::string& topic) const {
  const std::string value = topic_of(entry, evaluation, topic);
  const std::optional<size_t> column = columns_.find(topic);
  std::string low = column ? columns_.text(entry.ranges.low, *column) : "null", high = low;
  if (low == "null")
    low = high = value;  // an evaluation, which is in one snapshot, what is no number, and one of the newest
  else
    high = columns_.text(entry.ranges.high, *column);
  return '[' + low + ',' + value + ',' + high + ']';
}

std::string StatsHistory::value_of(const Entry& entry, const EvaluationEntry* evaluation,
                                   const StatsRequest& request) const {
  if (request.topic.empty() && request.topics.empty()) {
    if (!entry.evaluates) return entry.text;
    const std::string eval = evaluation != nullptr ? evaluation->text : "null";
    return entry.text.substr(0, entry.text.size() - 1) + (entry.text.size() > 2 ? "," : "") + R"("eval":)" + eval + '}';
  }
  if (request.topics.empty()) return topic_of(entry, evaluation, request.topic);
  std::string values;
  for (const std::string& topic : request.topics)
    values += (values.empty() ? "" : ",") +
              (request.ranges ? range_of(entry, evaluation, topic) : topic_of(entry, evaluation, topic));
  return '[' + values + ']';
}

std::string StatsHistory::metrics(std::span<const ExportedMetric> metrics, bool open_metrics) const {
  return prometheus_text(newest_->value, metrics, open_metrics);
}

StatsHistory::Reply StatsHistory::history_message(const StatsRequest& request, size_t max_bytes) const {
  const std::map<uint64_t, const EvaluationEntry*> evaluations = evaluations_by_snapshot();
  std::deque<std::string> items;
  size_t bytes = 0;
  bool full = false;
  for (const Part& part : parts_)
    for (auto entry = part.entries.rbegin(); entry != part.entries.rend() && !full; ++entry) {
      if (request.before > 0 && entry->sequence >= request.before) continue;
      const auto evaluated = evaluations.find(entry->sequence);
      const EvaluationEntry* evaluation = evaluated != evaluations.end() ? evaluated->second : nullptr;
      std::string item = '[' + std::to_string(entry->sequence) + ',' + value_of(*entry, evaluation, request) + ']';
      full = items.size() >= request.last || bytes + item.size() + 1 > max_bytes;
      if (full) break;
      bytes += item.size() + 1;
      items.push_front(std::move(item));
    }
  std::string message = R"({"type":"history","topic":)" + dump(request.topic) + R"(,"available":)" +
                        std::to_string(size()) + R"(,"points":[)";
  for (size_t i = 0; i < items.size(); ++i) message += (i > 0 ? "," : "") + items[i];
  return {message + "]}", items.size()};
}

}  // namespace troupe
