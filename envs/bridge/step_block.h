#pragma once
// StepBlock: the shared memory through which a server process (envs/bridge/server_process.h) gets the actions of its
// rows and returns the results of a step. Owned by one PythonEnv; one thread at a time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "envs/env.h"
#include "envs/row.h"
#include "runtime/base/descriptor.h"

namespace troupe {

// The first array of the block: what is asked and what was answered. Each side writes its own numbers and then wakes
// the other through an eventfd, which orders the memory accesses. env_server.py has the same fields.
struct BlockHeader {
  uint64_t request = 0;  // number of the request
  uint64_t kind = 0;     // of the request: a RequestKind
  uint64_t reply = 0;    // number of the request that is done
  uint64_t errors = 0;   // 1: the rows that failed are in a message on the socket
  // Rows whose code runs at present: (first << 32) + end; 0 = none.
  uint64_t executing = 0;
};
enum class RequestKind : uint64_t { step = 1, message = 2, close = 3, step_all = 4 };  // message: JSON on the socket

// What a row does in a step. The numbers are part of the protocol with env_server.py.
enum class RowCommand : uint8_t {
  skip = 0,
  step = 1,
  start = 2,         // a new episode
  start_seeded = 3,  // the same, after the environment got its seed
  rebuild = 4,       // the same, after the environment was made anew
};

// Arrays of n rows, each 64-byte aligned. Letters as in envs/env.h.
class StepBlock {
 public:
  // Throws IoError when the system refuses the memory.
  StepBlock(const EnvSpec& spec, int64_t rows);
  ~StepBlock();
  StepBlock(const StepBlock&) = delete;
  StepBlock& operator=(const StepBlock&) = delete;

  int64_t rows() const { return rows_; }
  // The memory as a file that another process can map.
  int descriptor() const { return file_.number(); }
  // {"rows", "chunk", "restarts", "bytes", "arrays": [{"name", "dtype", "shape", "offset"}]}: what the server needs to
  // map it.
  nlohmann::ordered_json layout() const;
  // Restores what the server writes only for rows that finish or execute a chunk: no row has finished, each has
  // executed one step. The server writes all other results of every row that does not fail.
  void clear_results();

  // Whether the server begins the next episode where one has ended, except in vector environments.
  bool restarts = true;
  BlockHeader* header = nullptr;
  uint8_t* commands = nullptr;                          // [n] RowCommand
  int64_t* seeds = nullptr;                             // [n] for start_seeded and rebuild
  std::byte* actions = nullptr;                         // [n, K, A] int32 or float32
  std::vector<ObservationField> observations, finals;   // each [n, ...]
  uint8_t* mask = nullptr;                              // [n, M]; none unless the actions are masked
  float* rewards = nullptr;                             // [n]
  uint8_t *terminated = nullptr, *truncated = nullptr;  // [n]
  uint8_t* success = nullptr;                           // [n]
  int32_t* executed = nullptr;                          // [n]

 private:
  struct Entry {
    std::string name;
    DType dtype;
    Shape shape;
    size_t offset;
  };

  void plan(const EnvSpec& spec);
  void add(std::string name, DType dtype, const Shape& shape);
  void bind(const EnvSpec& spec);

  int64_t rows_, chunk_;
  std::vector<Entry> entries_;
  size_t bytes_ = 0;
  Descriptor file_;
  std::byte* memory_ = nullptr;
};

}  // namespace troupe
