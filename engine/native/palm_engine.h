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
#define PALM_ENGINE_VERSION 3

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

/* A GPU, driven through the functions of webgpu.h and wgpu.h, as wgpu-native 29 has them: what they
 * are called there behind "wgpu". The caller keeps what belongs to it: all handles are borrowed. */
typedef void (*palm_engine_gpu_function)(void);
typedef struct palm_engine_gpu {
  palm_engine_gpu_function device_push_error_scope, device_pop_error_scope,
      device_create_command_encoder, device_poll;
  palm_engine_gpu_function queue_write_buffer, queue_submit_for_index;
  palm_engine_gpu_function command_encoder_copy_buffer_to_buffer,
      command_encoder_begin_compute_pass, command_encoder_finish, command_encoder_release;
  palm_engine_gpu_function compute_pass_encoder_set_pipeline, compute_pass_encoder_set_bind_group,
      compute_pass_encoder_dispatch_workgroups, compute_pass_encoder_end,
      compute_pass_encoder_release;
  palm_engine_gpu_function command_buffer_release;
  palm_engine_gpu_function buffer_map_async, buffer_get_mapped_range, buffer_get_const_mapped_range,
      buffer_unmap;
  void *device, *queue;
  double awake_s; /* a fetch waits awake so long at most, and then asleep */
} palm_engine_gpu;
/* A buffer of the caller's that the host can write, and where: NULL while it cannot. */
typedef struct palm_engine_gpu_upload {
  void *buffer, *mapped;
  size_t size;
} palm_engine_gpu_upload;
typedef struct palm_engine_gpu_write {
  void *buffer;
  uint64_t offset;
  const void *data;
  size_t size;
} palm_engine_gpu_write;
typedef struct palm_engine_gpu_copy {
  void *from;
  uint64_t from_offset;
  void *to;
  uint64_t to_offset, size;
} palm_engine_gpu_copy;
typedef struct palm_engine_gpu_dispatch {
  void *pipeline, *group;
  uint32_t x, y;
} palm_engine_gpu_dispatch;
/* In this order: writes of the host's, copies, dispatches in one compute pass, copies. */
typedef struct palm_engine_gpu_work {
  const palm_engine_gpu_write *writes;
  size_t write_count;
  const palm_engine_gpu_copy *before;
  size_t before_count;
  const palm_engine_gpu_dispatch *dispatches;
  size_t dispatch_count;
  const palm_engine_gpu_copy *behind;
  size_t behind_count;
} palm_engine_gpu_work;

/* Hand it all over in one submit, whose number is told. upload: NULL, or what takes the host's
 * writes if it is mapped and they fit; then it is mapped no more. PALM_ERROR_BACKEND, with what the
 * library says: something is refused, and nothing was submitted. The library collects errors for
 * all threads at once: nothing else may do so meanwhile. */
PALM_API palm_status palm_engine_gpu_submit(const palm_engine_gpu *gpu,
                                            const palm_engine_gpu_work *work,
                                            palm_engine_gpu_upload *upload, uint64_t *submit);
/* Wait until a submit is done. */
PALM_API palm_status palm_engine_gpu_wait(const palm_engine_gpu *gpu, uint64_t submit);
/* The same, and copy what is then in a buffer that the host can read. upload: NULL, or what is
 * mapped again for the next submit. */
PALM_API palm_status palm_engine_gpu_fetch(const palm_engine_gpu *gpu, uint64_t submit,
                                           void *buffer, void *to, size_t size,
                                           palm_engine_gpu_upload *upload);

#ifdef __cplusplus
}
#endif

#endif
