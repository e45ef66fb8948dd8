#include "runtime/run_folder/best_checkpoints.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/text_format.h"

namespace troupe {

namespace {

using nlohmann::json;

constexpr const char* kFile = "/best.json";
constexpr const char* kComponent = "best checkpoints";
constexpr uint64_t kMaxBytes = 16 << 20;

constexpr const char* kSetAside = "/best.json.damaged";

bool is_better(const CheckpointScore& a, const CheckpointScore& b) {
  return a.return_mean != b.return_mean ? a.return_mean > b.return_mean : a.updates < b.updates;
}

// Refuses what nlohmann/json would convert, such as -1 and 14.5.
uint64_t count_of(const json& value) { return value.get_ref<const json::number_unsigned_t&>(); }

CheckpointScore score_of(const json& entry) {
  const double mean = entry.at("return_mean").get<double>();
  return {count_of(entry.at("updates")), mean, count_of(entry.at("episodes"))};
}

Ranking ranking_of(const json& document) {
  Ranking ranking{document.at("measure").get_ref<const std::string&>(), {}, {}};
  if (!ranking.measure.empty()) parse_strict(ranking.measure, "measure");
  for (const json& entry : document.at("checkpoints").get_ref<const json::array_t&>())
    ranking.scores.push_back(score_of(entry));
  if (document.contains("unranked"))
    for (const json& step : document["unranked"].get_ref<const json::array_t&>())
      ranking.unranked.insert(count_of(step));
  std::ranges::stable_sort(ranking.scores, is_better);
  return ranking;
}

Ranking read(const Disk& disk, const std::string& path) {
  const std::string text = disk.read(path, kMaxBytes);
  try {
    return ranking_of(parse_strict(text, "damaged"));
  } catch (const ConfigError& error) {
    throw IoError(path, error.what());
  } catch (const json::exception&) {
    throw IoError(path, "damaged: an entry is missing or has the wrong type");
  }
}

json json_of(const Ranking& ranking) {
  json document{{"measure", ranking.measure}, {"checkpoints", json::array()}};
  for (const CheckpointScore& score : ranking.scores)
    document["checkpoints"].push_back(
        {{"updates", score.updates}, {"return_mean", score.return_mean}, {"episodes", score.episodes}});
  if (!ranking.unranked.empty()) document["unranked"] = ranking.unranked;
  return document;
}

std::string text_of(const CheckpointScore& score) {
  return "after update " + std::to_string(score.updates) + " (return " + json(score.return_mean).dump() + ")";
}

template <class Items, class Text>
std::string joined(const Items& items, Text text) {
  std::string result;
  for (const auto& item : items) result += (result.empty() ? "" : ", ") + text(item);
  return result;
}

}  // namespace

bool has_ranking(const Disk& disk, const std::string& run) { return disk.exists(run + kFile); }

std::vector<CheckpointScore> read_ranking(const Disk& disk, const std::string& run) {
  return has_ranking(disk, run) ? read(disk, run + kFile).scores : std::vector<CheckpointScore>{};
}

void BestCheckpoints::begin(uint64_t count, const std::string& measure, const std::vector<uint64_t>& saved,
                            const std::vector<uint64_t>& not_newest) {
  count_ = count;
  current_.measure = measure;
  const std::string path = run_ + kFile;
  try {
    if (count_ == 0) return remove_ranking();
    if (disk_->exists(path))
      take_up(read(*disk_, path), saved);
    else if (!not_newest.empty())
      begin_anew(path + ": is missing", not_newest);
  } catch (const IoError& error) {
    begin_anew(error.what(), not_newest);
  }
  write();
}

void BestCheckpoints::take_up(Ranking before, const std::vector<uint64_t>& saved) {
  const std::string path = run_ + kFile;
  written_ = before;
  if (before.measure != current_.measure && !before.scores.empty()) {
    log_warn(kComponent, path + ": is of evaluations with other settings; the ranking begins anew");
    before.scores.clear();
  }
  const std::set<uint64_t> there(saved.begin(), saved.end());
  std::vector<CheckpointScore> lost;
  for (const CheckpointScore& score : before.scores)
    if (there.contains(score.updates))
      insert(score);
    else
      lost.push_back(score);
  std::ranges::set_intersection(before.unranked, there, std::inserter(current_.unranked, current_.unranked.end()));
  if (lost.empty()) return;
  const std::vector<CheckpointScore>& left = current_.scores;
  log_warn(kComponent, path + ": ranks checkpoints that are missing: " + joined(lost, text_of) +
                           (left.empty() ? "; none is ranked now" : "; the best one is now that " + text_of(left[0])));
}

// The damaged file is kept under another name, for who wants to repair it.
void BestCheckpoints::begin_anew(const std::string& problem, const std::vector<uint64_t>& not_newest) {
  current_.unranked.insert(not_newest.begin(), not_newest.end());
  std::string kept;
  if (!not_newest.empty())
    kept = ", and these checkpoints, which may be the best ones, are kept until you remove them: after update " +
           joined(not_newest, [](uint64_t step) { return std::to_string(step); });
  log_warn(kComponent, problem + "; the ranking begins anew" + kept);
  try {
    if (has_ranking(*disk_, run_)) disk_->rename(run_ + kFile, run_ + kSetAside);
  } catch (const IoError& refused) {
    log_warn(kComponent, refused.what());
  }
}

void BestCheckpoints::remove_ranking() {
  const std::string path = run_ + kFile;
  if (!disk_->exists(path)) return;
  std::vector<CheckpointScore> before;
  try {
    before = read(*disk_, path).scores;
  } catch (const IoError&) {  // damaged: it names no checkpoint
  }
  if (!before.empty())
    log_warn(kComponent, path + ": is removed, because checkpoint.keep_best is 0 now; the best checkpoint, after " +
                             format_counted(before.front().updates, "update") +
                             ", is no longer kept when newer ones are written");
  disk_->remove(path);
}

void BestCheckpoints::add(uint64_t updates, bool awaited) {
  if (count_ == 0) return;
  if (awaited) awaited_.insert(updates);
  if (waiting_ && waiting_->updates == updates) insert(*std::exchange(waiting_, std::nullopt));
  write();
}

void BestCheckpoints::rank(const CheckpointScore& score, bool saved) {
  if (count_ == 0) return;
  awaited_.erase(awaited_.begin(), awaited_.upper_bound(score.updates));  // they come in order, and some are left out
  if (!std::isfinite(score.return_mean)) return;
  if (saved)
    insert(score);
  else
    waiting_ = score;
  write();
}

void BestCheckpoints::insert(const CheckpointScore& score) {
  std::vector<CheckpointScore>& ranking = current_.scores;
  std::erase_if(ranking, [&](const CheckpointScore& other) { return other.updates == score.updates; });
  ranking.insert(std::ranges::upper_bound(ranking, score, is_better), score);
  if (ranking.size() > count_) ranking.resize(count_);
}

// When the disk refuses, the checkpoints of the file stay until it can be replaced.
void BestCheckpoints::write() {
  if (written_ == current_) return;
  try {
    disk_->write_atomic(run_ + kFile, json_of(current_).dump(2) + '\n');
    written_ = current_;
  } catch (const IoError& refused) {
    log_warn(kComponent, std::string(refused.what()) + "; it is tried again at the next checkpoint");
  }
}

std::set<uint64_t> BestCheckpoints::kept() const {
  std::set<uint64_t> result = awaited_;
  const Ranking none;
  for (const Ranking* ranking : {&current_, written_ ? &*written_ : &none}) {
    for (const CheckpointScore& score : ranking->scores) result.insert(score.updates);
    result.insert(ranking->unranked.begin(), ranking->unranked.end());
  }
  return result;
}

}  // namespace troupe
