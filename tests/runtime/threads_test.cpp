#include "runtime/threads.h"

#include <atomic>
#include <system_error>

#include "runtime/errors.h"
#include "runtime/text_format.h"
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
  constexpr uint64_t kData = 100 << 20;
  const AddressSpace space = address_space_for(20, kData);
  CHECK(space.needed > kData);
  CHECK(space.wished > space.needed);
  CHECK(address_space_for(21, kData).needed > space.needed);
  CHECK(address_space_for(20, 2 * kData).needed == space.needed + kData);
  CHECK_NOTHROW(require_address_space(20, kData, space.wished));
  CHECK_NOTHROW(require_address_space(20, kData, space.needed));
  CHECK_THROWS_WITH_AS(require_address_space(20, kData, 5 << 20, "lower workers.count"),
                       ("`ulimit -v` leaves 5 MB of address space, " + format_bytes(space.needed) +
                        " are needed for 20 threads and the data: raise it, or lower workers.count")
                           .c_str(),
                       ConfigError);
  CHECK_THROWS_AS(require_address_space(20, kData, space.needed - 1), ConfigError);
}

TEST_CASE("threads: as many as are needed run at once and have ended afterwards") {
  for (const size_t count : {0, 1, 50}) {
    CAPTURE(count);
    LimitedStart limited{.limit = count};
    CHECK(refusal_of(count, "", limited.start()).empty());
    CHECK(limited.at_once == count);
    CHECK(limited.running == 0);
  }
  require_threads(10);
}

TEST_CASE("threads: a limit is named with what was started, and those have ended") {
  for (const size_t limit : {0, 1, 7}) {
    CAPTURE(limit);
    LimitedStart limited{.limit = limit};
    const std::string start = "cannot start 8 threads, " + std::to_string(limit) +
                              " started: raise `ulimit -u`, `ulimit -v` or the container's limit of processes";
    CHECK(refusal_of(8, "", limited.start()) == start);
    CHECK(limited.running == 0);
    CHECK(limited.at_once == limit);
    LimitedStart again{.limit = limit};
    CHECK(refusal_of(8, "lower workers.count", again.start()) == start + ", or lower workers.count");
  }
}
