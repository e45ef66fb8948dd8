#pragma once
// What a worker writes to the log, each kind of line at most once in a while. Used by the worker alone.

#include <chrono>
#include <string>

#include "actors/worker.h"
#include "runtime/caf/system.h"

namespace troupe {

using WorkerSelf = SelfPointer<WorkerActor, WorkerState>;

constexpr std::chrono::seconds kBeat{1};  // of a worker
constexpr std::chrono::seconds kBetweenFailureLines{60};

std::string worker_name(uint64_t worker);
// A name by which a user can find the process of an inference actor or a scorer.
std::string name_of_inference(WorkerSelf self, const InferenceService& service);

// Logs at most once in kBetweenFailureLines, because the worker asks again soon. `next_line` is when the next line of
// this kind is due.
void log_asked_again(WorkerSelf self, const std::string& name, const std::string& why,
                     std::chrono::steady_clock::time_point& next_line);
void log_failed_scores(WorkerSelf self, const std::string& name, const ScoreReply& reply);
// Logs how many failures of environments there were and the last one, at most once in kBetweenFailureLines; the first
// one is logged at once.
void log_failures(WorkerSelf self, const std::string& name);
void log_first_failure(WorkerSelf self, const std::string& name);
// Logs once when requests stay without an answer, at most once in kBetweenFailureLines, and once when answers come
// again.
void log_silence(WorkerSelf self, const std::string& name);

}  // namespace troupe
