#pragma once
// RunMetrics: metrics.jsonl and the TensorBoard event files of a run folder. Owned by the RunFolder, which holds the
// lock of the folder; one thread at a time.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/run_folder/line_file.h"
#include "runtime/stats/tfevents.h"

namespace troupe {

class RunMetrics {
 public:
  RunMetrics(Disk& disk, std::string folder) : disk_(&disk), folder_(std::move(folder)) {}

  // Where a resumed run continues.
  struct ResumePoint {
    // Lines of metrics.jsonl with larger "updates" or "env_steps" are cut off, they will be written again.
    uint64_t updates = 0;
    uint64_t env_steps = 0;
    std::optional<uint64_t> lines = std::nullopt;  // of metrics.jsonl; if known, this many are kept, whatever they say
    uint64_t least_lines = 0;                      // that it held at that moment, as far as is known
    // TensorBoard forgets this step and later ones; if not given, the steps after `env_steps`.
    std::optional<int64_t> tensorboard_step = std::nullopt;
    uint64_t warmup_steps = 0;  // that its warm-up has made; lines of later ones are cut off too
  };

  // Whether metrics.jsonl holds a line after the first update, or anything that cannot be read. Throws IoError.
  bool has_updates() const;
  // As RunFolder::begin_metrics(); `resuming` is whether a run was here before, `config` the JSON text of the settings
  // of this start. Throws IoError.
  void begin(double wall_time, bool resuming, const std::optional<ResumePoint>& resume, std::string_view config);
  // The new name of the metrics.jsonl that begin() renamed.
  const std::optional<std::string>& former() const { return former_; }
  // The number of updates in the newest line that begin() cut off; 0 where it cut none off that can be read.
  uint64_t cut_updates() const { return cut_updates_; }
  // The warm-up's step of the last line that begin() has kept; 0 if that line is not of the warm-up.
  uint64_t warmup_step() const { return warmup_step_; }
  // The updates whose evaluations have a line after the first ResumePoint::least_lines, as begin() has found.
  const std::set<uint64_t>& evaluated() const { return evaluated_; }

  // As RunFolder::write_metrics() and write_scalars(); the caller has checked the lock.
  void write_line(const std::string& json);
  void write_scalars(double wall_time, int64_t step, const std::map<std::string, double>& scalars);
  // Lines of metrics.jsonl now.
  uint64_t lines() const { return lines_; }
  // Of those two, the writes that were lost.
  const LostWrites& lost_lines() const { return lost_lines_; }
  const LostWrites& lost_events() const { return lost_events_; }

 private:
  void rewind(const std::optional<ResumePoint>& resume);
  void note_evaluations(const std::string& path, uint64_t count);
  void set_aside();
  uint64_t size_of(const std::string& path) const;
  bool was_replaced(const std::string& path, uint64_t bytes) const;
  uint64_t cut_to_whole_lines(const std::string& path);
  void open_lines();
  void name_events();
  void open_events();

  Disk* disk_;
  std::string folder_;
  std::optional<std::string> former_;
  uint64_t cut_updates_ = 0, warmup_step_ = 0;
  std::set<uint64_t> evaluated_;
  std::unique_ptr<AppendFile> file_;
  std::string events_path_;
  double events_start_ = 0;
  int events_index_ = 0;  // of the next event file of this start
  std::optional<int64_t> events_resume_;
  HParams hparams_;  // the settings, for TensorBoard
  std::unique_ptr<EventWriter> events_;
  LostWrites lost_lines_, lost_events_;
  uint64_t lines_ = 0;
  uint64_t line_bytes_ = 0, events_bytes_ = 0;  // least that the files hold while they are the ones that were opened
};

}  // namespace troupe
