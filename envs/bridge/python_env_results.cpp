// PythonEnv: takes over the results of a step from the memory that it shares with its processes.
#include <cmath>
#include <cstring>
#include <utility>

#include "envs/bridge/python_env.h"
#include "runtime/base/log.h"

namespace troupe {

namespace {

// Copies row `from_row` of the arrays `from` to row `to_row` of the arrays `to`.
void copy(std::span<const ObservationField> from, int64_t from_row, std::span<const ObservationField> to,
          int64_t to_row) {
  for (size_t k = 0; k < to.size(); ++k)
    std::memcpy(to[k].row(to_row), from[k].row(from_row), to[k].elements * size_of(to[k].dtype));
}

}  // namespace

void PythonEnv::collect(Group& group, std::vector<ServerRowError> errors) {
  for (const ServerRowError& error : errors) {
    const int64_t i = group.begin + error.row;
    if (error.row < 0 || i >= group.end || row(i).command == RowCommand::skip) continue;
    if (tracebacks_.take(1, TokenBucket::Clock::now())) log_block(LogLevel::info, spec_.id, error.traceback);
    if (error.after_end && row(i).command == RowCommand::step) {
      row(i).next_error = error.text;
      continue;
    }
    fail(i, error.text, /*rebuild=*/true);
    row(i).command = RowCommand::skip;
  }
  for (int64_t i = group.begin; i < group.end; ++i)
    if (row(i).command != RowCommand::skip) collect_row(i, group);
}

// The results of row i, whose command was executed.
void PythonEnv::collect_row(int64_t i, const Group& group) {
  Row& each = row(i);
  try {
    if (group.block->executed[i - group.begin] == 0) {  // its next episode has just begun, or it waits for other rows
      buffers_.failed[i] = static_cast<uint8_t>(Failed::idle);
      each.command == RowCommand::step ? take_observation(i, group) : buffers_.blank(i);
    } else if (each.command == RowCommand::step) {
      take_result(i, group);
    } else {
      each.seeded = true;
      each.rebuild = false;
      each.elapsed = 0;
      take_observation(i, group);
      each.phase = Phase::running;
    }
  } catch (const std::exception& error) {
    fail(i, error.what(), /*rebuild=*/false);
  }
}

// Throws std::runtime_error for an observation that is not finite and for a mask without choices.
void PythonEnv::take_observation(int64_t i, const Group& group) {
  copy(group.block->observations, i - group.begin, buffers_.observations, i);
  StepBuffers::require_finite(spec_, buffers_.observations, i);
  if (buffers_.mask == nullptr) return;
  const int64_t size = buffers_.mask_size;
  std::memcpy(buffers_.mask + i * size, group.block->mask + (i - group.begin) * size, static_cast<size_t>(size));
  buffers_.require_choices(spec_, i);
}

void PythonEnv::take_result(int64_t i, const Group& group) {
  const StepBlock& block = *group.block;
  const int64_t at = i - group.begin;
  if (!std::isfinite(block.rewards[at])) throw std::runtime_error("the reward is " + std::to_string(block.rewards[at]));
  Row& each = row(i);
  const bool over = block.terminated[at] != 0 || block.truncated[at] != 0;
  if (over) {
    copy(block.finals, at, buffers_.final_observations, i);
    StepBuffers::require_finite(spec_, buffers_.final_observations, i);
    take_next(i, group);
  } else {
    take_observation(i, group);
  }
  each.elapsed = over ? 0 : each.elapsed + block.executed[at];
  buffers_.rewards[i] = block.rewards[at];
  buffers_.executed[i] = block.executed[at];
  buffers_.terminated[i] = block.terminated[at] != 0;
  buffers_.truncated[i] = block.terminated[at] == 0 && block.truncated[at] != 0;
  buffers_.success[i] = block.success[at] != 0;
}

// The episode after the one that row i has ended. If it could not begin, the step that was made stays valid, and the
// next step tries again.
void PythonEnv::take_next(int64_t i, const Group& group) {
  Row& each = row(i);
  if (singly_) {
    each.phase = Phase::inactive;
    return buffers_.blank(i);
  }
  if (each.next_error.empty()) {
    try {
      return take_observation(i, group);
    } catch (const std::exception& error) {
      each.error = error.what();
    }
  } else {
    each.error = std::exchange(each.next_error, {});
    each.rebuild = true;
    ++each.rebuilds;
  }
  each.phase = Phase::stopped;
  buffers_.blank(i);
}

}  // namespace troupe
