#include "runtime/base/threads.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <system_error>

#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "runtime/base/text_format.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// Starts as many threads as the limit allows, and counts those that have not ended.
struct LimitedStart {
  size_t limit;
  std::atomic<size_t> begun = 0, running = 0, at_once = 0;

  StartThread start() {
    return [this](const std::function<void()>& body) {
      if (begun == limit)
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "thread");
      ++begun;
      at_once = ++running;
      return std::thread([this, body] {
        body();
        --running;
      });
    };
  }
};

std::string refusal_of(size_t count, const std::string& advice, const StartThread& start) {
  try {
    require_threads(count, advice, start);
  } catch (const ConfigError& refused) {
    return refused.what();
  }
  return "";
}

}  // namespace

TEST_CASE("threads: address space for stacks and data is required, arenas are not") {
  constexpr uint64_t kData = 100 << 20, kUnlimited = std::numeric_limits<uint64_t>::max();
  const AddressSpace space = address_space_for(20, kData, 2);
  CHECK(space.needed > kData);
  CHECK(address_space_for(21, kData, 2).needed > space.needed);
  CHECK(address_space_for(20, 2 * kData, 2).needed == space.needed + kData);
  MemoryDisk disk;
  open_log(disk.open_append("log"), {LogLevel::info, LogLevel::error, false});
  CHECK_NOTHROW(require_address_space(20, kData, kUnlimited));
  CHECK(disk.read("log").empty());
  CHECK_NOTHROW(require_address_space(20, kData, space.needed));
  const std::string line = disk.read("log");
  close_log();
  CHECK(line.find("`ulimit -v` leaves address space for 1 of ") != std::string::npos);
  CHECK(std::ranges::count(line, '\n') == 1);
  CHECK_THROWS_WITH_AS(require_address_space(20, kData, 5 << 20, "lower workers.count"),
                       ("`ulimit -v` leaves 5 MB of address space, " + format_bytes(space.needed) +
                        " are needed for 20 threads and the data: raise it, or lower workers.count")
                           .c_str(),
                       ConfigError);
  CHECK_THROWS_AS(require_address_space(20, kData, space.needed - 1), ConfigError);
}

TEST_CASE("threads: as many arenas as fit, at most one for each thread and 8 for each core") {
  constexpr uint64_t kArena = 128 << 20, kUnlimited = std::numeric_limits<uint64_t>::max();
  struct Case {
    size_t threads;
    uint64_t cores, all;
  };
  for (const Case& each : {Case{219, 2, 16}, {219, 64, 219}, {12, 2, 12}, {1, 2, 1}, {0, 2, 1}}) {
    CAPTURE(each.threads);
    CAPTURE(each.cores);
    const AddressSpace space = address_space_for(each.threads, 0, each.cores);
    CHECK(space.arenas == each.all);
    CHECK(space.arenas_within(kUnlimited) == each.all);
    CHECK(space.arenas_within(space.needed) == 1);
    for (uint64_t i = 1; i < 2 * each.all; ++i) {
      CHECK(space.arenas_within(space.needed + i * kArena) == std::min(i, each.all));
      CHECK(space.arenas_within(space.needed + (i + 1) * kArena - 1) == std::min(i, each.all));
    }
  }
}

TEST_CASE("threads: all needed threads run at the same time and have ended afterwards") {
  for (const size_t count : {0, 1, 50}) {
    CAPTURE(count);
    LimitedStart limited{.limit = count};
    CHECK(refusal_of(count, "", limited.start()).empty());
    CHECK(limited.at_once == count);
    CHECK(limited.running == 0);
  }
  require_threads(10);
}

TEST_CASE("threads: the error about a limit has the number of threads that could start, and those have ended") {
  for (const size_t limit : {0, 1, 7}) {
    CAPTURE(limit);
    LimitedStart limited{.limit = limit};
    const std::string start = "cannot start 8 threads, " + std::to_string(limit) +
                              " started: raise `ulimit -u`, `-v`, `-d` or the container's limit of processes";
    CHECK(refusal_of(8, "", limited.start()) == start);
    CHECK(limited.running == 0);
    CHECK(limited.at_once == limit);
    LimitedStart again{.limit = limit};
    CHECK(refusal_of(8, "lower workers.count", again.start()) == start + ", or lower workers.count");
  }
}
