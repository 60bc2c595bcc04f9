/* What PalmKit's Python needs of the runtime beyond palm.h: it makes plans, and reads files by parts.
 *
 * This is no interface for others: it changes with the library, and both are of one version. Calls
 * return as those of palm.h do; what is made is freed by the function of its name, and texts by
 * palm_engine_free. Structured answers are JSON.
 */
#ifndef PALM_ENGINE_H
#define PALM_ENGINE_H

#include "palm.h"

/* Counts up when a call or a structure here changes; engine/_native.py has it, too. */
#define PALM_ENGINE_VERSION 2

#ifdef __cplusplus
extern "C" {
#endif

typedef struct palm_engine_plans palm_engine_plans;     /* the plans of a file */
typedef struct palm_engine_program palm_engine_program; /* a plan, with its weights packed */
typedef struct palm_engine_session palm_engine_session; /* what one caller needs to run it */

/* A dense array of the caller's. */
typedef struct palm_engine_array {
  int64_t address;
  int64_t dtype; /* a palm_dtype */
  int64_t count;
} palm_engine_array;

/* A run, described once for a session. numpy: NULL, or what says how NumPy's arrays lie in memory;
 * then `objects` are input_count + output_count of them, else `arrays`. */
typedef struct palm_engine_numpy {
  int64_t type;         /* the address of NumPy's class of arrays */
  int64_t head;         /* bytes of an object before its own fields */
  const int32_t *dtypes; /* the palm_dtype of each of NumPy's numbers of types, or -1 */
  int64_t dtype_count;
} palm_engine_numpy;
typedef struct palm_engine_call {
  palm_engine_session *session;
  const palm_engine_numpy *numpy;
  const int64_t *objects;
  const palm_engine_array *arrays;
  size_t input_count, output_count;
  double *seconds; /* NULL, or room for as many as there are steps */
  palm_ask ask;    /* NULL, or as for palm_session_watch */
  double slice_ms; /* as in palm_session_options */
} palm_engine_call;

/* Rows of pixels; stride: elements from one row to the next. */
typedef struct palm_engine_rows {
  void *data;
  size_t height, width, stride;
} palm_engine_rows;

/* Tensors and steps as numbers, one after the other; engine/_native.py writes them. texts: as many as
 * text_count, each with a zero behind it. */
typedef struct palm_engine_steps {
  const int64_t *words;
  size_t word_count;
  const double *numbers;
  size_t number_count;
  const char *texts;
  size_t text_bytes;
} palm_engine_steps;

/* PALM_ENGINE_VERSION of the library. */
PALM_API uint32_t palm_engine_version(void);
PALM_API void palm_engine_free(void *made);

/* The kernels, [[name, inputs, outputs]]; see Operands in base/step.h. */
PALM_API palm_status palm_engine_kernels(char **json);
/* The functions that the kernel "unary" has. */
PALM_API palm_status palm_engine_functions(char **json);

/* The CRC-32 of zlib; 0 where this host has no fast way, and then `crc` is as it was. */
PALM_API int palm_engine_crc32(const void *data, size_t size, uint32_t *crc);
/* float32 operations a second that the calling thread reaches, measured so long. */
PALM_API double palm_engine_peak_flops(double seconds);

/* The cost model, see costs.h. */
PALM_API double palm_engine_touching_seconds(size_t bytes);
PALM_API double palm_engine_sharing_seconds(void);
PALM_API size_t palm_engine_most_bytes_in_place(void);
/* [[[algorithm, seconds, terms]]]: of each step its candidates. constants: the plan's, or none. */
PALM_API palm_status palm_engine_candidates(const palm_engine_steps *steps, const char *isa,
                                            const palm_engine_array *constants,
                                            size_t constant_count, char **json);

/* A run of bytes, coded; see entropy/entropy.h. size: 0 where the coding cannot. */
PALM_API palm_status palm_engine_encode(int coding, const void *data, size_t data_size,
                                        size_t planes, void **run, size_t *size);
/* A constant by its recipe; see entropy/stored.h. */
PALM_API palm_status palm_engine_decode(const void *recipe, size_t recipe_size, const void *data,
                                        size_t data_size, const palm_engine_array *to);

/* See kernels/guided/guided.h. */
PALM_API palm_status palm_engine_guided_upsample(const palm_engine_rows *offset,
                                                 const palm_engine_rows *slopes, size_t planes,
                                                 const palm_engine_rows *image,
                                                 const palm_engine_rows *to);
PALM_API palm_status palm_engine_guided_fit(const palm_engine_rows *prior,
                                            const palm_engine_rows *colours, size_t planes,
                                            float reach, float weight,
                                            const palm_engine_rows *to);

/* The plans in a section of a file, and its constants; both must outlive what is made of them.
 * json: inputs, outputs, metadata, backends and shapes. */
PALM_API palm_status palm_engine_plans_create(const void *section, size_t section_size,
                                              const void *data, size_t data_size,
                                              palm_engine_plans **plans, char **json);
PALM_API void palm_engine_plans_free(palm_engine_plans *plans);
/* [[node, kernel]] of each step of a plan. */
PALM_API palm_status palm_engine_plans_steps(const palm_engine_plans *plans, size_t index,
                                             char **json);
/* One of them, ready to run; json: outputs, and the bytes of `data` that a run reads. */
PALM_API palm_status palm_engine_plans_program(const palm_engine_plans *plans, size_t index,
                                               const char *isa, int32_t threads,
                                               palm_engine_program **program, char **json);

/* A plan of the caller's. The constants must outlive the program. */
PALM_API palm_status palm_engine_program_create(const palm_engine_steps *steps,
                                                const palm_engine_array *constants,
                                                size_t constant_count, int64_t arena_bytes,
                                                const char *isa, int32_t threads,
                                                palm_engine_program **program);
PALM_API void palm_engine_program_free(palm_engine_program *program);

/* options: their slice_ms is not looked at. eager: share out whatever can be split, worth it or
 * not. */
PALM_API palm_status palm_engine_session_create(const palm_engine_program *program,
                                                const palm_session_options *options, int eager,
                                                palm_engine_session **session);
PALM_API void palm_engine_session_free(palm_engine_session *session);
PALM_API size_t palm_engine_session_steps(const palm_engine_session *session);
/* PALM_ERROR_ARGUMENT: an object is no array that `numpy` tells of, or is not C-contiguous, or an
 * output cannot be written. */
PALM_API palm_status palm_engine_run(const palm_engine_call *call);

#ifdef __cplusplus
}
#endif

#endif
