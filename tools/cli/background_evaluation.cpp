#include "tools/cli/background_evaluation.h"

#include <condition_variable>
#include <exception>

#include "actors/experience/kinds.h"
#include "runtime/base/mutex.h"
#include "tools/cli/launch.h"

namespace troupe {

struct BackgroundEvaluation::State {
  bool wait(std::chrono::milliseconds time) {
    const MutexLock lock(mutex);
    return changed.wait_for(mutex, time, [this]() TROUPE_REQUIRES(mutex) { return over; });
  }
  bool goes_on() {
    const MutexLock lock(mutex);
    return !told_to_end;
  }
  // Keeps the result of the episodes so far.
  void note(const EpisodeSummary& result, const std::string& more_answers, uint64_t of) {
    const MutexLock lock(mutex);
    planned = of;
    so_far = result;
    answers += more_answers;
  }
  void end(const std::exception_ptr& with) {
    const MutexLock lock(mutex);
    error = with;
    over = true;
    changed.notify_all();
  }

  Mutex mutex;
  std::condition_variable_any changed;
  EpisodeSummary so_far TROUPE_GUARDED_BY(mutex);
  std::string answers TROUPE_GUARDED_BY(mutex);
  std::exception_ptr error TROUPE_GUARDED_BY(mutex);
  uint64_t planned TROUPE_GUARDED_BY(mutex) = 0;
  bool told_to_end TROUPE_GUARDED_BY(mutex) = false, over TROUPE_GUARDED_BY(mutex) = false;
};

BackgroundEvaluation::BackgroundEvaluation(const RunContextPtr& context, const WeightsPtr& weights,
                                           const EvaluationPlan& plan)
    : state_(std::make_shared<State>()) {
  // The thread may outlive this object, so it shares what it uses.
  thread_ = std::thread([state = state_, context, weights, plan] {
    std::exception_ptr error;
    try {
      context->use_threads(static_cast<int>(context->config.inference.threads));
      const std::unique_ptr<EvaluationPlayer> player = kind_of(*context).make_evaluation(context, context, nullptr);
      player->begin(*weights, plan);
      while (state->goes_on() && !player->complete()) {
        player->step();
        // After each step, because the next one may never return.
        state->note(player->summary(), player->take_answers(), player->planned());
      }
    } catch (...) {
      error = std::current_exception();
    }
    state->end(error);
  });
}

BackgroundEvaluation::~BackgroundEvaluation() {
  {
    const MutexLock lock(state_->mutex);
    state_->told_to_end = true;
  }
  if (state_->wait(kFarewell)) {
    thread_.join();
  } else {
    thread_.detach();
    leave_threads_behind();
  }
}

bool BackgroundEvaluation::wait(std::chrono::milliseconds time) const {
  if (!state_->wait(time)) return false;
  const MutexLock lock(state_->mutex);
  if (state_->error) std::rethrow_exception(state_->error);
  return true;
}

std::string BackgroundEvaluation::answers() const {
  const MutexLock lock(state_->mutex);
  return state_->answers;
}

uint64_t BackgroundEvaluation::planned() const {
  const MutexLock lock(state_->mutex);
  return state_->planned;
}

EpisodeSummary BackgroundEvaluation::so_far() const {
  const MutexLock lock(state_->mutex);
  return state_->so_far;
}

}  // namespace troupe
