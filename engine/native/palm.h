/* The runtime of PalmKit in C: opens a .palm file, says what is in it, and runs it.
 *
 *   palm_model *model;
 *   palm_program *program;
 *   palm_session *session;
 *   if (palm_open("net.palm", &model) || palm_program_create(model, 0, NULL, &program) ||
 *       palm_session_create(program, 1, &session))
 *     puts(palm_error());
 *   palm_input in = {pixels, sizeof pixels};
 *   palm_output out = {scores, sizeof scores};
 *   if (palm_run(session, &in, 1, &out, 1)) puts(palm_error());
 *
 * A model is an open file. A program is one of its plans, for inputs of certain sizes, with the
 * weights as the kernels read them. A session is what one caller at a time needs to run a program:
 * several sessions of one program share its weights. What one function made another frees, in any
 * order: a program keeps what it needs of its model, and a session what it needs of its program.
 *
 * Models and programs do not change and may be used by many threads at once; a session serves one
 * at a time, and says so to the others. No function throws or ends the process. What is in a file
 * is not trusted. Texts are UTF-8, end with a zero and live as long as the handle that was asked.
 *
 * The interface grows by functions, by fields at the end of options, and by numbers: what is
 * compiled with an older header of the same PALM_VERSION_MAJOR runs with a newer library.
 */
#ifndef PALM_H
#define PALM_H

#include <stddef.h>
#include <stdint.h>

#define PALM_VERSION_MAJOR 1
#define PALM_VERSION_MINOR 1
#define PALM_VERSION (PALM_VERSION_MAJOR << 16 | PALM_VERSION_MINOR)

#ifndef PALM_API
#if defined(_WIN32)
#define PALM_API __declspec(dllimport)
#elif defined(__GNUC__)
#define PALM_API __attribute__((visibility("default")))
#else
#define PALM_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What came of a call: who has to act. Where it is not PALM_OK, palm_error has a text, and what
 * would have been made is NULL. */
typedef int32_t palm_status;
enum {
  PALM_OK = 0,
  PALM_ERROR_MODEL = 1,       /* the file cannot be read, is no model, or is damaged */
  PALM_ERROR_SHAPE = 2,       /* a buffer is of another size than the program has for it */
  PALM_ERROR_UNSUPPORTED = 3, /* the file or the call asks for what this library has not */
  PALM_ERROR_BACKEND = 4,     /* the machine: no memory, no threads, or a session that is busy */
  PALM_ERROR_ARGUMENT = 5,    /* a NULL, an index or an option that no call may have */
  PALM_ERROR_INTERRUPTED = 6  /* palm_ask said so */
};

/* What numbers are. bfloat16 is the upper half of a float32; a bool is a byte, 0 or 1. */
typedef int32_t palm_dtype;
enum {
  PALM_FLOAT32 = 0,
  PALM_FLOAT64 = 1,
  PALM_FLOAT16 = 2,
  PALM_INT8 = 3,
  PALM_UINT8 = 4,
  PALM_INT16 = 5,
  PALM_UINT16 = 6,
  PALM_INT32 = 7,
  PALM_UINT32 = 8,
  PALM_INT64 = 9,
  PALM_UINT64 = 10,
  PALM_BOOL = 11,
  PALM_BFLOAT16 = 12
};

/* How exact sums of products are. */
typedef int32_t palm_precision;
enum {
  PALM_PRECISION_HIGH = 0 /* float32, to about 2e-6 of an output's range */
};

typedef struct palm_model palm_model;
typedef struct palm_program palm_program;
typedef struct palm_session palm_session;
typedef struct palm_value palm_value; /* an input or output, and what it is */

/* How a program is made. Begin with PALM_OPTIONS, which has the size and the defaults. */
typedef struct palm_options {
  size_t size;              /* sizeof(palm_options) */
  int32_t threads;          /* that make the program ready, 1 to 256 */
  palm_precision precision; /* as plans in files are of PALM_PRECISION_HIGH, it is the only one */
  const char *isa;          /* no instructions beyond this set: a palm_isa_name; NULL: the best */
} palm_options;
#define PALM_OPTIONS {sizeof(palm_options), 1, PALM_PRECISION_HIGH, NULL}

/* Behind or before which others threads run. "high" may need a right that programs rarely have. */
typedef int32_t palm_priority;
enum { PALM_PRIORITY_NORMAL = 0, PALM_PRIORITY_LOW = 1, PALM_PRIORITY_HIGH = 2 };

/* How a session runs. Begin with PALM_SESSION_OPTIONS, which has the size and the defaults. With a
 * priority or cores, a run is done by threads of the session alone, and who calls waits. */
typedef struct palm_session_options {
  size_t size;            /* sizeof(palm_session_options) */
  int32_t threads;        /* that a run uses, 1 to 256 */
  palm_priority priority; /* of these threads */
  const int32_t *cores;   /* that they stay on, by the system's numbers; NULL: any */
  size_t core_count;
  double slice_ms; /* after how many milliseconds a thread lets others have its core; 0: never */
} palm_session_options;
#define PALM_SESSION_OPTIONS {sizeof(palm_session_options), 1, PALM_PRIORITY_NORMAL, NULL, 0, 0}

/* Dense arrays of the caller's, row-major, aligned to their elements; sizes are in bytes. */
typedef struct palm_input {
  const void *data;
  size_t size;
} palm_input;
typedef struct palm_output {
  void *data;
  size_t size;
} palm_output;

