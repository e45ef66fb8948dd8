#include "runtime/base/machine.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/runtime/base/computing.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr uint64_t kMebi = 1 << 20;

// The files of /proc and /sys about memory.
struct Machine {
  test::TempFolder folder;
  std::string root = folder / "root";

  Machine() {
    write("/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\nSwapFree: 1048576 kB\n");
    write("/proc/self/cgroup", "0::/user/job\n");
  }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  uint64_t mebibytes() const { return available_memory(root) / kMebi; }
};

}  // namespace

TEST_CASE("machine: free memory and free swap are available") { CHECK(Machine().mebibytes() == 4096 + 1024); }

TEST_CASE("machine: the limit of a control group counts, minus its usage without file pages that can be dropped") {
  const Machine machine;
  machine.write("/sys/fs/cgroup/user/job/memory.max", "1073741824\n");
  machine.write("/sys/fs/cgroup/user/job/memory.swap.max", "0\n");
  CHECK(machine.mebibytes() == 1024);
  machine.write("/sys/fs/cgroup/user/job/memory.current", "536870912\n");
  CHECK(machine.mebibytes() == 512);
  machine.write("/sys/fs/cgroup/user/job/memory.stat", "anon 1\ninactive_file 134217728\nfile 2\n");
  CHECK(machine.mebibytes() == 512 + 128);
  machine.write("/sys/fs/cgroup/user/job/memory.stat",
                "anon 1\ninactive_file 134217728\nactive_file 67108864\nslab_reclaimable 33554432\n");
  CHECK(machine.mebibytes() == 512 + 128 + 64 + 32);
  machine.write("/sys/fs/cgroup/user/job/memory.stat", "active_file 18446744073709551614\ninactive_file 1\n");
  CHECK(machine.mebibytes() == 1024);
}

TEST_CASE("machine: the limit of a parent group counts too") {
  const Machine machine;
  machine.write("/sys/fs/cgroup/user/job/memory.max", "max\n");
  machine.write("/sys/fs/cgroup/user/memory.max", "268435456\n");
  machine.write("/sys/fs/cgroup/user/memory.swap.max", "268435456\n");
  CHECK(machine.mebibytes() == 512);
}

TEST_CASE("machine: without a limit on swap in the group, the free swap of the machine counts") {
  const Machine machine;
  machine.write("/sys/fs/cgroup/user/job/memory.max", "1073741824\n");
  CHECK(machine.mebibytes() == 1024 + 1024);
}

TEST_CASE("machine: control groups of version 1 are read") {
  const Machine machine;
  machine.write("/proc/meminfo", "MemAvailable: 4194304 kB\nSwapFree: 0 kB\n");
  machine.write("/proc/self/cgroup", "3:cpu,cpuacct:/x\n9:memory:/job\n");
  machine.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2147483648\n");
  machine.write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1073741824\n");
  CHECK(machine.mebibytes() == 1024);
  machine.write("/sys/fs/cgroup/memory/job/memory.stat",
                "active_file 1\ntotal_inactive_file 134217728\ntotal_active_file 268435456\n");
  CHECK(machine.mebibytes() == 1024 + 128 + 256);
}

TEST_CASE("machine: a group without limits, and missing files, have no effect") {
  const Machine machine;
  machine.write("/sys/fs/cgroup/user/job/memory.max", "max\n");
  CHECK(machine.mebibytes() == 4096 + 1024);
  CHECK(available_memory("/no/such/folder") > available_memory(machine.root));
}

TEST_CASE("machine: the rest of the limit on address space counts") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  const Machine machine;
  const rlim_t limit = rlim_t{1} << 60;  // far above what any process uses, in the test as in a sanitizer
  const rlimit low{std::min(limit, before.rlim_max), before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_AS, &low) == 0);
  machine.write("/proc/self/status", "Name:\ttest\nVmSize:\t" + std::to_string(low.rlim_cur / 1024 - 3072) + " kB\n");
  CHECK(machine.mebibytes() == 3);
  setrlimit(RLIMIT_AS, &before);
}

TEST_CASE("machine: the limit of open files is raised to the highest that the system allows") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit low{64, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  CHECK(raise_open_files() == before.rlim_max);
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  CHECK(now.rlim_cur == before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("machine: the first name is the host name") {
  char name[256] = {};
  REQUIRE(gethostname(name, sizeof name - 1) == 0);
  const std::vector<std::string> names = own_host_names();
  REQUIRE(names.size() >= 2);
  CHECK(names[0] == name);
  const std::string label = names[0].substr(0, names[0].find('.'));
  CHECK(names[1] == label);
  for (size_t i = 2; i < names.size(); ++i) CHECK(names[i].starts_with(label + '.'));
}

TEST_CASE("machine: the machine of the test has a processor and some memory") {
  CHECK(processors() >= 1);
  CHECK(available_memory() > kMebi);
}

TEST_CASE("machine: the processors of several processes are those that one of them may run on") {
  const test::Computing other(/*orphan=*/false);
  cpu_set_t all, one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  const uint64_t alone = processors(), nobody = processors({}), both = processors({other.id(), INT32_MAX});
  REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
  CHECK(alone == 1);
  CHECK(nobody == 1);
  CHECK(both == processors());
}
