#pragma once
// AlarmFile: alarms.json of a run folder: the alarms that the run has had, all starts included, oldest first:
//   {"alarms": [{"alarm": "kl_high", "level": "warning", "text": "...", "since_update": 12, "until_update": 40,
//                "standing": false}]}
// Replaced whenever an alarm is raised or over, so that it tells of a run that is killed too. Owned by the RunFolder,
// which holds the lock of the folder; one thread at a time. Others may read the file meanwhile.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/run_folder/line_file.h"
#include "runtime/stats/alarms.h"

namespace troupe {

// One time that an alarm was raised.
struct PastAlarm {
  std::string name;
  AlarmLevel level = AlarmLevel::warning;
  std::string text;  // as it was raised
  // After how many updates it was raised, and at which a report has found it over. Neither is known, nor the text, of
  // an alarm from the records of a version that did not write the file; nor is `until` of one that was raised after the
  // update from which the run was resumed.
  std::optional<uint64_t> since, until;
  bool standing = false;
  friend bool operator==(const PastAlarm&, const PastAlarm&) = default;
};

// What the file in a run folder says; nothing where it is missing, damaged or cannot be read.
std::optional<std::vector<PastAlarm>> read_alarms(const Disk& disk, const std::string& folder);

class AlarmFile {
 public:
  static constexpr size_t kMostOfOne = 100;  // of these times the newest are kept, for each alarm

  AlarmFile(Disk& disk, std::string folder) : disk_(&disk), folder_(std::move(folder)) {}

  // Where a run goes on.
  struct Resume {
    uint64_t updates = 0;
    bool as_before = false;  // it makes the updates after these again, with the same alarms
  };
  // Once, before note(). A run that resumes goes on with what the file says or, without one, the records; another one
  // with no alarm. The file is there afterwards, if the disk takes it.
  void begin(const std::optional<Resume>& resume);
  // What a report says: the alarms that were raised since the one before, and those that stand. A write that the disk
  // refuses is tried again at the next call.
  void note(uint64_t updates, const std::vector<RaisedAlarm>& raised, const std::map<std::string, Alarm>& standing);
  const LostWrites& lost() const { return lost_; }

 private:
  void take_up(const Resume& resume);
  PastAlarm* newest(const std::string& name);
  void add(const std::string& name, const Alarm& alarm);
  void write();

  Disk* disk_;
  std::string folder_;
  std::vector<PastAlarm> alarms_;
  bool written_ = false;  // the file has them
  LostWrites lost_;
};

}  // namespace troupe
