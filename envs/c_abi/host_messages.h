#pragma once
// What a HostedEnv and the process that runs its library say to each other: messages on a socket, and a step of all
// rows in shared memory. One thread at a time.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "envs/env.h"

namespace troupe {

// The descriptors of the process.
inline constexpr int kHostSocket = 3, kHostMemory = 4;
// The word after `troupe` that starts the process.
inline constexpr std::string_view kHostWord = "library-host";

enum class HostRequest : uint32_t {
  open = 1,    // text: the LibraryTarget and the rows as JSON. Answered with the spec as JSON
  attach = 2,  // a: size of the shared memory
  reset = 3,   // a: seed, b: first row. Answered with the errors of the rows, as all that follow
  // The actions are in the shared memory. a: 1 after Env::play_singly, b: its seed; text: row and number of each
  // episode that begins, 8 bytes each
  step = 4,
  observe = 5,
  set_active = 6,  // a: row, b: 1 or 0
  render = 7,      // a: row. Answered with the text
  save = 8,        // answered with the bytes, a: whether the environment can be saved
  load = 9,        // text: the bytes; answered with a as save
};
enum class HostAnswer : uint32_t {
  done = 1,
  refused = 2,
  failed = 3
};  // refused: ConfigError; failed: any other error

// Followed by `size` bytes of text.
struct HostMessage {
  uint32_t kind = 0;  // a HostRequest or HostAnswer
  uint32_t unused = 0;
  uint64_t a = 0, b = 0;
  uint64_t size = 0;
};
inline constexpr uint64_t kLongestHostText = uint64_t{4} << 30;

// Writes it. False if the other end is closed.
bool send_message(int socket, HostMessage message, std::string_view text);

std::string spec_text(const EnvSpec& spec);
// Throws nlohmann::json::exception.
EnvSpec spec_of_text(const std::string& id, const std::string& text);

// The memory that both processes map: LibraryNotes at its beginning, and from kStepOffset on the arrays of a step.
inline constexpr size_t kStepOffset = 4096;
struct SharedStep {
  // Arrays over `memory`, of which the part from kStepOffset on has step_bytes().
  SharedStep(const EnvSpec& spec, int64_t rows, const std::shared_ptr<std::byte[]>& memory);
  static size_t step_bytes(const EnvSpec& spec, int64_t rows);

  EnvStep step;
  Array actions;  // [N, K, A]
};

// Maps `size` bytes of a file for reading and writing; null if the system refuses.
std::shared_ptr<std::byte[]> map_shared(int file, size_t size);

}  // namespace troupe
