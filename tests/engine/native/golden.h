/* What the C tests share: a folder of golden.py, and buffers for a program. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "palm.h"

/* Ends the process unless it holds, or the call worked. */
#define CHECK(holds)                                                        \
  do {                                                                      \
    if (!(holds)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #holds); \
      exit(1);                                                              \
    }                                                                       \
  } while (0)
#define WORKS(call)                                                                       \
  do {                                                                                    \
    const palm_status status_ = (call);                                                   \
    if (status_) {                                                                        \
      fprintf(stderr, "%s:%d: %s: %d: %s\n", __FILE__, __LINE__, #call, (int)status_,     \
              palm_error());                                                              \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)

/* A call that has to fail, with this status and a text. */
#define FAILS(expected, call)                                                              \
  do {                                                                                     \
    const palm_status status_ = (call);                                                    \
    if (status_ != (expected) || !*palm_error() || strchr(palm_error(), '\n')) {           \
      fprintf(stderr, "%s:%d: %s: expected %d, got %d: %s\n", __FILE__, __LINE__, #call,   \
              (int)(expected), (int)status_, palm_error());                                \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

/* A run of bytes that is all of what malloc gave, at a multiple of 64. */
typedef struct bytes {
  unsigned char *data;
  size_t size;
} bytes;

bytes bytes_of(size_t size); /* of 0xA5 */
bytes read_file(const char *folder, const char *name);

/* Inputs and outputs of a program. */
typedef struct buffers {
  size_t input_count, output_count;
  palm_input *inputs;
  palm_output *outputs;
} buffers;

buffers buffers_of(const palm_program *program); /* none over 1 GiB */
void read_inputs(buffers *made, const char *folder);
void check_outputs(const buffers *made, const char *folder); /* bit for bit those of the folder */
void clear_outputs(buffers *made);
void free_buffers(buffers *made);

/* A session of a model's first plan, which keeps what it needs. */
palm_session *session_of(const char *folder, int threads, buffers *made);

#endif
