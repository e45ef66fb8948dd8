#include "envs/c_abi/hosted_env.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/mutex.h"
#include "runtime/base/rng.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

constexpr std::string_view kMark = "troupe-library-1\n";  // at the beginning of saved bytes

Mutex specs_mutex;
std::map<std::string, EnvSpec> specs TROUPE_GUARDED_BY(specs_mutex);  // by id, parameters and chunk

EnvSpec spec_of(const LibraryTarget& target) {
  const std::string key = target.id + '\n' + target.params + '\n' + std::to_string(target.chunk);
  {
    const MutexLock lock(specs_mutex);
    if (const auto found = specs.find(key); found != specs.end()) return found->second;
  }
  EnvSpec spec;
  try {
    spec = LibraryProcess(target, 1).spec();
  } catch (const ConfigError&) {
    throw;
  } catch (const std::exception& error) {  // LibraryLost or IoError
    throw ConfigError("env.id: \"" + printable(target.id, 200) + "\" cannot be used: " + printable(error.what(), 400));
  }
  const MutexLock lock(specs_mutex);
  return specs.insert_or_assign(key, std::move(spec)).first->second;
}

// Copies the bytes of an array to one of the same shape.
void copy(const Array& from, Array& to) {
  TROUPE_CHECK(from.bytes() == to.bytes(), from.shape().text(), to.shape().text());
  if (from.bytes() > 0) std::memcpy(to.mutable_data(), from.data(), from.bytes());
}

bool any(const Array& flags) {
  const auto view = flags.view<uint8_t>();
  return std::ranges::any_of(view, [](uint8_t flag) { return flag != 0; });
}

}  // namespace

HostedEnv::HostedEnv(LibraryTarget target, int64_t rows)
    : target_(std::move(target)),
      spec_(spec_of(target_)),
      buffers_(spec_, rows),
      active_(static_cast<size_t>(rows), 1) {}

// Starts the process and does not wait for it.
void HostedEnv::start() const {
  auto started = std::make_unique<LibraryProcess>(target_, rows());
  started->attach(spec_);
  process_ = std::move(started);
  checked_ = false;
}

LibraryProcess& HostedEnv::process() const {
  if (!process_) start();
  if (!checked_ && spec_text(process_->spec()) != spec_text(spec_))
    throw LibraryLost(target_.id + ": the library describes other observations or actions than at the start");
  checked_ = true;
  return *process_;
}

// Takes over the results that the process has written.
void HostedEnv::take(const std::string& errors, EnvStep& out) {
  const EnvStep& from = process_->shared().step;
  for (size_t k = 0; k < spec_.observations.size(); ++k) copy(from.observations[k].second, out.observations[k].second);
  if (any(from.terminated) || any(from.truncated))
    for (size_t k = 0; k < spec_.observations.size(); ++k)
      copy(from.final_observations[k].second, out.final_observations[k].second);
  if (spec_.action.masked) copy(from.action_mask, out.action_mask);
  copy(from.rewards, out.rewards);
  copy(from.terminated, out.terminated);
  copy(from.truncated, out.truncated);
  copy(from.success, out.success);
  copy(from.executed, out.executed);
  copy(from.failed, out.failed);
  copy(from.task, out.task);
  for (size_t begin = 0; begin < errors.size();) {
    const size_t end = errors.find('\n', begin);
    out.errors.push_back(errors.substr(begin, end - begin));
    begin = end + 1;
  }
}

// The process is gone, as was noticed between two steps. The next one reports it.
void HostedEnv::note_lost(const LibraryLost& error) const {
  process_.reset();
  unreported_ = error.what();
}

// The process is gone: all rows fail.
void HostedEnv::lose(const std::string& why, EnvStep& out) {
  process_.reset();
  start_.lost = 1;
  out.errors.clear();
  for (int64_t i = 0; i < rows(); ++i) {
    const bool active = active_[static_cast<size_t>(i)] != 0;
    buffers_.clear(i);
    buffers_.failed[i] = static_cast<uint8_t>(active ? Failed::now : Failed::idle);
    buffers_.blank(i);
    if (active) out.errors.push_back(row_error(i, why));
  }
  if (!singly_) return;
  begins_.clear();
  std::ranges::fill(active_, 0);
  start_.lost = 0;
}

// Rows whose episode has ended or that have failed are inactive.
void HostedEnv::note_ended(const EnvStep& out) {
  const auto terminated = out.terminated.view<uint8_t>(), truncated = out.truncated.view<uint8_t>();
  const auto failed = out.failed.view<uint8_t>();
  for (size_t i = 0; i < active_.size(); ++i)
    if (terminated[i] != 0 || truncated[i] != 0 || failed[i] == static_cast<uint8_t>(Failed::now)) active_[i] = 0;
}

template <class Body>
void HostedEnv::guarded(EnvStep& out, Body body) {
  buffers_.bind(spec_, out);
  try {
    body();
  } catch (const InvariantError&) {
    throw;
  } catch (const std::exception& error) {  // LibraryLost; IoError or ConfigError if a process cannot be started
    lose(error.what(), out);
  }
}

void HostedEnv::begin_reset(uint64_t seed, uint64_t first_row) {
  try {
    if (!process_) start();
    process_->begin(HostRequest::reset, seed, first_row);
    begun_ = {seed, first_row};
  } catch (const std::exception&) {
    process_.reset();  // reset() tries again and reports the reason
  }
}

