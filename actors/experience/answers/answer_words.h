#pragma once
// The words for answers, in texts for the user. Pure; any thread.

#include <cstdint>
#include <string>

#include "runtime/stats/experience_words.h"

namespace troupe {

inline constexpr ExperienceWords kAnswerWords{.step = "answer",
                                              .steps = "answers",
                                              .sample = "answer",
                                              .episode = "prompt",
                                              .ended = "answer",
                                              .episode_return = "reward",
                                              .success = "right",
                                              .evaluation_success = "pass@1",
                                              .failed = "without a score",
                                              .failed_row = "no score",
                                              .that_failed = "that got no score",
                                              .failing = "workers",
                                              .failures = "worker failures",
                                              .failed_run = "answers fail",
                                              .nothing_sampled = "no worker has made answers",
                                              .starting = "starting workers",
                                              .work = "scoring answers",
                                              .in_work = "scores",
                                              .trains_faster = "more processors",
                                              .few = "few prompts",
                                              .more = "more groups or workers",
                                              .tokens = true,
                                              .success_key = "pass_at_1"};

// Of an evaluation in which `unscored` of the answers that have ended got no score.
std::string unscored_answers_text(uint64_t unscored, uint64_t ended, const std::string& last_error);

}  // namespace troupe
