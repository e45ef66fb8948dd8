/* Environments with one mistake each, chosen by macros. Without any: a counter with two choices. The macros LOADING,
 * DESCRIBING, CREATING, RESETTING, DESTROYING, STEPPING, OBSERVING and SAVING are statements in the functions of these
 * names. */

#define _GNU_SOURCE
#include "troupe_env.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef MEETING
/* Prints 200 KB in writes of `size` bytes, and returns when `count` processes have done so. Each of them adds a byte to
 * the file MEETING; the last one wakes the others, which read from a pipe beside it. */
static void print_and_meet(size_t size, long count) {
  char text[4096];
  memset(text, 'x', sizeof text);
  text[size - 1] = '\n';
  for (size_t printed = 0; printed < 200000; printed += size)
    if (write(1, text, size) != (ssize_t)size) abort();
  if (mkfifo(MEETING ".pipe", 0600) != 0 && errno != EEXIST) abort();
  const int others = open(MEETING ".pipe", O_RDWR); /* what is written stays there while a process has it open */
  const int file = open(MEETING, O_WRONLY | O_CREAT | O_APPEND, 0600);
  struct stat met;
  if (others < 0 || file < 0 || lockf(file, F_LOCK, 0) != 0 || write(file, "x", 1) != 1 || fstat(file, &met) != 0)
    abort();
  close(file); /* and unlocks it */
  char byte = 0;
  if (met.st_size < count && read(others, &byte, 1) != 1) abort();
  if (met.st_size == count)
    for (long i = 1; i < count; ++i)
      if (write(others, &byte, 1) != 1) abort();
  close(others);
}
#endif

#ifdef LOADING
__attribute__((constructor)) static void at_loading(void) { LOADING; }
#endif
#ifndef DESCRIBING
#define DESCRIBING
#endif
#ifndef CREATING
#define CREATING
#endif
#ifndef RESETTING
#define RESETTING
#endif
#ifndef DESTROYING
#define DESTROYING
#endif
#ifndef STEPPING
#define STEPPING
#endif
#ifndef OBSERVING
#define OBSERVING
#endif

#ifndef VERSION
#define VERSION TROUPE_ENV_VERSION
#endif

struct counter {
  int32_t steps;
};

#ifdef RANK
static const struct troupe_array observations[] = {{"count", TROUPE_INT32, RANK, {1}}};
#else
static const struct troupe_array observations[] = {{"count", TROUPE_INT32, 1, {1}}, {"half", TROUPE_FLOAT32, 1, {1}}};
#endif
static const int32_t bins[] = {2};

uint32_t troupe_env_version(void) { return VERSION; }

int troupe_env_describe(const char* params, struct troupe_env_spec* spec, char* error, size_t size) {
  if (strstr(params, "wrong") != NULL) {
    snprintf(error, size, "there is no parameter wrong");
    return 1;
  }
  spec->observations = observations;
  spec->observation_count = (int32_t)(sizeof observations / sizeof observations[0]);
  spec->action = TROUPE_DISCRETE;
  spec->action_dims = 1;
  spec->bins = bins;
#ifdef BOUND
  static const float low[] = {-1.0f}, high[] = {BOUND};
  spec->action = TROUPE_CONTINUOUS;
  spec->low = low;
  spec->high = high;
#endif
#ifdef NO_BINS
  spec->bins = NULL;
#endif
  DESCRIBING;
#ifdef MASKED
  spec->masked = 1;
#endif
  return 0;
}

void* troupe_env_create(const char* params, char* error, size_t size) {
#ifdef NO_ENV
  snprintf(error, size, "no licence");
  return NULL;
#endif
  (void)params, (void)error, (void)size;
  CREATING;
  return calloc(1, sizeof(struct counter));
}

void troupe_env_destroy(void* env) {
  DESTROYING;
  free(env);
}

int troupe_env_reset(void* env, uint64_t seed) {
  (void)seed;
  RESETTING;
  ((struct counter*)env)->steps = 0;
  return 0;
}

#ifndef NO_STEP
int troupe_env_step(void* env, const void* action, struct troupe_env_result* result) {
  struct counter* counter = env;
  ++counter->steps;
  if (counter->steps == 3) {
    STEPPING;
  }
  result->reward = (float)((const int32_t*)action)[0];
  result->truncated = counter->steps == 5;
#ifdef NAN_REWARD
  if (counter->steps == 3) result->reward = NAN;
#endif
#ifdef FAILING
  if (counter->steps == 3) return 7;
#endif
  return 0;
}
#endif

int troupe_env_observe(const void* env, void* const* out) {
  const struct counter* counter = env;
  *(int32_t*)out[0] = counter->steps;
  OBSERVING;
#ifndef RANK
  *(float*)out[1] = (float)counter->steps / 2;
#endif
#ifdef NAN_OBSERVATION
  if (counter->steps == 3) *(float*)out[1] = NAN;
#endif
  return 0;
}

#ifdef ALLOWED
int troupe_env_mask(const void* env, uint8_t* allowed) {
  (void)env;
  allowed[0] = 1;
  allowed[1] = ALLOWED;
  return 0;
}
#endif

#ifdef ONLY_SAVE
size_t troupe_env_save(const void* env, void* bytes, size_t size) {
  (void)env, (void)bytes, (void)size;
  return 0;
}
#endif

#ifdef SAVING
size_t troupe_env_save(const void* env, void* bytes, size_t size) {
  (void)env, (void)bytes, (void)size;
  return SAVING;
}

int troupe_env_load(void* env, const void* bytes, size_t size) {
  (void)env, (void)bytes, (void)size;
  return 0;
}
#endif

#ifdef RENDERING
size_t troupe_env_render(const void* env, char* text, size_t size) {
  (void)env, (void)text, (void)size;
  return RENDERING;
}
#endif

#ifdef WITH_ERROR
const char* troupe_env_error(const void* env) {
  (void)env;
  return "the motor\nis stuck";
}
#endif
