#include "runtime/run_folder/run_metrics.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/run_folder/json_scan.h"
#include "runtime/run_folder/line_file.h"
#include "runtime/run_folder/undone_updates.h"

namespace troupe {

namespace {

using nlohmann::json;

constexpr const char* kRunMetrics = "run folder";
constexpr const char* kMetricsFile = "/metrics.jsonl";
constexpr const char* kChanged = ": was renamed, removed or cut during the run";
constexpr uint64_t kMaxLineBytes = 1 << 20;  // of metrics.jsonl; this program writes no longer ones

// The step of a line of the warm-up; 0 for other lines.
uint64_t warmup_step_in(const json& line) {
  const json warmup = line.is_object() ? line.value("warmup", json()) : json();
  const json step = warmup.is_object() ? warmup.value("step", json()) : json();
  return step.is_number_unsigned() ? step.get<uint64_t>() : 0;
}

// Whether a line of metrics.jsonl is later than the point from which the run resumes. True for a line that cannot be
// read.
bool is_after(std::string_view line, const RunMetrics::ResumePoint& resume) {
  const json value = json::parse(line, nullptr, false);
  if (!value.is_object()) return true;
  const auto exceeds = [&](const char* key, uint64_t limit) {
    return !value.contains(key) || !value[key].is_number_unsigned() || value[key].get<uint64_t>() > limit;
  };
  return exceeds("updates", resume.updates) || exceeds("env_steps", resume.env_steps) ||
         warmup_step_in(value) > resume.warmup_steps;
}

bool has_evaluation(std::string_view line) {
  const json value = json::parse(line, nullptr, false);
  return value.is_object() && value.contains("eval") && value["eval"].is_object();
}

struct Lines {
  uint64_t count = 0;
  uint64_t bytes = 0;
};

// The whole lines in the first `end` bytes, at most `max_count` of them.
Lines first_lines(const ReadFile& file, uint64_t end, uint64_t max_count) {
  Lines lines;
  for (uint64_t begin = 0; begin < end; begin += kBlockBytes) {
    const std::string block = file.read(begin, std::min(kBlockBytes, end - begin));
    for (size_t i = block.find('\n'); i != std::string::npos && lines.count < max_count; i = block.find('\n', i + 1))
      lines = {lines.count + 1, begin + i + 1};
  }
  return lines;
}

// Where metrics.jsonl is cut, and what is lost.
struct Cut {
  uint64_t bytes = 0;             // that are kept
  std::deque<std::string> later;  // lines behind them that are kept too, without line breaks
  uint64_t lost_updates = 0;      // most updates in a line that is not kept
};

// Keeps the lines up to the last one that is not later than the point of the resume. The line of an evaluation is
// written when it ends, so it may be behind lines that are later than itself.
Cut cut_at(const ReadFile& file, const RunMetrics::ResumePoint& resume) {
  Cut cut;
  uint64_t end = begin_of_line(file, file.size());  // a last line without a line break is incomplete
  cut.bytes = end;
  std::deque<std::string> evaluations;  // before the first line that is later
  while (end > 0) {
    const uint64_t begin = begin_of_line(file, end - 1);
    const std::string line = end - begin <= kMaxLineBytes ? file.read(begin, end - begin - 1) : "";
    const bool readable = json::accept(line);
    if (!readable && !evaluations.empty()) break;  // a damaged line in the middle is kept
    if (is_after(line, resume)) {
      cut.lost_updates = std::max(cut.lost_updates, updates_in(line));
      cut.later.insert(cut.later.begin(), evaluations.begin(), evaluations.end());
      evaluations.clear();
      cut.bytes = begin;
    } else if (has_evaluation(line)) {
      evaluations.push_front(line);
    } else {
      break;
    }
    end = begin;
  }
  return cut;
}

// The last whole line after the first `begin` bytes; empty if there is none or it is too long.
std::string last_line(const ReadFile& file, uint64_t begin) {
  const uint64_t end = begin_of_line(file, file.size());
  if (end <= begin) return {};
  const uint64_t last = begin_of_line(file, end - 1);
  return last < begin || end - last > kMaxLineBytes ? std::string() : file.read(last, end - last);
}

// Settings that are lists have one entry for each element.
HParams hparams_of(std::string_view config) {
  HParams result;
  const bool whole = scan_json(config, [&](std::string_view path, std::string_view text) {
    HParam& hparam = result[std::string(path)];
    if (const auto number = scalar_number(text))
      hparam = *number;
    else if (text == "true" || text == "false")
      hparam = text == "true";
    else
      hparam = scalar_text(text);
  });
  return whole ? result : HParams();
}

}  // namespace

bool RunMetrics::has_updates() const {
  const std::string path = folder_ + kMetricsFile;
  const std::unique_ptr<ReadFile> file = open_if_present(*disk_, path);
  if (!file) return false;
  constexpr uint64_t kAny = std::numeric_limits<uint64_t>::max();
  return cut_at(*file, {.updates = 0, .env_steps = kAny, .warmup_steps = kAny}).bytes < file->size();
}

void RunMetrics::begin(double wall_time, bool resuming, const std::optional<ResumePoint>& resume,
                       std::string_view config) {
  rewind(resume);
  hparams_ = hparams_of(config);
  events_start_ = wall_time;
  name_events();
  if (!resuming) return;
  events_resume_ = 0;
  if (!resume) return;
  // The steps of a warm-up are on the same axis, and none of those that are kept may be forgotten.
  events_resume_ = std::max(resume->tensorboard_step.value_or(static_cast<int64_t>(resume->env_steps) + 1),
                            static_cast<int64_t>(resume->warmup_steps) + 1);
}

void RunMetrics::rewind(const std::optional<ResumePoint>& resume) {
  const std::string path = folder_ + kMetricsFile;
  const std::unique_ptr<ReadFile> file = open_if_present(*disk_, path);
  if (file && !resume && file->size() > 0) return set_aside();
  if (!resume) return;
  Lines kept;
  Cut cut;
  if (file && resume->lines) {
    kept = first_lines(*file, file->size(), *resume->lines);
    cut.lost_updates = updates_in(last_line(*file, kept.bytes));
  }
  // There is no count, or the file has fewer lines, so it is not the one that was counted.
  if (file && (!resume->lines || kept.count < *resume->lines)) {
    cut = cut_at(*file, *resume);
    kept = first_lines(*file, cut.bytes, std::numeric_limits<uint64_t>::max());
  }
  lines_ = kept.count;
  if (file && kept.bytes < file->size()) {
    cut_updates_ = cut.lost_updates;
    if (cut_updates_ > resume->updates)
      add_undone_updates(*disk_, folder_, cut_updates_ - resume->updates, last_line(*file, kept.bytes));
    if (cut.later.empty()) {
      disk_->truncate(path, kept.bytes);
    } else {  // at once, so that no line is lost if this is interrupted
      std::string text = file->read(0, kept.bytes);
      for (const std::string& line : cut.later) text += line + '\n';
      disk_->write_atomic(path, text);
      lines_ += cut.later.size();
    }
  }
  if (file) note_evaluations(path, resume->least_lines);
  if (file) warmup_step_ = warmup_step_in(json::parse(last_line(*disk_->open_read(path), 0), nullptr, false));
  const uint64_t expected = resume->lines.value_or(resume->least_lines);
  if (lines_ < expected)
    log_warn(kRunMetrics, path + ": " + (file ? "holds " + std::to_string(lines_) : "is missing, so there are none") +
                              " of the " + std::to_string(expected) +
                              " lines that there were at the checkpoint from which the run resumes, that of update " +
                              std::to_string(resume->updates) + "; the others are lost");
}

// Notes which evaluations have a line after the first `count` ones.
void RunMetrics::note_evaluations(const std::string& path, uint64_t count) {
  const std::unique_ptr<ReadFile> file = open_if_present(*disk_, path);
  uint64_t end = file ? file->size() : 0;
  for (uint64_t left = lines_ - std::min(lines_, count); left > 0 && end > 0; --left) {
    const uint64_t begin = begin_of_line(*file, end - 1);
    if (end - begin <= kMaxLineBytes)
      if (const std::string line = file->read(begin, end - begin); has_evaluation(line))
        evaluated_.insert(updates_in(line));
    end = begin;
  }
}

// Renames the file to the first free one of metrics.jsonl.1, metrics.jsonl.2 and so on.
void RunMetrics::set_aside() {
  const std::string path = folder_ + kMetricsFile;
  former_ = free_name(*disk_, path);
  disk_->rename(path, *former_);
}

// The size of a file; 0 when it cannot be read.
uint64_t RunMetrics::size_of(const std::string& path) const {
  try {
    return disk_->open_read(path)->size();
  } catch (const IoError&) {
    return 0;
  }
}

// Whether a file that had this many bytes is gone, or has fewer.
bool RunMetrics::was_replaced(const std::string& path, uint64_t bytes) const {
  try {
    const std::unique_ptr<ReadFile> file = open_if_present(*disk_, path);
    return !file || file->size() < bytes;
  } catch (const IoError&) {
    return false;  // the write that follows reports the error
  }
}

// Removes an incomplete last line. Returns the number of lines that are left; 0 without a file.
uint64_t RunMetrics::cut_to_whole_lines(const std::string& path) {
  const std::unique_ptr<ReadFile> file = open_if_present(*disk_, path);
  if (!file) return 0;
  const Lines whole = first_lines(*file, file->size(), std::numeric_limits<uint64_t>::max());
  if (whole.bytes < file->size()) disk_->truncate(path, whole.bytes);
  return whole.count;
}

void RunMetrics::open_lines() {
  const std::string path = folder_ + kMetricsFile;
  if (file_ && was_replaced(path, line_bytes_)) {
    lines_ = cut_to_whole_lines(path);  // if this throws, the next write tries again
    file_.reset();
    log_warn(kRunMetrics, path + kChanged + "; " +
                              (lines_ == 0 ? "a new file is begun"
                                           : "the run appends to the " + std::to_string(lines_) +
                                                 (lines_ == 1 ? " whole line" : " whole lines") + " that it holds"));
  }
  if (file_) return;
  file_ = disk_->open_append(path);
  line_bytes_ = size_of(path);
}

void RunMetrics::write_line(const std::string& json_line) {
  TROUPE_CHECK(json_line.find('\n') == std::string::npos, json_line);
  write_if_possible("metrics.jsonl", lost_lines_, [&] {
    open_lines();
    file_->append(json_line + '\n');
    line_bytes_ += json_line.size() + 1;
    ++lines_;
  });
}

// Chooses the first free file name of this start. A name is never used twice: a reader would continue at its old
// position in the new file.
void RunMetrics::name_events() {
  do events_path_ = folder_ + '/' + event_file_name(events_start_, events_index_++);
  while (disk_->exists(events_path_));
}

void RunMetrics::open_events() {
  if (events_ && was_replaced(events_path_, events_bytes_)) {
    const std::string changed = events_path_;
    events_.reset();
    events_resume_.reset();
    name_events();
    log_warn(kRunMetrics, changed + kChanged + "; " + events_path_ + " continues it");
  }
  if (events_) return;
  auto file = disk_->open_append(events_path_);
  events_bytes_ = 0;
  events_ = std::make_unique<EventWriter>(std::move(file), events_start_, hparams_, events_resume_);
}

void RunMetrics::write_scalars(double wall_time, int64_t step, const std::map<std::string, double>& scalars) {
  TROUPE_CHECK(!events_path_.empty());
  write_if_possible("events", lost_events_, [&] {
    open_events();
    events_->add(wall_time, step, scalars);
    events_bytes_ = size_of(events_path_);
  });
}

}  // namespace troupe
