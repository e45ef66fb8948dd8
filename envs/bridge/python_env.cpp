#include "envs/bridge/python_env.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

// A seed that every environment accepts: some allow no more than 31 bits.
int64_t seed_of(uint64_t key) { return static_cast<int64_t>(key & 0x7fffffff); }

// What is wrong with the discrete actions of a row, [K, A]; empty if nothing is. `mask` is [M], or none.
std::string wrong_choice(const ActionSpec& spec, const int32_t* actions, const uint8_t* mask) {
  const auto dims = static_cast<size_t>(spec.dims()), count = static_cast<size_t>(spec.decisions());
  for (size_t d = 0; d < count; ++d) {
    const int32_t choice = actions[d], bins = spec.bins[d % dims];
    const bool in_range = choice >= 0 && choice < bins;
    if (!in_range || (mask != nullptr && mask[choice] == 0))
      return "choice " + std::to_string(choice) + " of action component " + std::to_string(d % dims) +
             (in_range ? " is masked" : " is out of range, expected 0 to " + std::to_string(bins - 1));
    if (mask != nullptr) mask += bins;
  }
  return "";
}

// Copies row `from_row` of the arrays `from` to row `to_row` of the arrays `to`.
void copy(std::span<const ObservationField> from, int64_t from_row, std::span<const ObservationField> to,
          int64_t to_row) {
  for (size_t k = 0; k < to.size(); ++k)
    std::memcpy(to[k].row(to_row), from[k].row(from_row), to[k].elements * size_of(to[k].dtype));
}

}  // namespace

PythonEnv::PythonEnv(PythonTarget target, PythonSpec spec, int64_t rows, int64_t processes)
    : target_(std::move(target)),
      spec_(std::move(spec.spec)),
      spaces_(std::move(spec.text)),
      shared_(spec.shared),
      agents_(spec.agents),
      buffers_(spec_, rows),
      rows_(static_cast<size_t>(rows)) {
  TROUPE_CHECK(rows >= 1 && processes >= 1, spec_.id, rows, processes);
  const int64_t worlds = std::max<int64_t>(1, rows / agents_);
  const int64_t count = std::min(worlds, processes);
  for (int64_t p = 0; p < count; ++p) {
    groups_.emplace_back();
    groups_.back().begin = worlds * p / count * agents_;
    groups_.back().end = worlds * (p + 1) / count * agents_;
  }
}

PythonEnv::~PythonEnv() {
  for (Group& group : groups_)
    if (group.server) group.server->begin_close();  // all at once; the destructors wait
}

const PythonEnv::Group& PythonEnv::group_of(int64_t i) const {
  return *std::ranges::find_if(groups_, [i](const Group& group) { return i < group.end; });
}

void PythonEnv::reset(uint64_t seed, uint64_t first_row, EnvStep& out) {
  TROUPE_CHECK(rows() % agents_ == 0, spec_.id, "rows:", rows(), "agents:", agents_);
  buffers_.bind(spec_, out);
  failed_.clear();
  for (int64_t i = 0; i < rows(); ++i) {
    Row& each = row(i);
    each.key = derive_key(seed, "env", first_row + static_cast<uint64_t>(i));
    each.phase = Phase::stopped;
    each.seeded = each.unplayed = false;
    each.rebuilds = 0;
    each.error.clear();
    each.command = each.start_command();
  }
  run_round();
  publish(out);
}

void PythonEnv::step(const Array& actions, EnvStep& out) {
  TROUPE_CHECK(actions.shape() == spec_.action.shape().prepended(rows()), spec_.id, "actions have shape",
               actions.shape().text(), "expected", spec_.action.shape().prepended(rows()).text());
  TROUPE_CHECK(actions.dtype() == spec_.action.dtype(), spec_.id, name_of(actions.dtype()));
  buffers_.bind(spec_, out);
  failed_.clear();
  for (const Group& group : groups_)
    for (int64_t i = group.begin; i < group.end; ++i) plan_step(i, actions.data(), group);
  run_round();
  restart_failed();
  publish(out);
}

