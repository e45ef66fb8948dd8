#include "tools/cli/launcher.h"

#include <unistd.h>

#include <string_view>
#include <vector>

#include "models/learning/trainer_config.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/host_list.h"

namespace troupe {
namespace {

struct Found;

// Where rank 0 is.
struct Meeting {
  Address at;
  bool local = false;  // all ranks are on its host
};
using FindMeeting = Meeting (*)(const Environment&, const Found&);

struct Found {
  int64_t rank = 0, ranks = 1;
  std::string where;
  FindMeeting meeting = nullptr;  // of this launcher, where neither --rank0 nor TROUPE_RANK0 says it
};

// The names of the two variables of a launcher.
struct Names {
  const char* rank;
  const char* ranks;
};

const std::string* value_of(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? nullptr : &found->second;
}

// The first of the variables that is set.
const char* first_of(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (value_of(environment, name) != nullptr) return name;
  return nullptr;
}

// The value of a variable that a launcher sets together with its rank.
const std::string& needed(const Environment& environment, const char* name, const std::string& what) {
  const std::string* value = value_of(environment, name);
  if (value == nullptr) refuse_flag(name, "is not set, expected " + what);
  return *value;
}

std::optional<Found> found_by(const Environment& environment, const Names& names, const std::string& launcher,
                              FindMeeting meeting) {
  const std::string *rank = value_of(environment, names.rank), *ranks = value_of(environment, names.ranks);
  if (rank == nullptr && ranks == nullptr) return std::nullopt;
  const auto alone = [](const char* set, const char* missing) {
    refuse_flag(set, std::string("is set, and ") + missing + " is not; set both or none");
  };
  if (ranks == nullptr) alone(names.rank, names.ranks);
  if (rank == nullptr) alone(names.ranks, names.rank);
  const int64_t count = parse_integer(names.ranks, *ranks, 1, kMostShards);
  return Found{parse_integer(names.rank, *rank, 0, count - 1), count, launcher + names.rank, meeting};
}

std::string ranks_text(const Found& found) { return " with " + std::to_string(found.ranks) + " ranks"; }

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

Meeting meeting_by_troupe(const Environment&, const Found& found) {
  refuse_flag("TROUPE_RANK0", "is not set, expected HOST:PORT of rank 0" + ranks_text(found));
}

Meeting meeting_by_flags(const Environment&, const Found& found) {
  refuse_flag("--rank0", "is not given, expected HOST:PORT of rank 0" + ranks_text(found));
}

// torchrun itself listens on MASTER_PORT.
Meeting meeting_by_torchrun(const Environment& environment, const Found& found) {
  const std::string& host = needed(environment, "MASTER_ADDR", "the host of rank 0" + ranks_text(found));
  const std::string& port = needed(environment, "MASTER_PORT", "the port of torchrun" + ranks_text(found));
  const auto after = static_cast<uint16_t>(parse_integer("MASTER_PORT", port, 1, 65534) + 1);
  const Address at = parse_address("MASTER_ADDR", Address{host, after}.text());
  const std::string *here = value_of(environment, "LOCAL_WORLD_SIZE"), *all = value_of(environment, "WORLD_SIZE");
  if (here != nullptr && *here == *all) return {{kLoopbackAnyPort.host, after}, true};
  return {at, is_loopback(host)};
}

constexpr uint64_t kLaunchPorts = kHighestLaunchPort - kLowestLaunchPort + 1;

constexpr int64_t kMostJobs = 4294967295;
// Those from here on are no steps that srun has started: the batch script, the shell of salloc and others.
constexpr int64_t kSpecialSteps = 4294967280;

Meeting meeting_by_slurm(const Environment& environment, const Found& found) {
  const char* list = first_of(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  const std::string& hosts =
      needed(environment, list == nullptr ? "SLURM_STEP_NODELIST" : list, "the hosts of the step" + ranks_text(found));
  const std::string& job = needed(environment, "SLURM_JOB_ID", "the number of the job" + ranks_text(found));
  const auto job_id = static_cast<uint64_t>(parse_integer("SLURM_JOB_ID", job, 0, kMostJobs));
  const auto step =
      static_cast<uint64_t>(parse_integer("SLURM_STEP_ID", *value_of(environment, "SLURM_STEP_ID"), 0, kMostJobs));
  // Jobs and steps that run at the same time have numbers close to each other.
  const auto port = static_cast<uint16_t>(kLowestLaunchPort + (31 * job_id + step) % kLaunchPorts);
  const std::vector<std::string> nodes = expand_host_list(list, hosts);
  const bool local = nodes.size() == 1;
  return {{local ? kLoopbackAnyPort.host : nodes.front(), port}, local};
}

// Nothing outside of a step: a batch script and the shell of salloc have variables of the job.
std::optional<Found> found_by_slurm(const Environment& environment) {
  const std::string* step = value_of(environment, "SLURM_STEP_ID");
  if (step == nullptr || parse_integer("SLURM_STEP_ID", *step, 0, kMostJobs) >= kSpecialSteps) return std::nullopt;
  const char* tasks = first_of(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  return found_by(environment, {"SLURM_PROCID", tasks == nullptr ? "SLURM_NTASKS" : tasks},
                  "Slurm: ", meeting_by_slurm);
}

// The same for all ranks of a job, and for few jobs at a time.
uint16_t port_of_job(const std::string& job) {
  uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return static_cast<uint16_t>(kLowestLaunchPort + hash % kLaunchPorts);
}

Meeting meeting_by_mpi(const Environment& environment, const Found& found) {
  const std::string wanted = "HOST:PORT of rank 0" + ranks_text(found);
  const char* here = first_of(environment, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"});
  if (here == nullptr || *value_of(environment, here) != std::to_string(found.ranks))
    refuse_flag("TROUPE_RANK0", "is not set, expected " + wanted + " of MPI, which may be on several hosts");
  const char* job = first_of(environment, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  if (job == nullptr) refuse_flag("TROUPE_RANK0", "is not set, expected " + wanted + ", like 127.0.0.1:5555");
  return {{kLoopbackAnyPort.host, port_of_job(*value_of(environment, job))}, true};
}

std::optional<Found> found_by_mpi(const Environment& environment) {
  for (const Names& names : {Names{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, Names{"PMI_RANK", "PMI_SIZE"}})
    if (auto found = found_by(environment, names, "MPI: ", meeting_by_mpi)) return found;
  return std::nullopt;
}

std::optional<Found> found_in(const Environment& environment) {
  if (auto found = found_by(environment, {"TROUPE_RANK", "TROUPE_RANKS"}, "", meeting_by_troupe)) return found;
  if (auto found = found_by(environment, {"RANK", "WORLD_SIZE"}, "torchrun: ", meeting_by_torchrun)) return found;
  std::optional<Found> slurm = found_by_slurm(environment), mpi = found_by_mpi(environment);
  // A step has variables of MPI too. Where they differ, the step is that of an mpirun, which has started this process.
  if (slurm && mpi && (slurm->rank != mpi->rank || slurm->ranks != mpi->ranks)) return mpi;
  if (slurm) return slurm;
  if (!mpi && value_of(environment, "PMIX_RANK") != nullptr)
    refuse_flag("PMIX_RANK", "is set, and no variable says how many ranks there are; set TROUPE_RANK and TROUPE_RANKS");
  return mpi;
}

std::optional<Found> found_in_flags(const LaunchFlags& flags) {
  if (!flags.rank) return std::nullopt;
  if (!flags.ranks) refuse_flag("--rank", "needs --ranks, the number of all ranks");
  return Found{parse_integer("--rank", std::to_string(*flags.rank), 0, *flags.ranks - 1), *flags.ranks, "--rank",
               meeting_by_flags};
}

// Makes the address of rank 0 and that on which it listens agree with --listen.
void use_listen(Launch& launch, const Address& listen, bool given, bool local) {
  const bool any = is_any_address(listen.host);
  if (listen.port != 0 && given && listen.port != launch.rank0.port)
    refuse_flag("--listen", listen.text() + " has another port than the address of rank 0, " + launch.rank0.text());
  if (!local && is_loopback(listen.host))
    refuse_flag("--listen", listen.text() + " cannot be reached from other hosts, and rank 0 is at " +
                                launch.rank0.text() + "; use 0.0.0.0:" + std::to_string(listen.port));
  if (listen.port != 0) launch.rank0.port = listen.port;
  if (local && !given && !any) launch.rank0.host = listen.host;
  launch.listen = {listen.host, launch.rank0.port};
}

Launch launch_of(const LaunchFlags& flags, const Environment& environment, const Found& found) {
  Launch launch{found.rank, found.ranks, found.where, {}, {}};
  const std::string* variable = value_of(environment, "TROUPE_RANK0");
  const bool given = flags.rank0 || variable != nullptr;
  bool local = false;
  if (given) {
    launch.rank0 = flags.rank0 ? *flags.rank0 : parse_address("TROUPE_RANK0", *variable);
    local = is_loopback(launch.rank0.host);
  } else {
    const Meeting meeting = found.meeting(environment, found);
    launch.rank0 = meeting.at;
    local = meeting.local;
  }
  if (flags.listen != kLoopbackAnyPort) {
    use_listen(launch, flags.listen, given, local);
    return launch;
  }
  const bool six = launch.rank0.host.find(':') != std::string::npos;
  const std::string own = six ? "::1" : kLoopbackAnyPort.host, any = six ? "::" : "0.0.0.0";
  launch.listen = {local ? own : any, launch.rank0.port};
  return launch;
}

}  // namespace

Environment environment_here() {
  Environment all;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    const std::string_view text = *line;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

std::string Launch::text() const {
  return "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " (" + found + ')';
}

std::optional<Launch> find_launch(const LaunchFlags& flags, const Environment& environment) {
  if (!flags.rank && flags.ranks == 1 && !flags.rank0) return std::nullopt;
  std::optional<Found> found = found_in_flags(flags);
  if (!found) found = found_in(environment);
  if (!found && flags.rank0)
    refuse_flag("--rank0", "has no effect without --rank, or a launcher that says which rank this process is");
  if (!found || found->ranks == 1) return std::nullopt;
  if (flags.ranks && *flags.ranks != found->ranks)
    refuse_flag("--ranks", std::to_string(*flags.ranks) + ", and there are " + std::to_string(found->ranks) + " (" +
                               found->where + "); leave --ranks out");
  return launch_of(flags, environment, *found);
}

}  // namespace troupe
