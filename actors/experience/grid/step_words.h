#pragma once
// Texts about episodes for the user, besides kStepWords (runtime/stats/experience_words.h). Pure; any thread.

#include <cstdint>
#include <string>

namespace troupe {

// What the failed ones of `ended` episodes mean for a score, on one line.
std::string failed_episodes_text(uint64_t failed, uint64_t ended, const std::string& last_error);

}  // namespace troupe
