#include "tools/bench/gymnasium_loop.h"

#include <sys/socket.h>
#include <unistd.h>

#include <span>
#include <stdexcept>
#include <vector>

#include "envs/env_config.h"

namespace troupe {

namespace {

// For each double that it reads, it runs for that many seconds, and answers with its steps per second, and per second
// of its own time on the processor.
constexpr const char* kLoop = R"(
import json, socket, struct, sys, time
import gymnasium
try:
    import mujoco
    mujoco.set_mju_user_warning(lambda text: None)  # else it writes MUJOCO_LOG.TXT into the working folder
except (ImportError, AttributeError):
    pass
connection, rows = socket.socket(fileno=3), int(sys.argv[1])
envs = [gymnasium.make(sys.argv[2], **json.loads(sys.argv[3])) for _ in range(rows)]
for i, env in enumerate(envs):
    env.reset(seed=i)
space = envs[0].action_space
if isinstance(space, gymnasium.spaces.Discrete):
    table = [[(t * 2654435761 + i * 40503 >> 7) & 1 for i in range(rows)] for t in range(512)]
else:
    space.seed(1)
    table = [[space.sample() for _ in range(rows)] for _ in range(512)]
while request := connection.recv(8):
    seconds, steps, start, cpu = struct.unpack("<d", request)[0], 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        for actions in table[:16]:
            for env, action in zip(envs, actions):
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()
        steps += 16 * rows
        table = table[16:] + table[:16]
    connection.sendall(struct.pack("<2d", steps / (time.perf_counter() - start), steps / (time.process_time() - cpu)))
)";

}  // namespace

GymnasiumLoop::GymnasiumLoop(const std::string& id, const std::string& arguments, int64_t rows) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("socketpair failed");
  socket_ = Descriptor(ends[0]);
  const Descriptor other(ends[1]);
  process_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{EnvConfig().python, "-c", kLoop, std::to_string(rows), id, arguments},
      std::span(&ends[1], 1));
}

LoopSpeed GymnasiumLoop::run(double seconds) {
  LoopSpeed speed;
  if (send(socket_.number(), &seconds, sizeof seconds, MSG_NOSIGNAL) != sizeof seconds ||
      recv(socket_.number(), &speed, sizeof speed, MSG_WAITALL) != sizeof speed) {
    process_->kill();
    throw std::runtime_error("the loop in Python " + process_->state() + ": " + process_->last_line());
  }
  return speed;
}

}  // namespace troupe
