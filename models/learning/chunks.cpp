#include "models/learning/chunks.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

void check_rollout(const Rollout& rollout, const Recurrence& recurrence) {
  const Grid& grid = rollout.grid();
  const int64_t steps = grid.steps(), columns = grid.columns();
  const std::string of = "rollout " + std::to_string(rollout.sequence) + " of worker " + std::to_string(rollout.worker);
  if (steps % recurrence.sequence != 0)
    throw InvariantError(of + ": " + std::to_string(steps) + " steps, expected a multiple of the sequence length " +
                         std::to_string(recurrence.sequence));
  const Shape states = {steps / recurrence.sequence, columns, recurrence.state_size};
  if (grid.chunk_states.dtype() != DType::f32 || !(grid.chunk_states.shape() == states))
    throw InvariantError(of + ": chunk_states is " + std::string(name_of(grid.chunk_states.dtype())) + ' ' +
                         grid.chunk_states.shape().text() + ", expected float32 " + states.text());
  const Shape starts = {steps, columns};
  if (grid.starts.dtype() != DType::u8 || !(grid.starts.shape() == starts))
    throw InvariantError(of + ": starts is " + std::string(name_of(grid.starts.dtype())) + ' ' +
                         grid.starts.shape().text() + ", expected uint8 " + starts.text());
}

// Appends the chunks of one rollout: the first L steps of all its columns, then the next L steps, and so on.
void add_rollout(const RolloutUnits& part, const StagedRollout& staged, int64_t length, Chunks& out) {
  const Grid& grid = part.rollout->grid();
  uint8_t* starts = out.starts.mutable_view<uint8_t>().data() + staged.first_sample;
  const auto all_starts = grid.starts.view<uint8_t>();
  for (int64_t t = 0; t < staged.steps; ++t)
    for (const int32_t column : part.indices) *starts++ = all_starts[t * grid.columns() + column];
  const size_t bytes = static_cast<size_t>(out.states.row_bytes());
  for (int64_t k = 0; k < staged.steps / length; ++k) {
    for (int64_t c = 0; c < staged.columns; ++c) {
      const int64_t state = k * grid.columns() + part.indices[static_cast<size_t>(c)];
      std::memcpy(out.states.mutable_data() + out.first_samples.size() * bytes,
                  grid.chunk_states.data() + static_cast<size_t>(state) * bytes, bytes);
      out.first_samples.push_back(staged.first_sample + k * length * staged.columns + c);
      out.strides.push_back(staged.columns);
    }
  }
}

}  // namespace

std::vector<int64_t> samples_of(const Chunks& chunks, std::span<const int64_t> which, int64_t begin, int64_t end) {
  std::vector<int64_t> result;
  result.reserve(which.size() * static_cast<size_t>(end - begin));
  for (int64_t step = begin; step < end; ++step)
    for (const int64_t chunk : which) result.push_back(chunks.sample(chunk, step));
  return result;
}

TrainedSamples trained_samples(const Chunks& chunks, std::span<const int64_t> which,
                               std::span<const uint8_t> is_trained) {
  TrainedSamples result;
  int64_t position = 0;
  for (int64_t step = chunks.burn_in; step < chunks.steps; ++step) {
    for (const int64_t chunk : which) {
      const int64_t sample = chunks.sample(chunk, step);
      if (is_trained[static_cast<size_t>(sample)]) {
        result.samples.push_back(sample);
        result.positions.push_back(position);
      }
      ++position;
    }
  }
  return result;
}

int64_t count_trained(const Chunks& chunks, std::span<const uint8_t> is_trained) {
  int64_t result = std::ranges::count(is_trained, 1);
  for (int64_t chunk = 0; chunk < chunks.count(); ++chunk)
    for (int64_t step = 0; step < chunks.burn_in; ++step)
      result -= is_trained[static_cast<size_t>(chunks.sample(chunk, step))];
  return result;
}

std::vector<int64_t> trained_chunks(const Chunks& chunks, std::span<const uint8_t> is_trained) {
  std::vector<int64_t> result;
  for (int64_t chunk = 0; chunk < chunks.count(); ++chunk)
    if (!trained_samples(chunks, {&chunk, 1}, is_trained).samples.empty()) result.push_back(chunk);
  return result;
}

std::vector<ChunkStep> chunk_steps(const Chunks& chunks, int64_t samples) {
  std::vector<ChunkStep> result(static_cast<size_t>(samples));
  for (int64_t chunk = 0; chunk < chunks.count(); ++chunk)
    for (int64_t step = 0; step < chunks.steps; ++step)
      result[static_cast<size_t>(chunks.sample(chunk, step))] = {chunk, step};
  return result;
}

Chunks stage_chunks(const SuperBatch& batch, const StagedSamples& staged, const Recurrence& recurrence) {
  Chunks result;
  if (recurrence.state_size == 0) return result;
  TROUPE_CHECK(staged.rollouts.size() == batch.parts.size(), staged.rollouts.size(), batch.parts.size());
  result.steps = recurrence.sequence;
  result.burn_in = recurrence.burn_in;
  result.starts = Array::uninitialized(DType::u8, {staged.count});
  result.states = Array::uninitialized(DType::f32, {staged.count / recurrence.sequence, recurrence.state_size});
  for (size_t i = 0; i < batch.parts.size(); ++i) {
    check_rollout(*batch.parts[i].rollout, recurrence);
    add_rollout(batch.parts[i], staged.rollouts[i], recurrence.sequence, result);
  }
  return result;
}

}  // namespace troupe
