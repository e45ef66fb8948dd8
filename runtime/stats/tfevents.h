#pragma once
// TensorBoard event files: scalars by tag and step, and the settings of the run for its page "HParams", in the TFRecord
// framing with the few protocol-buffer fields that these need, written by hand (tensorflow/core/util/event.proto,
// framework/summary.proto, lib/io/record_writer.h; tensorboard/plugins/hparams/plugin_data.proto).
// Pure functions but for EventWriter, which one thread at a time may use.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/base/file.h"

namespace troupe {

// A record: length, its masked CRC, the data, its masked CRC.
std::string tfrecord(std::string_view data);
// Event messages. `wall_time` is in seconds since 1970.
std::string event_file_version(double wall_time);
std::string event_scalars(double wall_time, int64_t step, const std::map<std::string, double>& scalars);
// The settings of a run, by their paths.
using HParam = std::variant<double, bool, std::string>;
using HParams = std::map<std::string, HParam>;
std::string event_hparams(double wall_time, const HParams& hparams);
// Tells the reader to forget what earlier files of the folder say about `step` and later: a run resumed there.
std::string event_restart(double wall_time, int64_t step);

// "events.out.tfevents.<seconds>.troupe.<index>"; the names of one folder sort by the time of their start.
std::string event_file_name(double wall_time, int index);

class EventWriter {
 public:
  // For an empty file; its first events are written with the first scalars: its version, the settings if there are any,
  // and `resumed_at`, the step from which a run goes on.
  EventWriter(std::unique_ptr<AppendFile> file, double wall_time, const HParams& hparams = {},
              std::optional<int64_t> resumed_at = std::nullopt);

  // One event with all scalars; those that are NaN are written as NaN. Throws IoError, and then nothing was added.
  void add(double wall_time, int64_t step, const std::map<std::string, double>& scalars);

 private:
  std::unique_ptr<AppendFile> file_;
  std::string pending_;  // first events, until the first add() that succeeds
};

}  // namespace troupe
