#define _POSIX_C_SOURCE 200809L
#include "golden.h"

#include <string.h>

bytes bytes_of(size_t size) {
  bytes made = {NULL, size};
  void *data = NULL;
  CHECK(posix_memalign(&data, 64, size ? size : 1) == 0);
  made.data = data;
  memset(made.data, 0xA5, size);
  return made;
}

bytes read_file(const char *folder, const char *name) {
  char path[4096];
  FILE *file;
  bytes made;
  long size;
  CHECK(snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path);
  file = fopen(path, "rb");
  if (!file) perror(path);
  CHECK(file && !fseek(file, 0, SEEK_END) && (size = ftell(file)) >= 0);
  rewind(file);
  made = bytes_of((size_t)size);
  CHECK(fread(made.data, 1, made.size, file) == made.size);
  fclose(file);
  return made;
}

buffers buffers_of(const palm_program *program) {
  const size_t most = (size_t)1 << 30;
  buffers made;
  size_t i;
  made.input_count = palm_program_input_count(program);
  made.output_count = palm_program_output_count(program);
  made.inputs = calloc(made.input_count + 1, sizeof *made.inputs);
  made.outputs = calloc(made.output_count + 1, sizeof *made.outputs);
  CHECK(made.inputs && made.outputs);
  for (i = 0; i < made.input_count; ++i) {
    made.inputs[i].size = palm_value_size(palm_program_input(program, i));
    if (made.inputs[i].size <= most) made.inputs[i].data = bytes_of(made.inputs[i].size).data;
  }
  for (i = 0; i < made.output_count; ++i) {
    made.outputs[i].size = palm_value_size(palm_program_output(program, i));
    if (made.outputs[i].size <= most) made.outputs[i].data = bytes_of(made.outputs[i].size).data;
  }
  return made;
}

void read_inputs(buffers *made, const char *folder) {
  size_t i;
  for (i = 0; i < made->input_count; ++i) {
    char name[40];
    bytes read;
    snprintf(name, sizeof name, "input.%zu", i);
    read = read_file(folder, name);
    CHECK(read.size == made->inputs[i].size);
    free((void *)made->inputs[i].data);
    made->inputs[i].data = read.data;
  }
}

void check_outputs(const buffers *made, const char *folder) {
  size_t i;
  for (i = 0; i < made->output_count; ++i) {
    char name[40];
    bytes expected;
    snprintf(name, sizeof name, "output.%zu", i);
    expected = read_file(folder, name);
    CHECK(expected.size == made->outputs[i].size);
    CHECK(!memcmp(expected.data, made->outputs[i].data, expected.size));
    free(expected.data);
  }
}

void clear_outputs(buffers *made) {
  size_t i;
  for (i = 0; i < made->output_count; ++i)
    memset(made->outputs[i].data, 0xA5, made->outputs[i].size);
}

void free_buffers(buffers *made) {
  size_t i;
  for (i = 0; i < made->input_count; ++i) free((void *)made->inputs[i].data);
  for (i = 0; i < made->output_count; ++i) free(made->outputs[i].data);
  free(made->inputs);
  free(made->outputs);
}

palm_session *session_of(const char *folder, int threads, buffers *made) {
  char path[4096];
  palm_model *model;
  palm_program *program;
  palm_session *session;
  CHECK(snprintf(path, sizeof path, "%s/model.palm", folder) < (int)sizeof path);
  WORKS(palm_open(path, &model));
  WORKS(palm_program_create(model, 0, NULL, &program));
  WORKS(palm_session_create(program, threads, &session));
  *made = buffers_of(program);
  palm_program_free(program);
  palm_model_free(model);
  return session;
}
