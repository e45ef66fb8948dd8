/* Drive a ball to the top of a hill: an environment in C for troupe. docs/environments.md says how to use it. */

#include "troupe_env.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hill {
  float position, velocity;
  uint64_t random;
};

static const struct troupe_array observations[] = {{"state", TROUPE_FLOAT32, 1, {2}}};
static const float low[] = {-2.0f}, high[] = {2.0f};

uint32_t troupe_env_version(void) { return TROUPE_ENV_VERSION; }

int troupe_env_describe(const char *params, struct troupe_env_spec *spec, char *error, size_t size) {
  if (strcmp(params, "{}") != 0) {
    snprintf(error, size, "the hill has no parameters, expected {}");
    return 1;
  }
  spec->observations = observations;
  spec->observation_count = 1;
  spec->action = TROUPE_CONTINUOUS;
  spec->action_dims = 1;
  spec->low = low;
  spec->high = high;
  spec->max_episode_steps = 100;
  spec->reports_success = 1;
  return 0;
}

void *troupe_env_create(const char *params, char *error, size_t size) {
  struct hill *hill = calloc(1, sizeof *hill);
  (void)params;
  if (hill == NULL) snprintf(error, size, "out of memory");
  return hill;
}

void troupe_env_destroy(void *env) { free(env); }

/* A number in [0, 1) (splitmix64). */
static float draw(struct hill *hill) {
  uint64_t z = hill->random += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (float)((z ^ (z >> 31)) >> 40) / 16777216.0f;
}

int troupe_env_reset(void *env, uint64_t seed) {
  struct hill *hill = env;
  hill->random = seed;
  hill->position = -0.5f + 0.2f * draw(hill);
  hill->velocity = 0.0f;
  return 0;
}

int troupe_env_step(void *env, const void *action, struct troupe_env_result *result) {
  struct hill *hill = env;
  const float force = ((const float *)action)[0];
  hill->velocity = 0.95f * hill->velocity + 0.02f * force - 0.01f * (1.0f - fabsf(hill->position));
  hill->position += hill->velocity;
  if (hill->position < -1.0f) {
    hill->position = -1.0f;
    hill->velocity = 0.0f;
  }
  result->terminated = result->success = hill->position >= 1.0f;
  result->reward = (result->success ? 10.0f : 0.0f) - 0.1f - 0.01f * force * force;
  return 0;
}

int troupe_env_observe(const void *env, void *const *out) {
  const struct hill *hill = env;
  float *state = out[0];
  state[0] = hill->position;
  state[1] = 10.0f * hill->velocity;
  return 0;
}

size_t troupe_env_save(const void *env, void *bytes, size_t size) {
  if (size >= sizeof(struct hill)) memcpy(bytes, env, sizeof(struct hill));
  return sizeof(struct hill);
}

int troupe_env_load(void *env, const void *bytes, size_t size) {
  if (size != sizeof(struct hill)) return 1;
  memcpy(env, bytes, size);
  return 0;
}