// Sets the command of row i for this step, and hands its action over if it has one.
void PythonEnv::plan_step(int64_t i, const std::byte* actions, const Group& group) {
  Row& each = row(i);
  each.command = RowCommand::skip;
  if (each.phase == Phase::inactive) {
    buffers_.failed[i] = static_cast<uint8_t>(Failed::idle);
    return buffers_.blank(i);
  }
  if (each.phase == Phase::begun) {
    buffers_.failed[i] = static_cast<uint8_t>(Failed::idle);
    each.phase = Phase::running;
    each.unplayed = false;
    return take_observation(i, group);
  }
  each.unplayed = false;
  if (each.phase == Phase::stopped) {
    buffers_.failed[i] = static_cast<uint8_t>(Failed::idle);
    each.command = each.start_command();
    return;
  }
  const int64_t count = spec_.action.decisions(), dims = spec_.action.dims();
  const size_t bytes = static_cast<size_t>(count) * sizeof(int32_t);
  static_assert(sizeof(int32_t) == sizeof(float));
  const std::byte* given = actions + static_cast<size_t>(i) * bytes;
  std::byte* place = group.block->actions + static_cast<size_t>(i - group.begin) * bytes;
  std::memcpy(place, given, bytes);
  if (spec_.action.kind != ActionKind::continuous) {
    const uint8_t* mask = group.block->mask;
    if (mask != nullptr) mask += (i - group.begin) * buffers_.mask_size;
    const std::string wrong = wrong_choice(spec_.action, reinterpret_cast<const int32_t*>(place), mask);
    if (!wrong.empty()) return fail(i, wrong, /*rebuild=*/false);
  } else {
    auto* numbers = reinterpret_cast<float*>(place);
    for (int64_t k = 0; k < count; ++k) {
      const auto a = static_cast<size_t>(k % dims);
      if (!std::isfinite(numbers[k]))
        return fail(i, "action " + std::to_string(a) + " is " + std::to_string(numbers[k]), /*rebuild=*/false);
      numbers[k] = std::clamp(numbers[k], spec_.action.low[a], spec_.action.high[a]);
    }
  }
  each.command = RowCommand::step;
}

// Lets the processes execute the commands of their rows, all at the same time, and takes over the results.
void PythonEnv::run_round() {
  for (Group& group : groups_)
    group.asked = std::any_of(rows_.begin() + group.begin, rows_.begin() + group.end,
                              [](const Row& each) { return each.command != RowCommand::skip; });
  start_servers();
  for (Group& group : groups_) {
    if (!group.asked) continue;
    const bool all = write_commands(group);
    try {
      group.server->request_step(all);
    } catch (const ServerGone& error) {
      lose(group, error.what());
    }
  }
  const Deadline usual(target_.timeout), first(std::max(target_.timeout, target_.start_timeout));
  for (Group& group : groups_) {
    if (!group.asked) continue;
    try {
      collect(group, group.server->await_step(group.server->starting() ? first : usual));
    } catch (const ServerGone& error) {
      lose(group, error.what());
    }
  }
}

// Starts the processes that this round needs and that do not run, all at the same time.
void PythonEnv::start_servers() {
  std::vector<Group*> starting;
  const auto guarded = [this](Group& group, auto body) {
    try {
      body();
    } catch (const std::exception& error) {  // ConfigError, IoError or ServerGone
      lose(group, error.what());
    }
  };
  for (Group& group : groups_) {
    if (!group.asked || group.server) continue;
    guarded(group, [&] {
      if (!group.block) group.block = std::make_unique<StepBlock>(spec_, group.end - group.begin);
      group.server = std::make_unique<ServerProcess>(target_, group.end - group.begin, Probe::no);
      starting.push_back(&group);
    });
  }
  for (Group* group : starting)
    guarded(*group, [&] {
      const std::string spaces = spaces_text(target_, group->server->spaces());
      if (spaces != spaces_) throw ServerGone("the spaces of the environment are not those that it had at the start");
      group->server->attach(*group->block);
    });
}

// Returns whether all rows execute a step.
bool PythonEnv::write_commands(Group& group) {
  StepBlock& block = *group.block;
  bool all = true;
  block.clear_results();
  for (int64_t i = group.begin; i < group.end; ++i) {
    Row& each = row(i);
    uint8_t& command = block.commands[i - group.begin];
    if (command != static_cast<uint8_t>(each.command)) command = static_cast<uint8_t>(each.command);
    if (each.command == RowCommand::step) continue;
    all = false;
    // An environment that is made anew continues with other random numbers: with the same ones it would fail again.
    const uint64_t key = each.rebuilds == 0 ? each.key : derive_key(each.key, "rebuild", each.rebuilds);
    block.seeds[i - group.begin] = seed_of(key);
  }
  return all;
}