/* Whether a run is to go on: 0 ends it. Called about twice a second in the thread that runs; it
 * must return, and must not use the session. */
typedef int (*palm_ask)(void *user);

/* ---- The library */

/* PALM_VERSION of the library, which may be newer than the header's. */
PALM_API uint32_t palm_version(void);
/* What the last call of this thread that did not return PALM_OK says of it, in one line; "" before
 * there was one. It stays until another call fails. */
PALM_API const char *palm_error(void);
/* The instruction sets of this machine that there are kernels for, the best first; NULL from the
 * count on. */
PALM_API size_t palm_isa_count(void);
PALM_API const char *palm_isa_name(size_t index);
/* "float32"; bytes of an element. NULL and 0 for what is no palm_dtype. */
PALM_API const char *palm_dtype_name(palm_dtype dtype);
PALM_API size_t palm_dtype_size(palm_dtype dtype);

/* ---- A model */

/* Opens a file, which must not be changed in place while the model or a program of it lives; to
 * replace it by another is no change. It is mapped into memory, not copied, where the system can. */
PALM_API palm_status palm_open(const char *path, palm_model **model);
/* Opens a file that is in memory. */
enum {
  PALM_COPY = 0,  /* the bytes are copied */
  PALM_BORROW = 1 /* the bytes lie at a multiple of 64 and stay until model and programs are freed */
};
PALM_API palm_status palm_open_bytes(const void *bytes, size_t size, uint32_t flags,
                                     palm_model **model);
PALM_API void palm_model_free(palm_model *model);

/* Inputs and outputs, in the order of the source; NULL from the count on. */
PALM_API size_t palm_model_input_count(const palm_model *model);
PALM_API size_t palm_model_output_count(const palm_model *model);
PALM_API const palm_value *palm_model_input(const palm_model *model, size_t index);
PALM_API const palm_value *palm_model_output(const palm_model *model, size_t index);

/* What the file says of the model; NULL from the count on, or for a key that it has not. */
PALM_API size_t palm_model_metadata_count(const palm_model *model);
PALM_API const char *palm_model_metadata_key(const palm_model *model, size_t index);
PALM_API const char *palm_model_metadata_value(const palm_model *model, size_t index);
PALM_API const char *palm_model_metadata(const palm_model *model, const char *key);

/* The plans: sizes of inputs that the file has made ready. There is at least one. */
PALM_API size_t palm_model_plan_count(const palm_model *model);
/* The dims of an input in a plan, as many as its rank; NULL for what there is not. */
PALM_API const int64_t *palm_model_plan_dims(const palm_model *model, size_t plan, size_t input);

PALM_API const char *palm_value_name(const palm_value *value);
PALM_API palm_dtype palm_value_dtype(const palm_value *value);
PALM_API size_t palm_value_rank(const palm_value *value);
/* As many as the rank; -1 is a dim that the plans have sizes for. */
PALM_API const int64_t *palm_value_dims(const palm_value *value);
/* What a dim of -1 is called; NULL for others. */
PALM_API const char *palm_value_dim_name(const palm_value *value, size_t axis);
/* Bytes of all elements; 0 where a dim is -1. */
PALM_API size_t palm_value_size(const palm_value *value);

/* ---- A program */

/* Makes a plan ready to run. options: NULL for the defaults. */
PALM_API palm_status palm_program_create(const palm_model *model, size_t plan,
                                         const palm_options *options, palm_program **program);
PALM_API void palm_program_free(palm_program *program);

/* As those of the model, with all dims known. */
PALM_API size_t palm_program_input_count(const palm_program *program);
PALM_API size_t palm_program_output_count(const palm_program *program);
PALM_API const palm_value *palm_program_input(const palm_program *program, size_t index);
PALM_API const palm_value *palm_program_output(const palm_program *program, size_t index);

/* The steps in running order: the node of the model that each came from, which several may share,
 * and its kernel. NULL from the count on. */
PALM_API size_t palm_program_step_count(const palm_program *program);
PALM_API const char *palm_program_step_node(const palm_program *program, size_t index);
PALM_API const char *palm_program_step_kernel(const palm_program *program, size_t index);

/* ---- A session */

/* threads: how many a run uses, 1 to 256; 1 starts none. A session of more does not survive a
 * fork. */
PALM_API palm_status palm_session_create(const palm_program *program, int32_t threads,
                                         palm_session **session);
/* The same, with more to choose. PALM_ERROR_BACKEND if the system does not let threads be so. */
PALM_API palm_status palm_session_create_with(const palm_program *program,
                                              const palm_session_options *options,
                                              palm_session **session);
PALM_API void palm_session_free(palm_session *session);

/* Has runs ask whether they are to go on; ask NULL: no more. A run that is ended returns
 * PALM_ERROR_INTERRUPTED, and its outputs are not all written; the session may run again. */
PALM_API palm_status palm_session_watch(palm_session *session, palm_ask ask, void *user);

/* Runs the program: all inputs and outputs of it, in its order. No output may overlap another, or
 * an input. A run takes no memory. */
PALM_API palm_status palm_run(palm_session *session, const palm_input *inputs, size_t input_count,
                              const palm_output *outputs, size_t output_count);
/* The same, and writes the seconds that each step took; seconds: as many as there are steps. */
PALM_API palm_status palm_profile(palm_session *session, const palm_input *inputs,
                                  size_t input_count, const palm_output *outputs,
                                  size_t output_count, double *seconds, size_t second_count);

#ifdef __cplusplus
}
#endif

#endif
