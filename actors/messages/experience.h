#pragma once
// Experience plane: what workers send to replay and stats, and the credits that they get. These messages cross the
// network.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/experience/rollout.h"
#include "runtime/caf/inspect.h"
#include "runtime/caf/inspect_histogram.h"
#include "runtime/caf/inspect_kinds.h"
#include "runtime/stats/verifier_figures.h"

namespace troupe {

// What an environment or a task is like: names and values as text.
using SpecFields = std::vector<std::pair<std::string, std::string>>;

struct WorkerHello {
  uint64_t worker = 0;
  uint32_t groups = 0;
  uint64_t samples_per_rollout = 0;
  SpecFields spec = {};  // what its environments or its task are like; must be as in the run

  template <class I> friend typename I::result_type inspect(I& f, WorkerHello& x) {
    return f(caf::meta::type_name("WorkerHello"), x.worker, x.groups, x.samples_per_rollout, x.spec);
  }
};

struct Credits {
  uint32_t count = 0;

  template <class I> friend typename I::result_type inspect(I& f, Credits& x) {
    return f(caf::meta::type_name("Credits"), x.count);
  }
};

// These are for types of folders that do not include CAF.
template <class I> typename I::result_type inspect(I& f, ReturnPart& x) {
  return f(caf::meta::type_name("ReturnPart"), x.name, x.values);
}
template <class I> typename I::result_type inspect(I& f, Episodes& x) {
  return f(caf::meta::type_name("Episodes"), x.returns, x.lengths, x.success, x.parts);
}
template <class I> typename I::result_type inspect(I& f, Rollout& x) {
  return inspect_kinds(f, x.body, [&](uint8_t& kind) {
    return f(caf::meta::type_name("Rollout"), x.worker, x.group, x.sequence, x.epoch, x.oldest, x.newest, x.samples,
             x.unscored, x.verifier_failed, x.baselines, x.env_steps, x.episodes, kind);
  });
}
template <class I> typename I::result_type inspect(I& f, PartialRollout& x) {
  return f(caf::meta::type_name("PartialRollout"), x.group, x.samples, x.env_steps, x.episodes);
}
template <class I> typename I::result_type inspect(I& f, VerifierFigures& x) {
  return f(caf::meta::type_name("VerifierFigures"), x.calls, x.failed_calls, x.restarts, x.scored, x.busy_us, x.wait_us,
           x.replied, x.failed_replies);
}

struct RolloutMessage {
  RolloutPtr rollout;

  template <class I> friend typename I::result_type inspect(I& f, RolloutMessage& x) {
    if constexpr (I::writes_state) {
      auto rollout = std::make_shared<Rollout>();
      if (auto err = f(*rollout)) return err;
      x.rollout = std::move(rollout);
      return caf::error{};
    } else {
      return f(const_cast<Rollout&>(*x.rollout));
    }
  }
};

// What a worker knows of the prompts that it draws by their failures (task.sampling). All 0 in other runs.
struct PromptFigures {
  uint64_t asked = 0;        // different prompts, at least once
  uint64_t success = 0;      // sum of their rates of success, in units of 1 / 65536
  uint64_t solved = 0;       // all answers were right, the last time
  uint64_t never_right = 0;  // no answer was ever right

  template <class I> friend typename I::result_type inspect(I& f, PromptFigures& x) {
    return f(caf::meta::type_name("PromptFigures"), x.asked, x.success, x.solved, x.never_right);
  }
};

// The times of what a worker did since its report before.
struct WorkerTimes {
  HistogramCounts step_seconds, answer_seconds;  // as in RunHistograms

  template <class I> friend typename I::result_type inspect(I& f, WorkerTimes& x) {
    return f(caf::meta::type_name("WorkerTimes"), x.step_seconds, x.answer_seconds);
  }
};

// The report of a worker about itself, sent at intervals. Its counts are cumulative.
struct WorkerReport {
  uint64_t worker = 0;
  uint64_t env_steps = 0;
  std::vector<PartialRollout> partial;  // by group, the older of a group first
  bool last = false;                    // the worker ends with this report and makes no further step
  uint64_t requests = 0;
  uint64_t retries = 0;  // requests repeated after an error or without an answer
  uint64_t env_failures = 0;
  uint64_t quarantined = 0;  // rows in quarantine now
  uint64_t rss_bytes = 0;    // its part in the memory of its process; 0 in the trainer's process
  uint64_t busy_us = 0;      // time in handlers, and of its graders; cumulative
  uint64_t step_us = 0;      // of it, in steps of environments or in scoring answers
  // Time of a group, on average: waiting for a credit, and for the answer to a request.
  uint64_t credit_wait_us = 0;
  uint64_t action_wait_us = 0;
  std::string last_error;
  // Memory as `rss_bytes`, of the processes that its process has started (actors/worker_memory.h).
  uint64_t environment_bytes = 0;
  uint64_t verifier_bytes = 0;
  VerifierFigures verifier;  // of its graders; cumulative
  PromptFigures prompts;
  bool without_scorer = false;  // it waits for scores, and there is no scorer
  WorkerTimes times = {};       // only in reports to stats

  template <class I> friend typename I::result_type inspect(I& f, WorkerReport& x) {
    return f(caf::meta::type_name("WorkerReport"), x.worker, x.env_steps, x.partial, x.last, x.requests, x.retries,
             x.env_failures, x.quarantined, x.rss_bytes, x.busy_us, x.step_us, x.credit_wait_us, x.action_wait_us,
             x.last_error, x.environment_bytes, x.verifier_bytes, x.verifier, x.prompts, x.without_scorer, x.times);
  }
};

// Sent by a worker at intervals while the last step of each of its environments has failed, and by a worker that ends
// with an error. `error` is the last error.
struct EnvironmentsFailing {
  uint64_t worker = 0;
  std::string error;

  template <class I> friend typename I::result_type inspect(I& f, EnvironmentsFailing& x) {
    return f(caf::meta::type_name("EnvironmentsFailing"), x.worker, x.error);
  }
};

}  // namespace troupe
