// Which rank a process is, from flags and from the variables of launchers.
#include "tools/cli/launcher.h"

#include <vector>

#include "runtime/base/errors.h"
#include "tests/support/test.h"
#include "tools/cli/host_list.h"

using namespace troupe;

namespace {

using Names = std::vector<std::string>;

const Environment kTorchrun = {{"RANK", "1"},
                               {"WORLD_SIZE", "4"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "first.local"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_RUN_ID", "none"}};
const Environment kSlurm = {{"SLURM_JOB_ID", "17"},      {"SLURM_STEP_ID", "2"}, {"SLURM_STEP_NODELIST", "n[01-02,7]"},
                            {"SLURM_PROCID", "3"},       {"SLURM_NTASKS", "4"},  {"SLURM_STEP_NUM_TASKS", "4"},
                            {"SLURM_JOB_NODELIST", "m1"}};
const Environment kMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                          {"PMIX_RANK", "1"},
                          {"PMIX_NAMESPACE", "4163633153"}};

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

Environment without(Environment environment, const Names& names) {
  for (const std::string& name : names) environment.erase(name);
  return environment;
}

Environment both(const Environment& one, const Environment& other) { return with(one, other); }

LaunchFlags flags_of(std::optional<int64_t> rank, std::optional<int64_t> ranks, std::optional<Address> rank0 = {},
                     const Address& listen = kLoopbackAnyPort) {
  return {rank, ranks, std::move(rank0), listen};
}

LaunchFlags listening(const Address& address) { return flags_of({}, {}, {}, address); }

// The addresses of rank 0, for the others and its own.
std::string addresses(const std::optional<Launch>& launch) {
  REQUIRE(launch.has_value());
  return launch->rank0.text() + " " + launch->listen.text();
}

std::string text(const std::optional<Launch>& launch) { return launch ? launch->text() : "an ordinary run"; }

std::string refusal(const Environment& environment, const LaunchFlags& flags = {}) {
  try {
    find_launch(flags, environment);
  } catch (const ConfigError& refused) {
    return refused.what();
  }
  return "not refused";
}

}  // namespace

TEST_CASE("launcher: without a launcher a run is an ordinary one, and so is one that starts its ranks") {
  CHECK(text(find_launch({}, {})) == "an ordinary run");
  CHECK(text(find_launch(flags_of({}, 4), {})) == "an ordinary run");
  CHECK(text(find_launch({}, {{"PATH", "/bin"}, {"MASTER_PORT", "1"}, {"LOCAL_RANK", "0"}})) == "an ordinary run");
}

TEST_CASE("launcher: flags come first, then the variables of troupe, torchrun, Slurm and MPI") {
  const Environment own = {{"TROUPE_RANK", "0"}, {"TROUPE_RANKS", "3"}, {"TROUPE_RANK0", "a:5"}};
  Environment all = both(both(kMpi, kSlurm), both(kTorchrun, own));
  CHECK(text(find_launch(flags_of(1, 2), all)) == "rank 1 of 2 (--rank)");
  CHECK(text(find_launch({}, all)) == "rank 0 of 3 (TROUPE_RANK)");
  all = without(all, {"TROUPE_RANK", "TROUPE_RANKS"});
  CHECK(text(find_launch({}, all)) == "rank 1 of 4 (torchrun: RANK)");
  all = without(all, {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"});
  CHECK(text(find_launch({}, all)) == "rank 3 of 4 (Slurm: SLURM_PROCID)");
  CHECK(text(find_launch({}, kMpi)) == "rank 1 of 2 (MPI: OMPI_COMM_WORLD_RANK)");
  CHECK(find_launch({}, kMpi)->by_launcher());
  CHECK_FALSE(find_launch(flags_of(1, 2, Address{"a", 5}), kMpi)->by_launcher());
}

TEST_CASE("launcher: flags need each other, and the address of rank 0") {
  const Address at{"a", 5};
  CHECK(addresses(find_launch(flags_of(1, 2, at), {})) == "a:5 0.0.0.0:5");
  CHECK(addresses(find_launch(flags_of(1, 2), {{"TROUPE_RANK0", "127.0.0.1:6"}})) == "127.0.0.1:6 127.0.0.1:6");
  CHECK(text(find_launch(flags_of(0, 1), {})) == "an ordinary run");
  CHECK(refusal({}, flags_of(1, {})) == "--rank: needs --ranks, the number of all ranks");
  CHECK(refusal({}, flags_of(2, 2, at)) == "--rank: 2 is out of range, expected an integer in [0, 1]");
  CHECK(refusal({}, flags_of(1, 2)) == "--rank0: is not given, expected HOST:PORT of rank 0 with 2 ranks");
  CHECK(refusal({}, flags_of({}, 2, at)).starts_with("--rank0: has no effect without --rank, "));
}

TEST_CASE("launcher: --ranks alone has to agree with a launcher, and with 1 the run is an ordinary one") {
  CHECK(text(find_launch(flags_of({}, 4), kTorchrun)) == "rank 1 of 4 (torchrun: RANK)");
  CHECK(refusal(kTorchrun, flags_of({}, 2)) == "--ranks: 2, and there are 4 (torchrun: RANK); leave --ranks out");
  CHECK(text(find_launch(flags_of({}, 1), kTorchrun)) == "an ordinary run");
  const Environment one = with(kTorchrun, {{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  CHECK(text(find_launch(flags_of({}, 4), one)) == "an ordinary run");
}

TEST_CASE("launcher: the variables of troupe") {
  const Environment own = {{"TROUPE_RANK", "1"}, {"TROUPE_RANKS", "2"}, {"TROUPE_RANK0", "[fd00::1]:5555"}};
  CHECK(addresses(find_launch({}, own)) == "[fd00::1]:5555 [::]:5555");
  CHECK(refusal(without(own, {"TROUPE_RANK0"})) ==
        "TROUPE_RANK0: is not set, expected HOST:PORT of rank 0 with 2 ranks");
  CHECK(refusal(without(own, {"TROUPE_RANK"})) == "TROUPE_RANKS: is set, and TROUPE_RANK is not; set both or none");
  CHECK(refusal(with(own, {{"TROUPE_RANK0", "host"}})).starts_with("TROUPE_RANK0: \"host\" has no port"));
  CHECK(refusal(with(own, {{"TROUPE_RANKS", ""}})).starts_with("TROUPE_RANKS: \"\" is not an integer"));
}

TEST_CASE("launcher: with torchrun rank 0 listens on the port after MASTER_PORT") {
  CHECK(addresses(find_launch({}, kTorchrun)) == "first.local:29501 0.0.0.0:29501");
  CHECK(addresses(find_launch({}, with(kTorchrun, {{"LOCAL_WORLD_SIZE", "4"}}))) == "127.0.0.1:29501 127.0.0.1:29501");
  CHECK(addresses(find_launch({}, with(kTorchrun, {{"MASTER_ADDR", "localhost"}}))) ==
        "localhost:29501 127.0.0.1:29501");
  CHECK(addresses(find_launch({}, with(kTorchrun, {{"MASTER_ADDR", "fd00::1"}}))) == "[fd00::1]:29501 [::]:29501");
}

TEST_CASE("launcher: variables of torchrun that make no sense are refused") {
  const auto changed = [](const std::string& name, const std::string& value) {
    return refusal(with(kTorchrun, {{name, value}}));
  };
  CHECK(changed("RANK", "abc") == "RANK: \"abc\" is not an integer, expected an integer in [0, 3]");
  CHECK(changed("RANK", "4") == "RANK: 4 is out of range, expected an integer in [0, 3]");
  CHECK(changed("RANK", "-1") == "RANK: -1 is out of range, expected an integer in [0, 3]");
  CHECK(changed("WORLD_SIZE", "0").starts_with("WORLD_SIZE: 0 is out of range"));
  CHECK(changed("MASTER_PORT", "65535") == "MASTER_PORT: 65535 is out of range, expected an integer in [1, 65534]");
  CHECK(changed("MASTER_ADDR", "a b").starts_with("MASTER_ADDR: \"a b\" is not a host name"));
  const auto missing = [](const std::string& name) { return refusal(without(kTorchrun, {name})); };
  CHECK(missing("RANK") == "WORLD_SIZE: is set, and RANK is not; set both or none");
  CHECK(missing("WORLD_SIZE") == "RANK: is set, and WORLD_SIZE is not; set both or none");
  CHECK(missing("MASTER_ADDR") == "MASTER_ADDR: is not set, expected the host of rank 0 with 4 ranks");
  CHECK(missing("MASTER_PORT") == "MASTER_PORT: is not set, expected the port of torchrun with 4 ranks");
}

TEST_CASE("launcher: with one rank an ordinary run needs no address") {
  CHECK(text(find_launch({}, {{"RANK", "0"}, {"WORLD_SIZE", "1"}})) == "an ordinary run");
  CHECK(text(find_launch({}, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}})) == "an ordinary run");
}

TEST_CASE("launcher: in a step of Slurm rank 0 is on the first host, at a port from the job and the step") {
  CHECK(addresses(find_launch({}, kSlurm)) == "n01:20529 0.0.0.0:20529");
  CHECK(addresses(find_launch({}, with(kSlurm, {{"SLURM_STEP_ID", "3"}}))) == "n01:20530 0.0.0.0:20530");
  CHECK(addresses(find_launch({}, with(kSlurm, {{"SLURM_STEP_NODELIST", "n1"}}))) == "127.0.0.1:20529 127.0.0.1:20529");
  CHECK(addresses(find_launch({}, with(without(kSlurm, {"SLURM_STEP_NODELIST"}),
                                       {{"SLURM_JOB_NODELIST", "m[3-4]"}}))) == "m3:20529 0.0.0.0:20529");
  const auto most = find_launch({}, with(kSlurm, {{"SLURM_JOB_ID", "4294967295"}, {"SLURM_STEP_ID", "4294967279"}}));
  REQUIRE(most.has_value());
  CHECK(most->rank0.port >= kLowestLaunchPort);
  CHECK(most->rank0.port <= kHighestLaunchPort);
}

TEST_CASE("launcher: the shell of salloc and a batch script are no steps") {
  CHECK(text(find_launch({}, without(kSlurm, {"SLURM_STEP_ID"}))) == "an ordinary run");
  for (const char* special : {"4294967290", "4294967291", "4294967292"})
    CHECK(text(find_launch({}, with(kSlurm, {{"SLURM_STEP_ID", special}}))) == "an ordinary run");
  CHECK(text(find_launch({}, with(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}))) ==
        "an ordinary run");
}

TEST_CASE("launcher: variables of a step that make no sense are refused") {
  const auto changed = [](const std::string& name, const std::string& value) {
    return refusal(with(kSlurm, {{name, value}}));
  };
  CHECK(changed("SLURM_PROCID", "4") == "SLURM_PROCID: 4 is out of range, expected an integer in [0, 3]");
  CHECK(changed("SLURM_STEP_ID", "x").starts_with("SLURM_STEP_ID: \"x\" is not an integer"));
  CHECK(changed("SLURM_STEP_NODELIST", "n[1-") ==
        "SLURM_STEP_NODELIST: \"n[1-\" is not a list of hosts, expected one like n[1-2,7]");
  CHECK(refusal(without(kSlurm, {"SLURM_PROCID"})) ==
        "SLURM_STEP_NUM_TASKS: is set, and SLURM_PROCID is not; set both or none");
  CHECK(refusal(without(kSlurm, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"})) ==
        "SLURM_PROCID: is set, and SLURM_NTASKS is not; set both or none");
  CHECK(refusal(without(kSlurm, {"SLURM_JOB_ID"})).starts_with("SLURM_JOB_ID: is not set"));
  CHECK(refusal(without(kSlurm, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}))
            .starts_with("SLURM_STEP_NODELIST: is not set"));
}

TEST_CASE("launcher: MPI on one host has its port from the job; on several it needs TROUPE_RANK0") {
  const auto one = find_launch({}, kMpi), other = find_launch({}, with(kMpi, {{"PMIX_NAMESPACE", "4163633154"}}));
  REQUIRE(one.has_value());
  REQUIRE(other.has_value());
  CHECK(one->rank0.host == "127.0.0.1");
  CHECK(one->listen == one->rank0);
  CHECK(one->rank0.port >= kLowestLaunchPort);
  CHECK(one->rank0.port <= kHighestLaunchPort);
  CHECK(other->rank0.port != one->rank0.port);
  const Environment several = with(kMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  CHECK(refusal(several) ==
        "TROUPE_RANK0: is not set, expected HOST:PORT of rank 0 with 2 ranks of MPI, which may be on several hosts");
  CHECK(addresses(find_launch({}, with(several, {{"TROUPE_RANK0", "a:5"}}))) == "a:5 0.0.0.0:5");
}

TEST_CASE("launcher: MPI without a job or without a number of ranks is refused") {
  const Environment hydra = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}};
  CHECK(refusal(hydra) == "TROUPE_RANK0: is not set, expected HOST:PORT of rank 0 with 2 ranks, like 127.0.0.1:5555");
  CHECK(refusal({{"PMIX_RANK", "0"}}).starts_with("PMIX_RANK: is set, and no variable says how many ranks there are"));
  CHECK(refusal(without(kMpi, {"OMPI_COMM_WORLD_SIZE"})) ==
        "OMPI_COMM_WORLD_RANK: is set, and OMPI_COMM_WORLD_SIZE is not; set both or none");
}

TEST_CASE("launcher: of a step that has started mpirun the variables of MPI count") {
  CHECK(text(find_launch({}, both(kSlurm, kMpi))) == "rank 1 of 2 (MPI: OMPI_COMM_WORLD_RANK)");
  const Environment by_srun = {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMIX_RANK", "3"}};
  CHECK(text(find_launch({}, both(kSlurm, by_srun))) == "rank 3 of 4 (Slurm: SLURM_PROCID)");
}

TEST_CASE("launcher: --listen names the port, and the addresses on which rank 0 listens") {
  CHECK(addresses(find_launch(listening({"0.0.0.0", 5555}), kTorchrun)) == "first.local:5555 0.0.0.0:5555");
  CHECK(addresses(find_launch(listening({"10.0.0.1", 0}), kTorchrun)) == "first.local:29501 10.0.0.1:29501");
  const Environment local = with(kTorchrun, {{"LOCAL_WORLD_SIZE", "4"}});
  CHECK(addresses(find_launch(listening({"127.0.0.1", 5555}), local)) == "127.0.0.1:5555 127.0.0.1:5555");
  CHECK(addresses(find_launch(listening({"0.0.0.0", 5555}), local)) == "127.0.0.1:5555 0.0.0.0:5555");
  CHECK(addresses(find_launch(listening({"10.0.0.1", 5555}), local)) == "10.0.0.1:5555 10.0.0.1:5555");
  CHECK(refusal(kTorchrun, listening({"127.0.0.1", 5555})) ==
        "--listen: 127.0.0.1:5555 cannot be reached from other hosts, and rank 0 is at first.local:29501; use "
        "0.0.0.0:5555");
  CHECK(refusal({}, flags_of(0, 2, Address{"a", 5}, {"0.0.0.0", 6})) ==
        "--listen: 0.0.0.0:6 has another port than the address of rank 0, a:5");
}

TEST_CASE("host list: names, ranges, several ranges, and digits") {
  const auto hosts = [](const std::string& text) { return expand_host_list("LIST", text); };
  CHECK(hosts("n1") == Names{"n1"});
  CHECK(hosts("n1,login.local") == Names{"n1", "login.local"});
  CHECK(hosts("n[1-2,7]") == Names{"n1", "n2", "n7"});
  CHECK(hosts("n[09-11],m3") == Names{"n09", "n10", "n11", "m3"});
  CHECK(hosts("r[1-2]n[1-2]-ib") == Names{"r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"});
  CHECK(hosts("n[5]") == Names{"n5"});
  CHECK(hosts("n[0-65535]").size() == kMostHosts);
}

TEST_CASE("host list: what is no list is refused") {
  for (const char* text : {"", ",", "n1,", "n[", "n]", "n[]", "n[1-]", "n[-1]", "n[2-1]", "n[1,]", "n[a]", "n[[1]]",
                           "n[1-2", "a b", "n[0-65536]", "n[0-9999][0-9999]", "n[99999999999999999999]"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(expand_host_list("LIST", text), ConfigError);
  }
}
