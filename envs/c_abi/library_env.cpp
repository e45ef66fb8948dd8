#include "envs/c_abi/library_env.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "envs/batched.h"
#include "envs/c_abi/hosted_env.h"
#include "envs/c_abi/library_row.h"
#include "envs/env_table.h"
#include "envs/observation_called.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

constexpr std::string_view kScheme = "lib:";

[[noreturn]] void refuse(const std::string& id, const std::string& what) {
  throw ConfigError("env.id: \"" + printable(id, 200) + "\": " + what);
}

std::string params_of(const EnvConfig& config, const std::string& evaluation_params) {
  const auto object = [](const std::string& text, const std::string& path) {
    Json value = parse_strict(text, path);
    if (!value.is_object())
      throw ConfigError(path + ": " + printable(text) + " is not an object, expected {\"key\": value}");
    return value;
  };
  Json params = object(config.params, "env.params");
  params.update(object(evaluation_params, "evaluation.env_params"));
  return params.dump();
}

DType dtype_of_number(const std::string& id, const std::string& name, int32_t dtype) {
  switch (dtype) {
    case TROUPE_FLOAT32: return DType::f32;
    case TROUPE_UINT8: return DType::u8;
    case TROUPE_INT32: return DType::i32;
    case TROUPE_INT64: return DType::i64;
    default: refuse(id, observation_called(name) + " has the dtype " + std::to_string(dtype) + ", expected 0 to 3");
  }
}

ArraySpec read_array(const std::string& id, const troupe_array& array) {
  const std::string name = array.name == nullptr ? "" : printable(array.name, 100);
  if (array.rank < 1 || array.rank > TROUPE_MAX_RANK)
    refuse(id, observation_called(name) + " has " + std::to_string(array.rank) + " dimensions, expected 1 to " +
                   std::to_string(static_cast<int>(TROUPE_MAX_RANK)));
  const Shape shape(std::vector<int64_t>(array.shape, array.shape + array.rank));
  constexpr int64_t kMost = 1 << 30;
  int64_t elements = 1;
  for (const int64_t extent : shape)
    elements = extent < 1 || extent > kMost || elements > kMost ? kMost + 1 : elements * extent;
  if (elements > kMost)
    refuse(id, observation_called(name) + " has the shape " + shape.text() +
                   ", expected extents of at least 1 and at most " + std::to_string(kMost) + " numbers");
  return {name, dtype_of_number(id, name, array.dtype), shape};
}

void read_action(const std::string& id, const troupe_env_spec& given, ActionSpec& action) {
  if (given.action < TROUPE_DISCRETE || given.action > TROUPE_CONTINUOUS)
    refuse(id, "the action kind is " + std::to_string(given.action) + ", expected 0 to 2");
  constexpr int32_t kMostDims = 65536;
  if (given.action_dims < 1 || given.action_dims > kMostDims)
    refuse(id, "actions have " + std::to_string(given.action_dims) + " numbers, expected 1 to " +
                   std::to_string(kMostDims));
  action.kind = static_cast<ActionKind>(given.action);
  action.masked = given.masked != 0;
  const auto take = [&](const auto* numbers, auto& out, const char* name) {
    if (numbers == nullptr) refuse(id, std::string(name) + " of the actions is null, expected an array");
    out.assign(numbers, numbers + given.action_dims);
  };
  if (action.kind == ActionKind::continuous) {
    take(given.low, action.low, "low");
    take(given.high, action.high, "high");
  } else {
    take(given.bins, action.bins, "bins");
  }
}

// Calls troupe_env_describe() of the library.
troupe_env_spec describe(const std::string& id, const LibraryOptions& options) {
  troupe_env_spec given{};
  GuardedBytes error(256);
  auto* text = reinterpret_cast<char*>(error.data());
  int result = 0;
  try {
    result = call_library(options.library->path(), LibraryFunction::describe, [&] {
      return options.library->describe(options.params.c_str(), &given, text, error.size());
    });
    error.require_intact(name_of(LibraryFunction::describe), "error");
  } catch (const std::runtime_error& failure) {
    refuse(id, printable(failure.what(), 300));
  }
  text[error.size() - 1] = '\0';
  if (result != 0)
    throw ConfigError("env.params: " + printable(options.params, 100) + " is refused by " + printable(id, 200) + ": " +
                      (text[0] == '\0' ? "result " + std::to_string(result) : printable(text, 250)));
  return given;
}

