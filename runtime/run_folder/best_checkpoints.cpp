#include "runtime/run_folder/best_checkpoints.h"

#include <algorithm>
#include <cmath>
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

struct Ranking {
  std::string measure;
  std::vector<CheckpointScore> scores;
};

CheckpointScore score_of(const json& entry) {
  return {entry.at("updates").get<uint64_t>(), entry.at("return_mean").get<double>(),
          entry.at("episodes").get<uint64_t>()};
}

Ranking read(const Disk& disk, const std::string& path) {
  if (!disk.exists(path)) return {};
  const std::string text = disk.read(path, kMaxBytes);
  try {
    const json document = parse_strict(text, "damaged");
    Ranking ranking{document.at("measure").get<std::string>(), {}};
    for (const json& entry : document.at("checkpoints")) ranking.scores.push_back(score_of(entry));
    return ranking;
  } catch (const ConfigError& error) {
    throw IoError(path, error.what());
  } catch (const json::exception&) {
    throw IoError(path, "damaged: an entry is missing or has the wrong type");
  }
}

bool is_better(const CheckpointScore& a, const CheckpointScore& b) {
  return a.return_mean != b.return_mean ? a.return_mean > b.return_mean : a.updates < b.updates;
}

}  // namespace

std::vector<CheckpointScore> read_ranking(const Disk& disk, const std::string& run) {
  return read(disk, run + kFile).scores;
}

void BestCheckpoints::begin(uint64_t count, const std::string& measure, const std::vector<uint64_t>& saved) {
  count_ = count;
  measure_ = measure;
  const std::string path = run_ + kFile;
  try {
    if (count_ == 0) return remove_ranking();
    Ranking before = read(*disk_, path);
    written_ = before.scores;
    if (before.measure != measure_ && !before.scores.empty()) {
      log_warn(kComponent, path + ": is of evaluations with other settings; the ranking begins anew");
      before.scores.clear();
    }
    for (const CheckpointScore& score : before.scores)
      if (std::ranges::find(saved, score.updates) != saved.end()) insert(score);
  } catch (const IoError& error) {
    log_warn(kComponent, std::string(error.what()) + "; the ranking begins anew");
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
  std::erase_if(ranking_, [&](const CheckpointScore& other) { return other.updates == score.updates; });
  ranking_.insert(std::ranges::upper_bound(ranking_, score, is_better), score);
  if (ranking_.size() > count_) ranking_.resize(count_);
}

// When the disk refuses, the checkpoints of the file stay until it can be replaced.
void BestCheckpoints::write() {
  if (ranking_ == written_) return;
  json checkpoints = json::array();
  for (const CheckpointScore& score : ranking_)
    checkpoints.push_back(
        {{"updates", score.updates}, {"return_mean", score.return_mean}, {"episodes", score.episodes}});
  try {
    disk_->write_atomic(run_ + kFile, json{{"measure", measure_}, {"checkpoints", checkpoints}}.dump(2) + '\n');
    written_ = ranking_;
  } catch (const IoError& refused) {
    log_warn(kComponent, std::string(refused.what()) + "; it is tried again at the next checkpoint");
  }
}

std::set<uint64_t> BestCheckpoints::kept() const {
  std::set<uint64_t> result = awaited_;
  for (const auto* scores : {&ranking_, &written_})
    for (const CheckpointScore& score : *scores) result.insert(score.updates);
  return result;
}

}  // namespace troupe
