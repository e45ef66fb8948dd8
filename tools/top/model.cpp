#include "tools/top/model.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "actors/experience/answers/answer_words.h"
#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/stats/bottleneck.h"
#include "tools/top/figures.h"

namespace troupe {

namespace {

// Points in a reply: the port allows 10 requests in a second, and 400 points count as one more.
constexpr int kPointsAsked = 1000;

constexpr double kLeastSilence = 10;  // seconds without a message that mean something

std::string history_request(uint64_t before) {
  Json request{{"type", "history"}, {"topics", curve_paths()}, {"last", kPointsAsked}};
  if (before > 0) request["before"] = before;
  return request.dump();
}

// The value at a path of keys, null without one.
Json at(const Json& tree, std::initializer_list<const char*> keys) {
  const Json* place = &tree;
  for (const char* key : keys) {
    if (!place->is_object() || !place->contains(key)) return {};
    place = &(*place)[key];
  }
  return *place;
}

std::string text_at(const Json& tree, std::initializer_list<const char*> keys) {
  const Json value = at(tree, keys);
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

[[noreturn]] void refuse() { throw ConfigError("not the statistics port of a run"); }

}  // namespace

void TopModel::tell(TopEvent event, const std::string& time) {
  event.time = time;
  events.push_front(std::move(event));
  if (events.size() > kMostEvents) events.pop_back();
}

void TopModel::show(StatsSnapshot snapshot, const std::string& time) {
  if (!newest)
    for (TopEvent& event : events_before(snapshot)) tell(std::move(event), "");
  else
    for (TopEvent& event : events_between(*newest, snapshot)) tell(std::move(event), time);
  if (const Bottleneck now = find_bottleneck(snapshot); !snapshot.training_ended && !now.what.empty()) verdict = now;
  for (const auto& [name, alarm] : snapshot.alarms)
    if (raised.size() < kMostAlarms || raised.contains(name)) raised[name] = alarm;
  newest = std::move(snapshot);
}

void TopModel::forget() {
  history.clear();
  newest.reset();
  verdict.reset();
  longest.clear();
  raised.clear();
}

bool TopModel::is_over() const {
  return link == Link::ended || link == Link::killed || (newest && newest->training_ended);
}

void TopModel::describe(const std::string& name, const std::string& config) {
  const Json tree = parse_or_null(config);
  run = name;
  const Json interval = at(tree, {"stats", "interval_ms"});
  most_silent = std::max(kLeastSilence, interval.is_number() ? 3 * interval.get<double>() / 1000 : 0);
  const bool tokens = text_at(tree, {"model", "kind"}) == "decoder";
  words = tokens ? &kAnswerWords : &kStepWords;
  settings = (tokens ? text_at(tree, {"task", "name"}) : text_at(tree, {"env", "id"})) + "  seed " +
             text_at(tree, {"seed"}) + "  " + text_at(tree, {"algorithm", "advantage"}) + ' ' +
             text_at(tree, {"algorithm", "surrogate"});
}

void TopReader::begin() { greeted_ = has_history_ = false; }

std::string TopReader::received(const std::string& line, const std::string& time) {
  const Json message = parse_or_null(line);
  const std::string type = text_at(message, {"type"});
  if (type == "error") throw ConfigError("the run refuses: " + text_at(message, {"reason"}));
  if (type == "hello") return on_hello(message, time);
  if (!greeted_) refuse();
  if (type == "history") return on_history(message);
  if (const Json stats = at(message, {"stats"}); type == "stats" && stats.is_object()) {
    const Json number = at(message, {"sequence"});
    StatsSnapshot snapshot = snapshot_of(stats.dump(), *model_->words);
    if (!snapshot.warmup) model_->history.add(number.is_number_unsigned() ? number.get<uint64_t>() : 0, snapshot);
    model_->show(std::move(snapshot), time);
    ++snapshots_;
  }
  return "";
}

// A run that was started again goes on; another one at this address begins anew.
std::string TopReader::on_hello(const Json& message, const std::string& time) {
  const std::string name = text_at(message, {"run"}), before = model_->run, settings = model_->settings;
  if (!at(message, {"config"}).is_object()) refuse();
  model_->describe(name, at(message, {"config"}).dump());
  const std::string started = text_at(message, {"started"});
  const bool known = !before.empty();
  if (known && (before != name || settings != model_->settings)) {
    model_->forget();
    model_->tell({EventLevel::warning, "another run is served here"}, time);
  } else if (known && (started_.empty() || started != started_)) {
    // The first connection to a run whose folder was read: its points are numbered otherwise than the run's.
    model_->history.restart();
    model_->tell({EventLevel::news, started_.empty() ? "the run is live" : "the run was started again"}, time);
  }
  started_ = started;
  greeted_ = true;
  return history_request(0);
}

std::string TopReader::on_history(const Json& message) {
  const Json points = at(message, {"points"});
  uint64_t oldest = 0;
  for (const Json& point : points.is_array() ? points : Json::array()) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number_unsigned() || !point[1].is_array()) continue;
    const auto sequence = point[0].get<uint64_t>();
    oldest = oldest == 0 ? sequence : std::min(oldest, sequence);
    std::vector<double> values;
    for (const Json& value : point[1]) values.push_back(value.is_number() ? value.get<double>() : kUnknown);
    // The steps of a warm-up are none of the curves.
    if (!values.empty() && values[0] > 0) model_->history.add(sequence, std::move(values));
  }
  // The run sends the newest part first. It has none before its first snapshot.
  has_history_ = oldest <= 1 || model_->history.size() >= TopHistory::kMostPoints;
  return has_history_ ? "" : history_request(oldest);
}

}  // namespace troupe
