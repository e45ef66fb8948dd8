#include "runtime/run_folder/best_checkpoints.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/strict_json.h"
#include "runtime/run_folder/checkpoint_state.h"

namespace troupe {

namespace {

using nlohmann::json;

constexpr const char* kFile = "/best.json";
constexpr const char* kBestCheckpoints = "best checkpoints";
constexpr uint64_t kMaxBytes = 16 << 20;

constexpr const char* kSetAside = "/best.json.damaged";
constexpr size_t kSaved = 16;  // checkpoints whose weights the file knows, besides those that are ranked or awaited
constexpr size_t kNamed = 8;   // items of a list that a message names

bool is_better(const CheckpointScore& a, const CheckpointScore& b) {
  return a.return_mean != b.return_mean ? a.return_mean > b.return_mean : a.updates < b.updates;
}

// Refuses what nlohmann/json would convert, such as -1 and 14.5.
uint64_t count_of(const json& value) { return value.get_ref<const json::number_unsigned_t&>(); }

// The number that is the key of an object.
uint64_t step_of(const std::string& key) { return count_of(json::parse(key)); }

CheckpointScore score_of(const json& entry) {
  const double mean = entry.at("return_mean").get<double>();
  return {count_of(entry.at("updates")), mean, count_of(entry.at("episodes"))};
}

Ranking ranking_of(const json& document) {
  Ranking ranking{document.at("measure").get_ref<const std::string&>(), {}, {}, {}, {}, {}};
  if (const json& newest = document.at("newest"); !newest.is_null())
    ranking.newest = {count_of(newest.at("updates")), newest.at("weights").get_ref<const std::string&>()};
  if (!ranking.measure.empty()) parse_strict(ranking.measure, "measure");
  for (const json& entry : document.at("checkpoints").get_ref<const json::array_t&>()) {
    ranking.scores.push_back(score_of(entry));
    const uint64_t updates = ranking.scores.back().updates;
    ranking.weights[updates] = document.at("weights").at(std::to_string(updates)).get_ref<const std::string&>();
  }
  if (document.contains("saved"))
    for (const auto& [step, weights] : document["saved"].get_ref<const json::object_t&>())
      ranking.saved[step_of(step)] = weights.get_ref<const std::string&>();
  if (document.contains("unranked"))
    for (const json& step : document["unranked"].get_ref<const json::array_t&>())
      ranking.unranked.insert(count_of(step));
  return ranking;
}

Ranking read(const Disk& disk, const std::string& path) {
  const json document = parse_stored(disk.read(path, kMaxBytes), path);
  try {
    if (!document.is_object() || !document.contains("crc32c"))
      throw IoError(path, "damaged, or not of this version of troupe: it has no crc32c");
    if (document["crc32c"] != document_crc(document))
      throw IoError(path, "damaged: its contents do not fit its crc32c");
    return ranking_of(document);
  } catch (const ConfigError& error) {
    throw IoError(path, error.what());
  } catch (const json::exception&) {
    throw IoError(path, "damaged: an entry is missing or has the wrong type");
  }
}

json json_of(const Ranking& ranking) {
  json document{
      {"measure", ranking.measure}, {"newest", nullptr}, {"checkpoints", json::array()}, {"weights", json::object()}};
  if (ranking.newest) document["newest"] = {{"updates", ranking.newest->first}, {"weights", ranking.newest->second}};
  for (const CheckpointScore& score : ranking.scores) {
    document["checkpoints"].push_back(
        {{"updates", score.updates}, {"return_mean", score.return_mean}, {"episodes", score.episodes}});
    document["weights"][std::to_string(score.updates)] = ranking.weights.at(score.updates);
  }
  for (const auto& [step, weights] : ranking.saved) document["saved"][std::to_string(step)] = weights;
  if (!ranking.unranked.empty()) document["unranked"] = ranking.unranked;
  document["crc32c"] = document_crc(document);
  return document;
}

std::string text_of_score(const CheckpointScore& score) {
  return "after update " + std::to_string(score.updates) + " (return " + json(score.return_mean).dump() + ")";
}

std::string text_of_step(uint64_t step) { return std::to_string(step); }

// The texts of the first kNamed items, and the number of the others.
template <class Items, class Text>
std::string list_of(const Items& items, Text text) {
  std::string result;
  size_t named = 0;
  for (const auto& item : items) {
    if (named == kNamed) return result + " and " + std::to_string(items.size() - kNamed) + " more";
    result += (named++ == 0 ? "" : ", ") + text(item);
  }
  return result;
}

}  // namespace

bool has_ranking(const Disk& disk, const std::string& run) { return disk.exists(run + kFile); }

Ranking read_ranking(const Disk& disk, const std::string& run) {
  return has_ranking(disk, run) ? read(disk, run + kFile) : Ranking{};
}

void BestCheckpoints::begin(const RankedBy& by, const SavedCheckpoints& saved) {
  by_ = by;
  current_.measure = by.measure;
  const std::string path = run_ + kFile;
  if (by_.count > 0 && !saved.all.empty())
    if (const auto weights = saved.weights(saved.all.back())) current_.newest = {saved.all.back(), *weights};
  try {
    const bool there = disk_->exists(path);
    if (there && by_.count == 0) return keep_ranked(read(*disk_, path), saved);
    if (there)
      take_up(read(*disk_, path), saved);
    else if (by_.count > 0 && !saved.not_newest.empty())
      begin_anew(path + ": is missing", saved.not_newest);
  } catch (const IoError& error) {
    if (error.is_refusal()) throw;
    begin_anew(error.what(), saved.not_newest);
  }
  write();
}

bool BestCheckpoints::is_comparable(const Ranking& before, const CheckpointScore& score) const {
  return before.measure == by_.measure && (by_.episodes == 0 || score.episodes == by_.episodes);
}

void BestCheckpoints::take_up(const Ranking& before, const SavedCheckpoints& saved) {
  const std::string path = run_ + kFile;
  written_ = before;
  const std::set<uint64_t> there(saved.all.begin(), saved.all.end());
  std::ranges::set_intersection(before.unranked, there, std::inserter(current_.unranked, current_.unranked.end()));
  current_.saved = before.saved;
  std::vector<CheckpointScore> lost, incomparable;
  for (const CheckpointScore& score : before.scores) {
    const auto weights = there.contains(score.updates) ? saved.weights(score.updates) : std::nullopt;
    if (weights != before.weights.at(score.updates))
      lost.push_back(score);
    else if (!is_comparable(before, score))
      incomparable.push_back(score);
    else
      insert(score, *weights);
  }
  for (const std::vector<CheckpointScore>& left_out : {lost, incomparable})
    for (const CheckpointScore& score : left_out)
      if (there.contains(score.updates)) current_.unranked.insert(score.updates);
  if (!incomparable.empty())
    log_warn(kBestCheckpoints, path + ": ranks evaluations with another evaluation." +
                                   (before.measure != by_.measure ? by_.measured_by : "episodes") +
                                   "; these leave the ranking, and are kept until you remove them: " +
                                   list_of(incomparable, text_of_score));
  const std::vector<CheckpointScore>& left = current_.scores;
  if (!lost.empty())
    log_warn(kBestCheckpoints,
             path + ": ranks checkpoints that are missing or have other weights: " + list_of(lost, text_of_score) +
                 (left.empty() ? "; none is ranked now" : "; the best one is now that " + text_of_score(left[0])));
  protect_unknown(before, saved);
}

// The process that wrote the file knew every checkpoint up to the newest one that the file names and that is still
// there: others may have been set aside as damaged. Checkpoints that it may not have known become unranked, with a
// warning that names them.
void BestCheckpoints::protect_unknown(const Ranking& before, const SavedCheckpoints& saved) {
  std::map<uint64_t, std::string> named = before.saved;
  named.insert(before.weights.begin(), before.weights.end());
  if (before.newest) named.insert(*before.newest);
  const auto known = std::find_if(named.rbegin(), named.rend(), [&](const auto& checkpoint) {
    return std::ranges::find(saved.all, checkpoint.first) != saved.all.end() &&
           saved.weights(checkpoint.first) == checkpoint.second;
  });
  std::vector<uint64_t> unknown = saved.not_newest, added;
  if (known != named.rend()) std::erase_if(unknown, [&](uint64_t step) { return step <= known->first; });
  for (const uint64_t step : unknown)
    if (!current_.weights.contains(step) && current_.unranked.insert(step).second) added.push_back(step);
  if (added.empty()) return;
  log_warn(kBestCheckpoints,
           run_ + kFile +
               ": does not know the newest checkpoints, so it may be an older copy or of another run; these "
               "checkpoints, which may be the best ones, are kept until you remove them: after update " +
               list_of(added, text_of_step));
}

// The damaged file is kept under another name, so that a user can repair it.
void BestCheckpoints::begin_anew(const std::string& problem, const std::vector<uint64_t>& not_newest) {
  current_.unranked.insert(not_newest.begin(), not_newest.end());
  std::string text = problem + (by_.count == 0 ? "" : "; the ranking starts over");
  if (!not_newest.empty())
    text += ", and these checkpoints, which may be the best ones, are kept until you remove them: after update " +
            list_of(not_newest, text_of_step);
  try {
    if (by_.count > 0 && has_ranking(*disk_, run_)) {
      const std::string aside = free_name(*disk_, run_ + kSetAside);
      disk_->rename(run_ + kFile, aside);
      text += "; the file is renamed to " + aside;
    }
  } catch (const IoError& refused) {
    log_warn(kBestCheckpoints, refused.what());
  }
  log_warn(kBestCheckpoints, text);
}

// Nothing is ranked any more. The file stays as it is and still protects the checkpoints that it names.
void BestCheckpoints::keep_ranked(const Ranking& before, const SavedCheckpoints& saved) {
  current_ = before;
  written_ = before;
  protect_unknown(before, saved);
  if (before.scores.empty()) return;
  log_warn(kBestCheckpoints,
           run_ + kFile +
               ": checkpoint.keep_best is 0 now, so no more checkpoints are ranked; those that it ranks "
               "are kept until you remove the file: " +
               list_of(before.scores, text_of_score));
}

void BestCheckpoints::add(uint64_t updates, bool awaited, const std::string& weights) {
  if (by_.count == 0) return;
  if (awaited) awaited_.insert(updates);
  // A run that went back to an older checkpoint has trained other weights to the same number.
  const auto ranked = current_.weights.find(updates);
  if (ranked != current_.weights.end() && ranked->second != weights) {
    std::erase_if(current_.scores, [&](const CheckpointScore& score) { return score.updates == updates; });
    current_.weights.erase(ranked);
  }
  if (current_.newest) current_.saved.insert_or_assign(current_.newest->first, current_.newest->second);
  current_.saved.erase(updates);
  current_.newest = {updates, weights};
  size_t others = 0;
  for (auto it = current_.saved.end(); it != current_.saved.begin();)
    if (!awaited_.contains((--it)->first) && ++others > kSaved) it = current_.saved.erase(it);
  if (waiting_ && waiting_->updates == updates) insert(*std::exchange(waiting_, std::nullopt), weights);
  write();
}

void BestCheckpoints::rank(const CheckpointScore& score, const std::optional<std::string>& weights) {
  if (by_.count == 0) return;
  awaited_.erase(awaited_.begin(), awaited_.upper_bound(score.updates));  // evaluations end in order; some are skipped
  if (!std::isfinite(score.return_mean)) return;
  if (weights)
    insert(score, *weights);
  else
    waiting_ = score;
  write();
}

void BestCheckpoints::insert(const CheckpointScore& score, const std::string& weights) {
  std::vector<CheckpointScore>& ranking = current_.scores;
  std::erase_if(ranking, [&](const CheckpointScore& other) { return other.updates == score.updates; });
  ranking.insert(std::ranges::upper_bound(ranking, score, is_better), score);
  current_.unranked.erase(score.updates);
  current_.weights[score.updates] = weights;
  if (ranking.size() <= by_.count) return;
  current_.weights.erase(ranking.back().updates);
  ranking.pop_back();
}

// If the write fails, kept() still protects the checkpoints that the file names, until it can be replaced.
void BestCheckpoints::write() {
  if (by_.count == 0 || written_ == current_) return;
  try {
    disk_->write_atomic(run_ + kFile, json_of(current_).dump(2) + '\n');
    written_ = current_;
  } catch (const IoError& refused) {
    log_warn(kBestCheckpoints, std::string(refused.what()) + "; it is tried again at the next checkpoint");
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
