#include "envs/c_abi/library_env.h"

#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "envs/batched.h"
#include "envs/c_abi/library_row.h"
#include "envs/env_table.h"
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
    default: refuse(id, "observation " + name + " has the dtype " + std::to_string(dtype) + ", expected 0 to 3");
  }
}

ArraySpec read_array(const std::string& id, const troupe_array& array) {
  const std::string name = array.name == nullptr ? "" : printable(array.name, 100);
  if (array.rank < 1 || array.rank > TROUPE_MAX_RANK)
    refuse(id, "observation " + name + " has " + std::to_string(array.rank) + " dimensions, expected 1 to " +
                   std::to_string(static_cast<int>(TROUPE_MAX_RANK)));
  return {name, dtype_of_number(id, name, array.dtype),
          Shape(std::vector<int64_t>(array.shape, array.shape + array.rank))};
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

EnvSpec read_spec(const std::string& id, const LibraryOptions& options) {
  troupe_env_spec given{};
  std::array<char, 256> error{};
  const int result = options.library->describe(options.params.c_str(), &given, error.data(), error.size());
  error.back() = '\0';
  if (result != 0)
    throw ConfigError("env.params: " + printable(options.params, 100) + " is refused by " + printable(id, 200) + ": " +
                      (error[0] == '\0' ? "result " + std::to_string(result) : printable(error.data(), 250)));
  if (given.observation_count < 1 || given.observations == nullptr)
    refuse(id, "there are " + std::to_string(given.observation_count) + " observations, expected at least one");
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

std::unique_ptr<Env> make_library_env(const EnvConfig& config, const std::string& evaluation_params) {
  require_rows(config.rows);
  const std::string path = config.id.substr(kScheme.size());
  if (path.empty()) refuse(config.id, std::string("no file is named, expected ") + kLibraryForm);
  LibraryOptions options{nullptr, params_of(config, evaluation_params)};
  options.library = std::make_shared<const EnvLibrary>(path);
  EnvSpec spec = read_spec(config.id, options);
  apply_chunk(spec, config);
  const std::string identity = config.id + " with " + options.params;
  const bool continuous = spec.action.kind == ActionKind::continuous, masked = spec.action.masked;
  Made made{std::move(spec), config.rows, std::move(options), identity};
  if (continuous) return make_rows_of<float, false>(std::move(made));
  return masked ? make_rows_of<int32_t, true>(std::move(made)) : make_rows_of<int32_t, false>(std::move(made));
}

}  // namespace troupe
