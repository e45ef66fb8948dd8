#pragma once
// The folder of one run, owned by one process at a time:
//   config.json (effective)  metrics.jsonl  events.out.tfevents.*  log.txt  endpoints.json  summary.json  epoch  run_id
//   answers.jsonl (token runs)  stats_port  checkpoints/  best.json (runtime/run_folder/best_checkpoints.h)  run.lock
//   alarms.json (runtime/run_folder/alarm_file.h)
//   init.safetensors, init.json (of a run that began with given weights: the weights, and where they are from)
// Opened before any actor starts; then used by one thread at a time. docs/run_folder.md describes the files for users.
// After the start, whatever writes there throws LockLost, and has written nothing, once the folder is no longer this
// process's own: it or its run.lock was removed, renamed or replaced.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/run_folder/alarm_file.h"
#include "runtime/run_folder/answer_file.h"
#include "runtime/run_folder/best_checkpoints.h"
#include "runtime/run_folder/checkpoint.h"
#include "runtime/run_folder/run_metrics.h"
#include "runtime/run_folder/safetensors.h"

namespace troupe {

// The init.safetensors of a run folder; see RunFolder::initial_weights().
std::optional<Safetensors> read_initial_weights(const Disk& disk, const std::string& folder);
// Where the weights that the run was given are from: the init.json of a run folder, which tells also when
// init.safetensors is gone, or, in a folder of an older program, the metadata of init.safetensors. Nothing for a run
// that began with new weights. Throws ConfigError when the file is damaged.
std::optional<std::map<std::string, std::string>> read_initial_source(const Disk& disk, const std::string& folder);

class RunFolder {
 public:
  // Makes the folder, or opens it to resume, and locks it. `config` is the effective config as JSON text. It may differ
  // from a conflicting one as long as the folder has no checkpoint and no metrics of an update. A new run keeps it at
  // once as config.json; to resume, call keep_config() when nothing else can refuse the start. A run that begins
  // with the weights `initial` keeps them (see keep_initial_weights()) before it has a config, so that no start that
  // was killed can be resumed without them. Throws ConfigError: another process has the folder (names it), it is not
  // empty and no run folder, its summary tells of updates and there is no checkpoint, its config conflicts with
  // `config`, or the disk refuses.
  RunFolder(Disk& disk, std::string path, const std::string& config, const SettingsOfRun& settings = {},
            const Safetensors* initial = nullptr);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  const Disk& disk() const { return *disk_; }
  // Whether a run was here before; it continues from checkpoints().recover(), or begins
  // anew when that gives nothing.
  bool resuming() const { return resuming_; }
  // Replaces the config.json of the run that resumes. Throws ConfigError when the disk refuses.
  void keep_config();
  // Whether the settings take the place of conflicting ones that the folder held, because nothing was trained yet.
  bool replaced_settings() const { return replaced_; }
  // The config that the run had before this start, brought up to date; empty for a new run.
  const std::string& config_before() const { return config_before_; }
  CheckpointStore& checkpoints() { return checkpoints_; }
  // From now on the checkpoints with the best evaluations are kept too, besides the newest `keep` (0 keeps all); see
  // BestCheckpoints::begin(). A ranked one that is damaged is renamed. Once, after checkpoints().recover(). Throws
  // ConfigError when the folder cannot be read.
  void keep_best(const RankedBy& by, uint64_t keep);
  // The evaluation of the checkpoint after `updates` will follow, so it is kept until then. After keep_best().
  void await_evaluation(uint64_t updates) { best_.await(updates); }
  // Writes a checkpoint and removes all but the newest `keep` (0 keeps all), the best ones and those whose evaluation
  // was to follow (`evaluated_later`). Throws IoError when it cannot be written; an old one that cannot be removed is a
  // warning.
  void save_checkpoint(const Checkpoint& checkpoint, uint64_t keep, bool evaluated_later = false);
  // The evaluation of a policy has ended. Throws LockLost, and IoError when the folder cannot be read; a ranking that
  // cannot be written is a warning.
  void rank_checkpoint(const CheckpointScore& score);
  // Best first.
  const std::vector<CheckpointScore>& ranking() const { return best_.ranking(); }
  // The weights that the run was given to begin with; nothing for a run that began with new ones. Their metadata says
  // where they are from. Kept as init.safetensors, so that a start that was killed before the first checkpoint begins
  // with them again, and the metadata as init.json too. Nothing is written where the constructor has kept them. Both
  // throw ConfigError when the disk refuses or a file is damaged.
  std::optional<Safetensors> initial_weights() const;
  void keep_initial_weights(const Safetensors& weights);

