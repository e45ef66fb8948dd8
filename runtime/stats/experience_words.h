#pragma once
// The words for what a run learns from, in texts for the user. Each kind of experience has its own, next to its code;
// the defaults are those of steps of environments. Plain values; any thread.

namespace troupe {

struct ExperienceWords {
  const char* step = "environment step";  // what env_steps counts
  const char* steps = "steps";            // the same in short
  const char* sample = "sample";
  const char* episode = "episode";  // what an evaluation plays
  const char* ended = "episode";    // what has a return when it is complete
  const char* episode_return = "return";
  const char* success = "success";
  const char* evaluation_success = "success";
  const char* failed = "failed";  // of an episode of an evaluation, in different places
  const char* failed_row = "failed";
  const char* that_failed = "that failed";
  const char* failing = "environments";  // "environments failed 3 times"
  const char* failures = "env failures";
  const char* failed_run = "environments fail";  // why a run ends
  const char* nothing_sampled = "no environment has made a step";
  const char* starting = "starting environments";
  const char* work = "environment steps";  // of workers
  const char* in_work = "steps";
  const char* trains_faster = "a faster device";
  const char* few = "few environments";  // ask for actions
  const char* more = "a larger env.rows, more groups or workers";
  const char* take_turns =  // where most batches wait for all groups
      "more groups, a batch_size of half of all rows, or a larger env.rows";
  // Samples are made of tokens, which are counted too.
  bool tokens = false;
  // An evaluation is told by its success rate alone, which summary.json has by this name too; null: it has a return.
  const char* success_key = nullptr;
};

inline constexpr ExperienceWords kStepWords{};

}  // namespace troupe
