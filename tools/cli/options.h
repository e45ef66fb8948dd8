#pragma once
// What the user asked for on the command line, checked: one struct per subcommand. Made by parse_command_line
// (tools/cli/command_line.h), used by the functions of tools/cli/commands.h.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

struct Address {
  std::string host;   // name, IPv4, or IPv6 without brackets
  uint16_t port = 0;  // 0 (listening only) = any free port

  // "host:port", "[::1]:port".
  std::string text() const;
  friend bool operator==(const Address&, const Address&) = default;
};

inline const Address kLoopbackAnyPort = {"127.0.0.1", 0};

struct TrainOptions {
  std::string config;                  // a path, the name of a file in configs/, or a run's folder; see find_config
  std::string run_dir;                 // may be empty; see run_folder_of
  std::optional<uint64_t> seed;        // in place of the config's
  std::vector<std::string> overrides;  // path=value, in order
  Address listen = kLoopbackAnyPort;   // for workers, nodes and inference actors
  Address stats = kLoopbackAnyPort;    // the JSON socket
};

struct WorkerOptions {
  Address connect;
  std::optional<int64_t> wait;  // seconds; see JoinPatience (actors/joining.h)
  int64_t count = 1;            // rollout workers in this process
};

struct InferenceOptions {
  Address connect;
  std::optional<int64_t> wait;
};

struct NodeOptions {
  Address listen;
};

struct SpawnOptions {
  Address node;
  int64_t workers = 1;
  Address run;
};

struct EvalOptions {
  std::string run_dir;
  std::optional<int64_t> episodes;  // in place of the run's evaluation.episodes
  std::optional<uint64_t> seed;     // in place of the run's
  bool json = false;
};

struct PlayOptions {
  std::string run_dir;
  int64_t episodes = 1;
};

struct EnvsOptions {
  bool json = false;
};

struct ConfigOptions {
  enum class Show { effective, defaults, schema, fields };
  Show show = Show::effective;
  std::string config;                  // for `effective`
  std::vector<std::string> overrides;  // for `effective`
};

struct BenchOptions {
  std::string what;  // one of kBenchmarks
  bool json = false;
  double seconds = 5.0;  // of measuring, roughly
  std::string plot;      // an SVG file to draw, or empty
};

// The names `troupe bench` accepts.
inline constexpr const char* kBenchmarks[] = {"sampling", "inference", "trainer",   "weights", "gae",
                                              "vtrace",   "balance",   "surrogate", "logprob"};

struct SimulateOptions {
  uint64_t first_seed = 1;
  uint64_t last_seed = 1;  // included
  bool verbose = false;
};

struct VersionOptions {};

using Options = std::variant<TrainOptions, WorkerOptions, InferenceOptions, NodeOptions, SpawnOptions, EvalOptions,
                             PlayOptions, EnvsOptions, ConfigOptions, BenchOptions, SimulateOptions, VersionOptions>;

}  // namespace troupe