void HostedEnv::reset(uint64_t seed, uint64_t first_row, EnvStep& out) {
  const bool begun = process_ && std::exchange(begun_, {}) == std::pair(seed, first_row);
  start_ = {.seed = seed, .first_row = first_row};
  unreported_.clear();
  std::ranges::fill(active_, 1);
  guarded(out,
          [&] { take((begun ? process().finish() : process().ask(HostRequest::reset, seed, first_row)).text, out); });
}

// Starts a process in place of the one that was lost. Its active rows show the first observations of new episodes.
void HostedEnv::begin_again(EnvStep& out) {
  if (std::ranges::none_of(active_, [](char active) { return active != 0; })) {
    for (int64_t i = 0; i < rows(); ++i) {
      buffers_.failed[i] = static_cast<uint8_t>(Failed::idle);
      buffers_.blank(i);
    }
    return;
  }
  // With the same random numbers it would crash in the same way.
  const uint64_t seed = derive_key(start_.seed, "library process", ++start_.restarts);
  take(process().ask(HostRequest::reset, seed, start_.first_row).text, out);
  for (int64_t i = 0; i < rows(); ++i) {
    const bool active = active_[static_cast<size_t>(i)] != 0;
    if (!active) process().ask(HostRequest::set_active, static_cast<uint64_t>(i), 0);
    if (!active) buffers_.blank(i);
    if (!active || buffers_.failed[i] == 0) buffers_.failed[i] = static_cast<uint8_t>(Failed::idle);
  }
  start_.lost = 0;
}

bool HostedEnv::play_singly(uint64_t seed) {
  singly_ = true;
  start_ = {.seed = seed};
  std::ranges::fill(active_, 0);
  return true;
}

void HostedEnv::begin_episode(int64_t row, uint64_t episode) {
  TROUPE_CHECK(singly_ && row >= 0 && row < rows(), spec_.id, "row:", row, "rows:", rows());
  active_[static_cast<size_t>(row)] = 1;
  const uint64_t pair[2] = {static_cast<uint64_t>(row), episode};
  begins_.append(reinterpret_cast<const char*>(pair), sizeof pair);
}

void HostedEnv::step(const Array& actions, EnvStep& out) {
  TROUPE_CHECK(actions.shape() == spec_.action.shape().prepended(rows()), spec_.id, "actions have shape",
               actions.shape().text(), "expected", spec_.action.shape().prepended(rows()).text());
  TROUPE_CHECK(actions.dtype() == spec_.action.dtype(), spec_.id, name_of(actions.dtype()));
  guarded(out, [&] {
    if (!unreported_.empty()) throw LibraryLost(std::exchange(unreported_, {}));
    if (start_.lost != 0) return begin_again(out);
    copy(actions, process().shared().actions);
    const std::string begins = std::exchange(begins_, {});
    take(process().ask(HostRequest::step, singly_ ? 1 : 0, start_.seed, begins).text, out);
    if (singly_) note_ended(out);
  });
}

void HostedEnv::observe(EnvStep& out) {
  guarded(out, [&] {
    if (!unreported_.empty()) throw LibraryLost(std::exchange(unreported_, {}));
    if (start_.lost != 0) return begin_again(out);
    take(process().ask(HostRequest::observe).text, out);
  });
}

void HostedEnv::set_active(int64_t row, bool active) {
  TROUPE_CHECK(row >= 0 && row < rows(), spec_.id, "row:", row, "rows:", rows());
  active_[static_cast<size_t>(row)] = active;
  if (lost() || !process_) return;
  try {
    process_->ask(HostRequest::set_active, static_cast<uint64_t>(row), active ? 1 : 0);
  } catch (const LibraryLost& error) {
    note_lost(error);
  }
}

std::string HostedEnv::render(int64_t row) const {
  TROUPE_CHECK(row >= 0 && row < rows(), spec_.id, "row:", row, "rows:", rows());
  if (lost()) return spec_.id + ": its process was lost\n";
  try {
    return process().ask(HostRequest::render, static_cast<uint64_t>(row)).text;
  } catch (const LibraryLost& error) {
    note_lost(error);
    return printable(error.what(), 400) + '\n';
  } catch (const std::exception& error) {
    return printable(error.what(), 400) + '\n';
  }
}

bool HostedEnv::save(std::string& bytes) const {
  LibraryProcess::Reply reply;
  try {
    if (!lost()) reply = process().ask(HostRequest::save);
  } catch (const LibraryLost& error) {
    note_lost(error);
  }
  if (!lost() && reply.a == 0) return false;
  Start start = start_;
  start.lost = lost() ? 1 : 0;
  bytes.assign(kMark);
  bytes.append(reinterpret_cast<const char*>(&start), sizeof start);
  bytes.append(active_.data(), active_.size());
  bytes += reply.text;
  return true;
}

bool HostedEnv::load(const std::string& bytes) {
  const size_t header = kMark.size() + sizeof start_ + active_.size();
  std::string_view inner = bytes;
  start_ = {};
  unreported_.clear();
  if (inner.starts_with(kMark)) {
    if (inner.size() < header) throw std::runtime_error(spec_.id + ": the saved state is too short");
    std::memcpy(&start_, inner.data() + kMark.size(), sizeof start_);
    std::copy_n(inner.data() + kMark.size() + sizeof start_, active_.size(), active_.begin());
    inner.remove_prefix(header);
  }
  if (start_.lost != 0) return true;
  return process().ask(HostRequest::load, 0, 0, inner).a != 0;
}

void HostedEnv::begin_close() {
  if (process_) process_->begin_close();
}

}  // namespace troupe