void PythonEnv::collect(Group& group, std::vector<ServerRowError> errors) {
  for (const ServerRowError& error : errors) {
    const int64_t i = group.begin + error.row;
    if (error.row < 0 || i >= group.end || row(i).command == RowCommand::skip) continue;
    if (tracebacks_.take(1, TokenBucket::Clock::now()))
      for (const std::string& line : error.traceback) log_info(spec_.id, line);
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

// Row i could not execute its command. `rebuild`: its environment may be damaged.
void PythonEnv::fail(int64_t i, const std::string& text, bool rebuild) {
  Row& each = row(i);
  each.rebuild = each.rebuild || rebuild;
  each.rebuilds += rebuild;
  if (buffers_.failed[i] != static_cast<uint8_t>(Failed::now)) {  // else this step has reported it
    buffers_.clear(i);
    buffers_.failed[i] = static_cast<uint8_t>(Failed::now);
    each.error = text;
    if (each.phase == Phase::running) failed_.push_back(i);
  }
  each.phase = Phase::stopped;
  each.unplayed = false;
  each.next_error.clear();
  buffers_.blank(i);
}

// The process of a group is gone: all its rows fail, and start again with a new process.
void PythonEnv::lose(Group& group, const std::string& text) {
  group.server.reset();
  group.asked = false;
  for (int64_t i = group.begin; i < group.end; ++i) {
    Row& each = row(i);
    each.command = RowCommand::skip;
    if (each.phase == Phase::inactive) {
      each.rebuild = true;
      each.unplayed = false;
    } else {
      fail(i, text, /*rebuild=*/true);
    }
  }
  // The next step starts the process, so that this one does not wait for the timeout again.
  std::erase_if(failed_, [&](int64_t i) { return i >= group.begin && i < group.end; });
}

// Begins new episodes in the rows that have failed. A row that fails again is tried at the next step.
void PythonEnv::restart_failed() {
  if (failed_.empty() || shared_) return;  // rows that share an environment start in the next step
  for (Row& each : rows_) each.command = RowCommand::skip;
  for (const int64_t i : failed_) row(i).command = row(i).start_command();
  run_round();
  for (const int64_t i : failed_) row(i).unplayed = row(i).phase == Phase::running;
}

void PythonEnv::publish(EnvStep& out) {
  for (int64_t i = 0; i < rows(); ++i) {
    if (row(i).error.empty()) continue;
    out.errors.push_back(row_error(i, row(i).error));
    row(i).error.clear();
  }
}

void PythonEnv::observe(EnvStep& out) {
  buffers_.bind(spec_, out);
  for (const Group& group : groups_)
    for (int64_t i = group.begin; i < group.end; ++i) {
      if (row(i).phase == Phase::running) {
        take_observation(i, group);
        continue;
      }
      buffers_.failed[i] = static_cast<uint8_t>(Failed::idle);
      buffers_.blank(i);
    }
}

void PythonEnv::set_active(int64_t i, bool active) {
  TROUPE_CHECK(i >= 0 && i < rows(), spec_.id, "row", i, "of", rows());
  if (!active)
    row(i).phase = Phase::inactive;
  else if (row(i).phase == Phase::inactive)
    row(i).phase = row(i).unplayed ? Phase::begun : Phase::stopped;
}

std::string PythonEnv::render(int64_t i) const {
  TROUPE_CHECK(i >= 0 && i < rows(), spec_.id, "row", i, "of", rows());
  const Group& group = group_of(i);
  std::string picture;
  try {
    if (group.server) picture = group.server->render(i - group.begin);
  } catch (const ServerGone&) {  // the next step finds and reports it
  }
  if (picture.empty()) return spec_.id + ", step " + std::to_string(rows_[static_cast<size_t>(i)].elapsed) + '\n';
  return picture.ends_with('\n') ? picture : picture + '\n';
}

bool PythonEnv::save(std::string&) const { return false; }

bool PythonEnv::load(const std::string&) { return false; }

std::vector<pid_t> PythonEnv::process_ids() const {
  std::vector<pid_t> ids;
  for (const Group& group : groups_)
    if (group.server) ids.push_back(group.server->id());
  return ids;
}

}  // namespace troupe