  // log.txt, for open_log(). Throws ConfigError.
  std::unique_ptr<AppendFile> open_log_file();

  // Where a resumed run continues.
  using ResumePoint = RunMetrics::ResumePoint;
  // Once, before the first of the next two calls. Cuts off what a killed process left behind: a torn last line, and
  // what lies past the resume point, in answers.jsonl too. Without a resume point, those of the two that have lines are
  // renamed. `wall_time` is in seconds since 1970. Throws ConfigError when one cannot be read, cut or renamed.
  void begin_metrics(double wall_time, const std::optional<ResumePoint>& resume);
  // Once, before note_alarms(): see AlarmFile::begin().
  void begin_alarms(const std::optional<ResumePoint>& resume);

  // The new name of the metrics.jsonl of a run that begins anew; nothing unless begin_metrics() renamed one.
  const std::optional<std::string>& former_metrics() const { return metrics_.former(); }

  // The number of updates in the newest line that begin_metrics() cut off; 0 where it cut none off that can be read.
  uint64_t cut_updates() const { return metrics_.cut_updates(); }

  // See RunMetrics::warmup_step().
  uint64_t warmup_step() const { return metrics_.warmup_step(); }

  // The updates whose evaluations have ended since the checkpoint of the resume point was written, at least.
  const std::set<uint64_t>& evaluated() const { return metrics_.evaluated(); }

  // These two throw only LockLost: a write that the disk refuses is lost and counted, and the run continues. The first
  // of several refusals in a row is logged. When a file was renamed, removed or cut since the write before, with a
  // warning: metrics.jsonl continues after the whole lines that it still holds, and events go to a new file. `json` is
  // one object without line breaks.
  void write_metrics(const std::string& json);
  void write_scalars(double wall_time, int64_t step, const std::map<std::string, double>& scalars);
  // See AnswerFile::write(). Throws LockLost alone.
  void write_answers(uint64_t updates, const std::string& lines);
  // See AlarmFile::note(). Throws LockLost alone.
  void note_alarms(uint64_t updates, const std::vector<RaisedAlarm>& raised,
                   const std::map<std::string, Alarm>& standing);
  // Lines of metrics.jsonl now.
  uint64_t metrics_lines() const { return metrics_.lines(); }
  // Writes of the first three that were lost.
  uint64_t lost_writes() const {
    return metrics_.lost_lines().total + metrics_.lost_events().total + answers_.lost().total;
  }
  // Why the disk refused the last write, for each of those four whose last write was refused.
  std::vector<std::string> refusals() const;

  // Replaces endpoints.json, which is removed at the end. Part of the start: throws ConfigError.
  void write_endpoints(const std::string& json);
  // Keeps the port of the statistics for the next start, see read_stats_port(). Part of the start: throws ConfigError.
  void write_stats_port(uint16_t port);
  // Removes what write_endpoints() wrote, unless the folder is no longer this process's own. Any thread, once that has
  // returned.
  void remove_endpoints() const;
  // Replaces the file atomically. Throws IoError, and then the old file is still there.
  void write_summary(const std::string& json);
  bool has_summary() const;
  // Whether checkpoints/ has a checkpoint, also one that was set aside as damaged; not what an interrupted write left
  // or what was kept of a removed one, nor what somebody else put there.
  bool has_saved() const;

 private:
  void open_or_create(const SettingsOfRun& settings, const Safetensors* initial);
  void refuse_foreign_folder() const;
  void refuse_other_kinds() const;
  void require_checkpoint_of_summary() const;
  bool has_only_warmed_up() const;
  void prune();
  void replace_settings(const std::vector<SettingChange>& conflicts);

  Disk* disk_;
  std::string path_;
  bool resuming_ = false;
  bool replaced_ = false;
  bool keeps_initial_ = false;  // since the constructor
  std::string config_, config_before_;
  std::unique_ptr<FileLock> lock_;
  bool endpoints_written_ = false;
  RunMetrics metrics_;
  AnswerFile answers_;
  AlarmFile alarms_;
  CheckpointStore checkpoints_;
  BestCheckpoints best_;
  uint64_t kept_ = 0;               // of save_checkpoint()
  std::optional<uint64_t> newest_;  // checkpoint of this start
};

}  // namespace troupe