EnvSpec read_spec(const std::string& id, const LibraryOptions& options) {
  constexpr int32_t kMostObservations = 1000;
  const troupe_env_spec given = describe(id, options);
  if (given.observation_count < 1 || given.observation_count > kMostObservations || given.observations == nullptr)
    refuse(id, "there are " + std::to_string(given.observations == nullptr ? 0 : given.observation_count) +
                   " observations, expected 1 to " + std::to_string(kMostObservations));
  // A pointer or a number that is wrong ends the process while it is read.
  const NotedCall noted(options.library->path(), LibraryFunction::describe);
  EnvSpec spec;
  spec.id = id;
  for (int32_t k = 0; k < given.observation_count; ++k)
    spec.observations.push_back(read_array(id, given.observations[k]));
  read_action(id, given, spec.action);
  if (spec.action.masked && options.library->mask == nullptr)
    refuse(id, "actions are masked, but the library has no function troupe_env_mask");
  spec.max_episode_steps = given.max_episode_steps;
  spec.reports_success = given.reports_success != 0;
  check_spec(spec);
  return spec;
}

// The spec, with the chunk of the target. Notes in `options` how much memory the library writes.
EnvSpec library_spec(const LibraryTarget& target, LibraryOptions& options) {
  EnvSpec spec = read_spec(target.id, options);
  for (const ArraySpec& array : spec.observations) {
    options.observations.push_back(array.name);
    options.observation_bytes.push_back(static_cast<size_t>(array.shape.elements()) * size_of(array.dtype));
  }
  if (spec.action.masked) options.mask_bytes = static_cast<size_t>(spec.action.mask_size());
  EnvConfig chunk;
  chunk.chunk = target.chunk;
  apply_chunk(spec, chunk);
  return spec;
}

struct Made {
  EnvSpec spec;
  int64_t rows;
  LibraryOptions options;
  std::string identity;
};

template <class Number, bool Masked>
std::unique_ptr<Env> make_rows_of(Made made) {
  if (made.options.library->save != nullptr)
    return std::make_unique<Batched<LibraryRow<Number, Masked, true>>>(std::move(made.spec), made.rows,
                                                                       std::move(made.options), made.identity);
  return std::make_unique<Batched<LibraryRow<Number, Masked, false>>>(std::move(made.spec), made.rows,
                                                                      std::move(made.options), made.identity);
}

}  // namespace

bool is_library_id(const std::string& id) { return id.starts_with(kScheme); }

std::unique_ptr<Env> make_library_env(const EnvConfig& config, const std::string& evaluation_params,
                                      std::chrono::milliseconds timeout) {
  require_rows(config.rows);
  if (config.id.size() == kScheme.size()) refuse(config.id, std::string("no file is named, expected ") + kLibraryForm);
  LibraryTarget target{config.id, params_of(config, evaluation_params), config.chunk, config.step_timeout,
                       config.start_timeout};
  lower(target.timeout, target.timeout_setting, timeout);
  lower(target.start_timeout, target.start_setting, timeout);
  if (config.isolate) return std::make_unique<HostedEnv>(std::move(target), config.rows);
  announce_crashes();
  return make_library_rows(target, config.rows);
}

std::unique_ptr<Env> make_library_rows(const LibraryTarget& target, int64_t rows) {
  LibraryOptions options;
  options.params = target.params;
  options.library = std::make_shared<const EnvLibrary>(target.id.substr(kScheme.size()));
  EnvSpec spec = library_spec(target, options);
  const std::string identity = target.id + " with " + options.params;
  const bool continuous = spec.action.kind == ActionKind::continuous, masked = spec.action.masked;
  Made made{std::move(spec), rows, std::move(options), identity};
  if (continuous) return make_rows_of<float, false>(std::move(made));
  return masked ? make_rows_of<int32_t, true>(std::move(made)) : make_rows_of<int32_t, false>(std::move(made));
}

}  // namespace troupe
