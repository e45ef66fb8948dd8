#pragma once
// Groups whose ranks are threads of the test.

#include <chrono>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/weights/process_group_conformance.h"
#include "tests/support/test.h"

namespace troupe::test {

inline constexpr auto kPatience = std::chrono::seconds(20);     // operations that must succeed never take this long
inline constexpr auto kShort = std::chrono::milliseconds(100);  // for operations that must time out

// The error with which a rank ended, if any.
struct Outcome {
  std::optional<TransferError> error;
  std::string unexpected;
};

inline Outcome outcome_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const TransferError& error) {
    return {error, {}};
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
  return {};
}

using Action = std::function<void(ProcessGroup&)>;

// Runs one action per rank of a group, each in a separate thread, and returns how each ended.
inline std::vector<Outcome> run_ranks(GroupBackend& backend, uint64_t generation, const std::vector<Action>& actions,
                                      std::chrono::milliseconds join_timeout = kPatience) {
  std::vector<Outcome> outcomes(actions.size());
  const int size = static_cast<int>(actions.size());
  Rendezvous rendezvous = backend.host();
  rendezvous.generation = generation;
  rendezvous.size = size;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    if (!actions[rank]) continue;  // this rank never joins
    rendezvous.rank = rank;
    threads.emplace_back([&, rendezvous, rank] {
      outcomes[rank] = outcome_of([&] { actions[rank](*backend.join(rendezvous, join_timeout)); });
    });
  }
  threads.clear();
  return outcomes;
}

// The same actions, but no rank leaves the group before all actions have ended. Another rank, whose last message to it
// is not acknowledged yet, could otherwise see a lost peer.
inline std::vector<Action> leaving_together(std::vector<Action> actions) {
  const auto all_ended = std::make_shared<std::latch>(static_cast<std::ptrdiff_t>(actions.size()));
  for (Action& action : actions) {
    action = [action, all_ended](ProcessGroup& group) {
      const std::shared_ptr<void> at_end(nullptr, [&](void*) { all_ended->arrive_and_wait(); });
      action(group);
    };
  }
  return actions;
}

inline void require_clean(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    REQUIRE(outcome.unexpected == "");
    REQUIRE(std::string(outcome.error ? outcome.error->what() : "") == "");
  }
}

inline std::vector<uint8_t> pattern(size_t bytes) {
  std::vector<uint8_t> result(bytes);
  for (size_t i = 0; i < bytes; ++i) result[i] = static_cast<uint8_t>(i * 31 + (i >> 13));
  return result;
}

template <class Test>
void for_each_backend(Test test) {
  for (const auto& backend : backends_under_test()) {
    CAPTURE(backend->name());
    test(*backend);
  }
}

}  // namespace troupe::test
