#include "envs/bridge/python_env.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
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

// "row 5" or "rows 0 to 7", of the rows [first, end).
std::string rows_text(int64_t first, int64_t end) {
  const std::string last = std::to_string(end - 1);
  return end - first == 1 ? "row " + last : "rows " + std::to_string(first) + " to " + last;
}

}  // namespace

PythonEnv::PythonEnv(PythonTarget target, PythonSpec spec, int64_t rows, int64_t processes)
    : target_(std::move(target)),
      spec_(std::move(spec.spec)),
      spaces_(std::move(spec.text)),
      shared_(spec.shared),
      seeds_alone_(spec.seeds_alone),
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

PythonEnv::~PythonEnv() { PythonEnv::begin_close(); }

void PythonEnv::begin_close() {
  for (Group& group : groups_)
    if (group.server) group.server->begin_close();
}

const PythonEnv::Group& PythonEnv::group_of(int64_t i) const {
  return *std::ranges::find_if(groups_, [i](const Group& group) { return i < group.end; });
}

bool PythonEnv::play_singly(uint64_t seed) {
  if (!seeds_alone_) return false;
  singly_ = seed;
  for (Row& each : rows_) each.phase = Phase::inactive;
  return true;
}

void PythonEnv::begin_episode(int64_t i, uint64_t episode) {
  TROUPE_CHECK(singly_ && i >= 0 && i < rows(), spec_.id, "row", i, "of", rows());
  row(i).begin(derive_key(*singly_, "env", episode));
}

void PythonEnv::reset(uint64_t seed, uint64_t first_row, EnvStep& out) {
  std::vector<uint64_t> numbers(rows_.size());
  std::iota(numbers.begin(), numbers.end(), first_row);
  reset_as(seed, numbers, out);
}

bool PythonEnv::reset_as(uint64_t seed, std::span<const uint64_t> numbers, EnvStep& out) {
  TROUPE_CHECK(!singly_ && numbers.size() == rows_.size(), spec_.id, numbers.size(), rows());
  TROUPE_CHECK(rows() % agents_ == 0, spec_.id, "rows:", rows(), "agents:", agents_);
  buffers_.bind(spec_, out);
  failed_.clear();
  for (int64_t i = 0; i < rows(); ++i) {
    Row& each = row(i);
    each.begin(derive_key(seed, "env", numbers[static_cast<size_t>(i)]));
    each.error.clear();
    each.command = each.start_command();
  }
  run_round();
  publish(out);
  return true;
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
      lose(group, error);
    }
  }
  const Deadline usual(target_.timeout), first(target_.start_timeout);
  for (Group& group : groups_) {
    if (!group.asked) continue;
    try {
      collect(group, group.server->await_step(group.server->starting() ? first : usual));
    } catch (const ServerGone& error) {
      lose(group, error);
    }
  }
}

void PythonEnv::Group::start(const PythonTarget& target, const EnvSpec& spec) {
  if (!block) block = std::make_unique<StepBlock>(spec, end - begin);
  attached = false;
  server = std::make_unique<ServerProcess>(target, end - begin, Probe::no);
}

void PythonEnv::prepare() {
  for (Group& group : groups_) {
    try {
      if (!group.server) group.start(target_, spec_);
    } catch (const std::exception&) {
      group.server.reset();  // the first reset tries again and reports the reason
    }
  }
}

// Starts the processes that this round needs and that do not run, all at the same time.
void PythonEnv::start_servers() {
  const auto guarded = [this](Group& group, auto body) {
    try {
      body();
    } catch (const std::exception& error) {  // ConfigError, IoError or ServerGone
      lose(group, error);
    }
  };
  for (Group& group : groups_) {
    if (group.asked && !group.server) guarded(group, [&] { group.start(target_, spec_); });
  }
  for (Group& group : groups_) {
    if (!group.asked || group.attached) continue;
    guarded(group, [&] {
      const std::string spaces = spaces_text(target_, group.server->spaces());
      if (spaces != spaces_) throw ServerGone("the spaces of the environment are not those that it had at the start");
      group.block->restarts = !singly_;
      group.server->attach(*group.block);
      group.attached = true;
    });
  }
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
  each.phase = singly_ ? Phase::inactive : Phase::stopped;
  each.unplayed = false;
  each.next_error.clear();
  buffers_.blank(i);
}

// The process of a group is gone: all its rows fail, and start again with a new process. The error names the rows whose
// code ran.
void PythonEnv::lose(Group& group, const std::exception& error) {
  auto [first, end] = group.server ? group.server->executing() : std::pair<int64_t, int64_t>(0, 0);
  first += group.begin, end += group.begin;
  if (const auto* gone = dynamic_cast<const ServerGone*>(&error))
    if (!gone->traceback.empty() && tracebacks_.take(1, TokenBucket::Clock::now()))
      log_block(LogLevel::info, spec_.id, gone->traceback);
  group.server.reset();
  group.attached = false;
  group.asked = false;
  const std::string where = end - first > 1 ? " in a step of " + rows_text(first, end) : "";
  for (int64_t i = group.begin; i < group.end; ++i) {
    Row& each = row(i);
    each.command = RowCommand::skip;
    if (each.phase == Phase::inactive) {
      each.rebuild = true;
      each.unplayed = false;
      continue;
    }
    const bool lost = first < end && (i < first || i >= end);
    fail(i, lost ? "lost with " + rows_text(first, end) + ": " + error.what() : error.what() + where, /*rebuild=*/true);
    each.lost = lost;
  }
  // The next step starts the process, so that this one does not wait for the timeout again.
  std::erase_if(failed_, [&](int64_t i) { return i >= group.begin && i < group.end; });
}

// Begins new episodes in the rows that have failed. A row that fails again is tried at the next step.
void PythonEnv::restart_failed() {
  if (failed_.empty() || shared_ || singly_) return;  // rows that share an environment start in the next step
  for (Row& each : rows_) each.command = RowCommand::skip;
  for (const int64_t i : failed_) row(i).command = row(i).start_command();
  run_round();
  for (const int64_t i : failed_) row(i).unplayed = row(i).phase == Phase::running;
}

void PythonEnv::publish(EnvStep& out) {
  for (const bool lost : {false, true})
    for (int64_t i = 0; i < rows(); ++i) {
      if (row(i).error.empty() || row(i).lost != lost) continue;
      out.errors.push_back(row_error(i, row(i).error));
      row(i).error.clear();
      row(i).lost = false;
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
