#ifndef TROUPE_ENV_H
#define TROUPE_ENV_H
/* An environment in C, or in any language that can export C functions, for ids "lib:path/file.so" of troupe.
 *
 * Write the functions below, compile them into a shared library, and set env.id to "lib:" and its path:
 *
 *   cc -O2 -shared -fPIC -I PREFIX/include/troupe my_env.c -o my_env.so
 *
 * An object is one environment, and is used by one thread at a time; several objects are used by several threads at the
 * same time, so keep no state in global variables. By default the library runs in a process of its own, in which
 * several objects share one thread (env.isolate). Functions that return int return 0 for success. Otherwise the row
 * fails with the text of troupe_env_error(), and is reset. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes when this header changes so that libraries have to be compiled again. */
#define TROUPE_ENV_VERSION 1

enum troupe_dtype { TROUPE_FLOAT32 = 0, TROUPE_UINT8 = 1, TROUPE_INT32 = 2, TROUPE_INT64 = 3 };
enum troupe_action { TROUPE_DISCRETE = 0, TROUPE_MULTI_DISCRETE = 1, TROUPE_CONTINUOUS = 2 };
enum { TROUPE_MAX_RANK = 6 };

/* One observation array of one environment, row-major. */
struct troupe_array {
  const char* name;               /* unique in the environment */
  int32_t dtype;                  /* enum troupe_dtype */
  int32_t rank;                   /* 1 to TROUPE_MAX_RANK */
  int64_t shape[TROUPE_MAX_RANK]; /* the first `rank` extents, each at least 1 */
};

/* What an environment observes and does. Pointers stay valid until the library is closed. */
struct troupe_env_spec {
  const struct troupe_array* observations;
  int32_t observation_count; /* at least 1 */
  int32_t action;            /* enum troupe_action */
  int32_t action_dims;       /* A: numbers in one action; 1 for TROUPE_DISCRETE */
  const int32_t* bins;       /* [A] categories of each number; unused if continuous */
  const float* low;          /* [A] finite bounds, low < high; unused unless continuous */
  const float* high;         /* [A] */
  int32_t masked;            /* not 0: troupe_env_mask() says which categories are allowed */
  int32_t max_episode_steps; /* troupe truncates an episode after so many steps; 0: never */
  int32_t reports_success;   /* not 0: troupe_env_result.success is used */
};

/* What one step gives. troupe sets all members to 0 before the step. */
struct troupe_env_result {
  float reward;       /* finite */
  int32_t terminated; /* not 0: the episode ended in a terminal state */
  int32_t truncated;  /* not 0: the episode was cut off */
  int32_t success;    /* of an episode that ended */
};

/* ---- required */

/* Returns TROUPE_ENV_VERSION. */
uint32_t troupe_env_version(void);
/* Fills *spec, which troupe has set to 0, for the parameters env.params, a JSON object. On failure writes the reason to
 * error, a text of at most `size` bytes with its final 0. */
int troupe_env_describe(const char* params, struct troupe_env_spec* spec, char* error, size_t size);
/* A new environment; NULL on failure. troupe calls troupe_env_reset() before anything else. */
void* troupe_env_create(const char* params, char* error, size_t size);
void troupe_env_destroy(void* env);
/* Begins an episode, from any state. All randomness until the next reset follows from `seed`. */
int troupe_env_reset(void* env, uint64_t seed);
/* One step. `action` has A numbers: const int32_t *, or const float * if continuous; inside the bounds, and allowed. */
int troupe_env_step(void* env, const void* action, struct troupe_env_result* result);
/* Writes every element of every observation array of the present state to the buffers, in the order of the spec. */
int troupe_env_observe(const void* env, void* const* observations);

/* ---- optional */

/* Required if spec.masked: writes 1 (allowed) or 0 for each category, number after number. */
int troupe_env_mask(const void* env, uint8_t* allowed);
/* Why the last function that failed did so; NULL if unknown. Without it, troupe names the function and its result. */
const char* troupe_env_error(const void* env);
/* The whole state as bytes, at least one, which lets runs with `deterministic: true` resume. save writes it to `bytes`
 * if `size` suffices, and returns its size in any case. Both functions, or neither. */
size_t troupe_env_save(const void* env, void* bytes, size_t size);
int troupe_env_load(void* env, const void* bytes, size_t size);
/* The state as text for a terminal; returns the length of the whole text, of which at most `size` bytes are written. */
size_t troupe_env_render(const void* env, char* text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
