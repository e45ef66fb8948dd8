// An environment in C++ whose function THROWING throws.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "troupe_env.h"

namespace {

const troupe_array observations[] = {{"count", TROUPE_FLOAT32, 1, {1}}};
const int32_t bins[] = {2};

void at(const char* function) {
  if (std::string(function) == THROWING) throw std::runtime_error("no\nlicence");
}

}  // namespace

extern "C" {

uint32_t troupe_env_version(void) {
  at("version");
  return TROUPE_ENV_VERSION;
}

int troupe_env_describe(const char*, troupe_env_spec* spec, char*, size_t) {
  at("describe");
  spec->observations = observations;
  spec->observation_count = 1;
  spec->action = TROUPE_DISCRETE;
  spec->action_dims = 1;
  spec->bins = bins;
  return 0;
}

void* troupe_env_create(const char*, char*, size_t) {
  at("create");
  return std::calloc(1, 1);
}

void troupe_env_destroy(void* env) {
  std::free(env);
  at("destroy");
}

int troupe_env_reset(void*, uint64_t) {
  at("reset");
  return 0;
}

int troupe_env_step(void*, const void*, troupe_env_result*) {
  at("step");
  return 0;
}

int troupe_env_observe(const void*, void* const* out) {
  at("observe");
  *static_cast<float*>(out[0]) = 0;
  return 0;
}
}
