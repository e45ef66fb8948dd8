#include "envs/bridge/step_block.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include <nlohmann/json.hpp>

#include "runtime/base/file.h"

namespace troupe {

namespace {

constexpr size_t kAlignment = 64;

}  // namespace

StepBlock::StepBlock(const EnvSpec& spec, int64_t rows) : rows_(rows), chunk_(spec.action.chunk) {
  plan(spec);
  file_ = Descriptor(memfd_create("troupe-env", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file_.number() < 0 || ftruncate(file_.number(), static_cast<off_t>(bytes_)) != 0)
    throw IoError(spec.id, "no shared memory of " + std::to_string(bytes_) + " bytes", errno);
  // A server that shortened the file would crash this process.
  fcntl(file_.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
  if (memory == MAP_FAILED) throw IoError(spec.id, "no address space for " + std::to_string(bytes_) + " bytes", errno);
  memory_ = static_cast<std::byte*>(memory);
  bind(spec);
}

StepBlock::~StepBlock() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

void StepBlock::add(std::string name, DType dtype, const Shape& shape) {
  const Shape all = shape.prepended(rows_);
  entries_.push_back({std::move(name), dtype, all, bytes_});
  const size_t size = static_cast<size_t>(all.elements()) * size_of(dtype);
  bytes_ = (bytes_ + size + kAlignment - 1) / kAlignment * kAlignment;
}

// bind() visits the arrays in the same order.
void StepBlock::plan(const EnvSpec& spec) {
  static_assert(sizeof(BlockHeader) == 5 * sizeof(int64_t));
  entries_.push_back({"header", DType::i64, {5}, 0});
  bytes_ = kAlignment;
  add("command", DType::u8, {});
  add("seed", DType::i64, {});
  add("actions", spec.action.dtype(), spec.action.shape());
  add("rewards", DType::f32, {});
  add("terminated", DType::u8, {});
  add("truncated", DType::u8, {});
  add("success", DType::u8, {});
  add("executed", DType::i32, {});
  for (const char* which : {"observations/", "final_observations/"})
    for (size_t k = 0; k < spec.observations.size(); ++k)
      add(which + std::to_string(k), spec.observations[k].dtype, spec.observations[k].shape);
  if (spec.action.masked) add("mask", DType::u8, {spec.action.mask_size()});
}

void StepBlock::bind(const EnvSpec& spec) {
  size_t at = 0;
  const auto next = [&] { return memory_ + entries_[at++].offset; };
  const auto flags = [&] { return reinterpret_cast<uint8_t*>(next()); };
  header = reinterpret_cast<BlockHeader*>(next());
  commands = flags();
  seeds = reinterpret_cast<int64_t*>(next());
  actions = next();
  rewards = reinterpret_cast<float*>(next());
  terminated = flags();
  truncated = flags();
  success = flags();
  executed = reinterpret_cast<int32_t*>(next());
  for (auto* fields : {&observations, &finals})
    for (const ArraySpec& array : spec.observations)
      fields->push_back({next(), static_cast<size_t>(array.shape.elements()), array.dtype});
  if (spec.action.masked) mask = flags();
}

nlohmann::ordered_json StepBlock::layout() const {
  nlohmann::ordered_json arrays = nlohmann::ordered_json::array();
  for (const Entry& entry : entries_)
    arrays.push_back({{"name", entry.name},
                      {"dtype", name_of(entry.dtype)},
                      {"shape", std::vector<int64_t>(entry.shape.begin(), entry.shape.end())},
                      {"offset", entry.offset}});
  return {{"rows", rows_}, {"chunk", chunk_}, {"restarts", restarts}, {"bytes", bytes_}, {"arrays", arrays}};
}

void StepBlock::clear_results() {
  // Memory that is not written stays in the caches of both processors.
  for (uint8_t* flags : {terminated, truncated, success})
    if (std::any_of(flags, flags + rows_, [](uint8_t flag) { return flag != 0; }))
      std::fill_n(flags, rows_, uint8_t{0});
  if (std::any_of(executed, executed + rows_, [](int32_t steps) { return steps != 1; }))
    std::fill_n(executed, rows_, 1);
}

}  // namespace troupe
