#include "runtime/stats/tfevents.h"

#include <cmath>

#include "runtime/base/memory_disk.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    out += "0123456789abcdef"[(c >> 4) & 15];
    out += "0123456789abcdef"[c & 15];
  }
  return out;
}

}  // namespace

TEST_CASE("tfevents: the encoded messages have the expected bytes") {
  CHECK(hex(event_file_version(1.0)) ==
        "09000000000000f03f"
        "1a0d"
        "627261696e2e4576656e743a32");
  CHECK(hex(event_scalars(1.0, 300, {{"a", 1.0}})) ==
        "09000000000000f03f"
        "10ac02"
        "2a0a"
        "0a08"
        "0a0161"
        "150000803f");
  CHECK(hex(event_restart(1.0, 5)) ==
        "09000000000000f03f"
        "1005"
        "3a020801");
}

// The CRCs are those that record_writer of the Python package tensorboard writes for the same bytes.
TEST_CASE("tfevents: a complete record has the expected bytes") {
  CHECK(hex(tfrecord("abc")) ==
        "0300000000000000"
        "b099490e"
        "616263"
        "6e57f121");
}

TEST_CASE("tfevents: file names are sorted by time") {
  CHECK(event_file_name(1.7e9, 0) == "events.out.tfevents.1700000000.troupe.0");
  CHECK(event_file_name(99.9, 3) == "events.out.tfevents.0000000099.troupe.3");
}

TEST_CASE("tfevents: a refused write loses one event only") {
  MemoryDisk disk;
  EventWriter writer(disk.open_append("a"), 1.0);
  disk.set_fault({DiskFault::Kind::refuse, disk.operations(), 1});
  CHECK_THROWS_AS(writer.add(1.0, 1, {{"x", 1}}), IoError);
  writer.add(1.0, 2, {{"x", 2}});
  CHECK(disk.read("a") == tfrecord(event_file_version(1.0)) + tfrecord(event_scalars(1.0, 2, {{"x", 2}})));
}

TEST_CASE("tfevents: the reader of TensorBoard reads the scalars, and drops those that a resumed run writes again") {
  if (!test::python_has("tensorboard.backend.event_processing.event_accumulator")) {
    MESSAGE("skipped: ", test::test_python(), " has no package tensorboard");
    return;
  }
  test::TempFolder folder;
  {
    EventWriter writer(posix_disk().open_append(folder / event_file_name(100, 0)), 100);
    for (int step = 0; step < 5; ++step) writer.add(100 + step, step, {{"loss/value", step * 0.5}, {"kl", NAN}});
  }
  EventWriter writer(posix_disk().open_append(folder / event_file_name(200, 0)), 200, {}, 3);
  writer.add(200.25, 3, {{"loss/value", -1e10}});
  const auto result = test::run_program(test::test_python() + R"( -c '
import sys, math
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]).Reload()
assert events.Tags()["scalars"] == ["kl", "loss/value"], events.Tags()
print([(e.step, e.value, e.wall_time) for e in events.Scalars("loss/value")])
assert all(math.isnan(e.value) for e in events.Scalars("kl")) and len(events.Scalars("kl")) == 3
' )" + folder.path() + " 2>/dev/null");
  CHECK(result.output == "[(0, 0.0, 100.0), (1, 0.5, 101.0), (2, 1.0, 102.0), (3, -10000000000.0, 200.25)]\n");
}

TEST_CASE("tfevents: the page HParams of TensorBoard has the settings, and shows the scalars beside them") {
  if (!test::python_has("tensorboard.plugins.hparams.plugin_data_pb2")) {
    MESSAGE("skipped: ", test::test_python(), " has no package tensorboard");
    return;
  }
  test::TempFolder folder;
  for (const double seed : {1.0, 2.0}) {
    const std::string run = folder / "seed" + std::to_string(static_cast<int>(seed));
    std::filesystem::create_directories(run);
    EventWriter writer(posix_disk().open_append(run + '/' + event_file_name(100, 0)), 100,
                       {{"seed", seed}, {"deterministic", false}, {"env.id", std::string("CartPole-v1")}});
    writer.add(101, 10, {{"episodes/return_mean", 20 * seed}});
  }
  // As the page asks its server.
  const auto result = test::run_program(test::test_python() + R"( -c '
import sys
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import backend_context, metadata
events = EventMultiplexer().AddRunsFromDirectory(sys.argv[1])
events.Reload()
provider = MultiplexerDataProvider(events, sys.argv[1])
context = backend_context.Context(TBContext(data_provider=provider))
asked, of = RequestContext(), ""
experiment = context.experiment_from_metadata(asked, of, True, context.hparams_metadata(asked, of), [], 0)
print([(info.name, info.differs) for info in sorted(experiment.hparam_infos, key=lambda info: info.name)])
print([info.name.tag for info in experiment.metric_infos])
for run, tags in sorted(context.hparams_metadata(asked, of).items()):
    start = metadata.parse_session_start_info_plugin_data(tags[metadata.SESSION_START_INFO_TAG])
    values = start.hparams
    print(run, values["seed"].number_value, values["deterministic"].bool_value, values["env.id"].string_value)
' )" + folder.path() + " 2>&1 | grep -v Warning");
  CHECK(result.output ==
        "[('deterministic', False), ('env.id', False), ('seed', True)]\n['episodes/return_mean']\n"
        "seed1 1.0 False CartPole-v1\nseed2 2.0 False CartPole-v1\n");
}
