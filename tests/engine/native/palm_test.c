/* Tests of palm.h: palm_test TEST FOLDER..., with the folders that golden.py wrote. */
#define _POSIX_C_SOURCE 200809L
#include "palm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "damage.h"
#include "golden.h"

static void check_value(const palm_value *value) {
  size_t axis;
  CHECK(value && palm_value_name(value));
  CHECK(palm_dtype_size(palm_value_dtype(value)) > 0);
  for (axis = 0; axis < palm_value_rank(value); ++axis)
    CHECK((palm_value_dims(value)[axis] < 0) == (palm_value_dim_name(value, axis) != NULL));
  CHECK(!palm_value_dim_name(value, palm_value_rank(value)));
}

static void check_descriptions(const palm_model *model, const palm_program *program) {
  size_t i, axis;
  CHECK(palm_model_plan_count(model) > 0);
  CHECK(palm_program_input_count(program) == palm_model_input_count(model));
  CHECK(palm_program_output_count(program) == palm_model_output_count(model));
  for (i = 0; i < palm_model_input_count(model); ++i) {
    const palm_value *open = palm_model_input(model, i), *known = palm_program_input(program, i);
    check_value(open);
    check_value(known);
    CHECK(!strcmp(palm_value_name(open), palm_value_name(known)));
    CHECK(palm_value_dtype(open) == palm_value_dtype(known));
    CHECK(palm_value_rank(open) == palm_value_rank(known));
    for (axis = 0; axis < palm_value_rank(open); ++axis) {
      const int64_t dim = palm_value_dims(known)[axis];
      CHECK(dim >= 0 && dim == palm_model_plan_dims(model, 0, i)[axis]);
      CHECK(palm_value_dims(open)[axis] == -1 || palm_value_dims(open)[axis] == dim);
    }
  }
  for (i = 0; i < palm_model_output_count(model); ++i) {
    check_value(palm_model_output(model, i));
    check_value(palm_program_output(program, i));
  }
  for (i = 0; i < palm_model_metadata_count(model); ++i) {
    const char *key = palm_model_metadata_key(model, i);
    CHECK(!strcmp(palm_model_metadata(model, key), palm_model_metadata_value(model, i)));
  }
  for (i = 0; i < palm_program_step_count(program); ++i) {
    CHECK(palm_program_step_node(program, i));
    CHECK(*palm_program_step_kernel(program, i));
  }
}

/* Runs and profiles an open model, and frees all in an order of its own. */
static void check_model(palm_model *model, const char *folder, int threads, int model_first) {
  palm_options options = PALM_OPTIONS;
  palm_program *program;
  palm_session *session;
  buffers made;
  double *seconds, sum = 0;
  size_t steps, i;
  options.threads = threads;
  WORKS(palm_program_create(model, 0, &options, &program));
  check_descriptions(model, program);
  if (model_first) palm_model_free(model);
  made = buffers_of(program);
  read_inputs(&made, folder);
  steps = palm_program_step_count(program);
  WORKS(palm_session_create(program, threads, &session));
  if (model_first) palm_program_free(program);
  for (i = 0; i < 2; ++i) {
    clear_outputs(&made);
    WORKS(palm_run(session, made.inputs, made.input_count, made.outputs, made.output_count));
    check_outputs(&made, folder);
  }
  clear_outputs(&made);
  seconds = calloc(steps + 1, sizeof *seconds);
  CHECK(seconds);
  WORKS(palm_profile(session, made.inputs, made.input_count, made.outputs, made.output_count,
                     seconds, steps));
  check_outputs(&made, folder);
  for (i = 0; i < steps; ++i) sum += seconds[i];
  CHECK(sum > 0 && sum < 1000);
  free(seconds);
  palm_session_free(session);
  if (!model_first) palm_program_free(program);
  if (!model_first) palm_model_free(model);
  free_buffers(&made);
}

/* Every model gives what the cpu backend gave, from a path, a copy, and where it lies. */
static void test_golden(int count, char **folders) {
  int f;
  CHECK(palm_version() >> 16 == PALM_VERSION_MAJOR && palm_version() >= PALM_VERSION);
  CHECK(palm_isa_count() > 0 && !palm_isa_name(palm_isa_count()));
  for (f = 0; f < count; ++f) {
    char path[4096];
    palm_model *model;
    bytes file = read_file(folders[f], "model.palm");
    snprintf(path, sizeof path, "%s/model.palm", folders[f]);
    WORKS(palm_open(path, &model));
    check_model(model, folders[f], 1, 0);
    WORKS(palm_open_bytes(file.data, file.size, PALM_BORROW, &model));
    check_model(model, folders[f], 2, 1);
    WORKS(palm_open_bytes(file.data, file.size, PALM_COPY, &model));
    memset(file.data, 0, file.size);
    free(file.data);
    check_model(model, folders[f], 1, 1);
  }
}

static void check_opening(palm_model **model, const bytes *file) {
  bytes apart = bytes_of(file->size + 1);
  FAILS(PALM_ERROR_ARGUMENT, palm_open(NULL, model));
  CHECK(*model == NULL);
  FAILS(PALM_ERROR_ARGUMENT, palm_open("x.palm", NULL));
  FAILS(PALM_ERROR_MODEL, palm_open("/no/such/file.palm", model));
  CHECK(strstr(palm_error(), "/no/such/file.palm: "));
  FAILS(PALM_ERROR_MODEL, palm_open("/", model));
  FAILS(PALM_ERROR_MODEL, palm_open("/dev/zero", model));
  FAILS(PALM_ERROR_MODEL, palm_open("", model));
  FAILS(PALM_ERROR_ARGUMENT, palm_open_bytes(NULL, 100, PALM_COPY, model));
  FAILS(PALM_ERROR_ARGUMENT, palm_open_bytes(file->data, file->size, 2, model));
  FAILS(PALM_ERROR_MODEL, palm_open_bytes(file->data, 0, PALM_COPY, model));
  memcpy(apart.data + 1, file->data, file->size);
  FAILS(PALM_ERROR_ARGUMENT, palm_open_bytes(apart.data + 1, file->size, PALM_BORROW, model));
  WORKS(palm_open_bytes(apart.data + 1, file->size, PALM_COPY, model));
  free(apart.data);
}

static void check_options(const palm_model *model, palm_program **program) {
  const palm_options good = PALM_OPTIONS;
  palm_options options = good;
  struct {
    palm_options known;
    int newer;
  } grown = {PALM_OPTIONS, 0};
  const size_t plans = palm_model_plan_count(model);
  FAILS(PALM_ERROR_ARGUMENT, palm_program_create(NULL, 0, NULL, program));
  CHECK(*program == NULL);
  FAILS(PALM_ERROR_ARGUMENT, palm_program_create(model, 0, NULL, NULL));
  FAILS(PALM_ERROR_ARGUMENT, palm_program_create(model, plans, NULL, program));
  FAILS(PALM_ERROR_ARGUMENT, palm_program_create(model, (size_t)-1, NULL, program));
  options.size = 1;
  FAILS(PALM_ERROR_ARGUMENT, palm_program_create(model, 0, &options, program));
  options.size = (size_t)-1;
  FAILS(PALM_ERROR_ARGUMENT, palm_program_create(model, 0, &options, program));
  for (options = good, options.threads = -1; options.threads <= 257; options.threads += 129)
    if (options.threads < 1 || options.threads > 256)
      FAILS(PALM_ERROR_ARGUMENT, palm_program_create(model, 0, &options, program));
  options = good, options.precision = 1;
  FAILS(PALM_ERROR_UNSUPPORTED, palm_program_create(model, 0, &options, program));
  options = good, options.isa = "no such set";
  FAILS(PALM_ERROR_BACKEND, palm_program_create(model, 0, &options, program));
  grown.known.size = sizeof grown, grown.newer = 1;
  FAILS(PALM_ERROR_UNSUPPORTED, palm_program_create(model, 0, &grown.known, program));
  memset(&grown, 0, sizeof grown);
  grown.known = good, grown.known.size = sizeof grown;
  WORKS(palm_program_create(model, 0, &grown.known, program));
  palm_program_free(*program);
  options = good, options.isa = palm_isa_name(palm_isa_count() - 1);
  WORKS(palm_program_create(model, 0, &options, program));
}

static void check_running(palm_session *session, buffers *made, const char *folder) {
  const size_t in = made->input_count, out = made->output_count;
  palm_input *inputs = made->inputs;
  palm_output *outputs = made->outputs;
  const palm_input input = inputs[0];
  const palm_output output = outputs[0];
  bytes aside = bytes_of(input.size + output.size + 64);
  double second;
  FAILS(PALM_ERROR_ARGUMENT, palm_run(NULL, inputs, in, outputs, out));
  FAILS(PALM_ERROR_ARGUMENT, palm_run(session, NULL, in, outputs, out));
  FAILS(PALM_ERROR_ARGUMENT, palm_run(session, inputs, in, NULL, out));
  FAILS(PALM_ERROR_SHAPE, palm_run(session, inputs, in + 1, outputs, out));
  FAILS(PALM_ERROR_SHAPE, palm_run(session, inputs, in, outputs, out - 1));
  FAILS(PALM_ERROR_SHAPE, palm_run(session, NULL, 0, NULL, 0));
  inputs[0].size = input.size - 1;
  FAILS(PALM_ERROR_SHAPE, palm_run(session, inputs, in, outputs, out));
  inputs[0].size = (size_t)-1;
  FAILS(PALM_ERROR_SHAPE, palm_run(session, inputs, in, outputs, out));
  inputs[0].size = input.size, inputs[0].data = NULL;
  FAILS(PALM_ERROR_ARGUMENT, palm_run(session, inputs, in, outputs, out));
  inputs[0].data = aside.data + 1;
  FAILS(PALM_ERROR_ARGUMENT, palm_run(session, inputs, in, outputs, out));
  inputs[0] = input;
  outputs[0].size = output.size + 4;
  FAILS(PALM_ERROR_SHAPE, palm_run(session, inputs, in, outputs, out));
  outputs[0].size = output.size, outputs[0].data = NULL;
  FAILS(PALM_ERROR_ARGUMENT, palm_run(session, inputs, in, outputs, out));
  inputs[0].data = aside.data;
  outputs[0].data = aside.data + input.size - 4;
  FAILS(PALM_ERROR_ARGUMENT, palm_run(session, inputs, in, outputs, out));
  outputs[0].data = aside.data + input.size;
  WORKS(palm_run(session, inputs, in, outputs, out));
  inputs[0] = input, outputs[0] = output;
  FAILS(PALM_ERROR_ARGUMENT, palm_profile(NULL, inputs, in, outputs, out, &second, 1));
  FAILS(PALM_ERROR_SHAPE, palm_profile(session, inputs, in, outputs, out, &second, 1 << 20));
  FAILS(PALM_ERROR_ARGUMENT, palm_session_watch(NULL, NULL, NULL));
  WORKS(palm_run(session, inputs, in, outputs, out));
  check_outputs(made, folder);
  free(aside.data);
}

/* A session whose threads are placed gives the same, and says what it cannot be. */
static void check_session_options(const palm_program *program, buffers *made, const char *folder) {
  palm_session_options options = PALM_SESSION_OPTIONS;
  const int32_t no_core[] = {1 << 30};
  palm_session *session;
  options.priority = PALM_PRIORITY_LOW;
  options.threads = 2;
  options.slice_ms = 0.5;
  WORKS(palm_session_create_with(program, &options, &session));
  read_inputs(made, folder);
  WORKS(palm_run(session, made->inputs, made->input_count, made->outputs, made->output_count));
  check_outputs(made, folder);
  palm_session_free(session);
  WORKS(palm_session_create_with(program, NULL, &session));
  palm_session_free(session);
  options.cores = no_core, options.core_count = 1;
  FAILS(PALM_ERROR_BACKEND, palm_session_create_with(program, &options, &session));
  options.cores = NULL;
  FAILS(PALM_ERROR_ARGUMENT, palm_session_create_with(program, &options, &session));
  options.core_count = 0, options.priority = 3;
  FAILS(PALM_ERROR_ARGUMENT, palm_session_create_with(program, &options, &session));
  options.priority = PALM_PRIORITY_NORMAL, options.slice_ms = -1;
  FAILS(PALM_ERROR_ARGUMENT, palm_session_create_with(program, &options, &session));
  options.slice_ms = 0, options.size = 1;
  FAILS(PALM_ERROR_ARGUMENT, palm_session_create_with(program, &options, &session));
}

/* What no call may have ends in a status and a line of text, and does no harm. */
static void test_arguments(int count, char **folders) {
  palm_model *model;
  palm_program *program;
  palm_session *session;
  buffers made;
  bytes file = read_file(folders[0], "model.palm");
  CHECK(count > 0 && !strcmp(palm_error(), ""));
  check_opening(&model, &file);
  free(file.data);
  check_options(model, &program);
  FAILS(PALM_ERROR_ARGUMENT, palm_session_create(NULL, 1, &session));
  FAILS(PALM_ERROR_ARGUMENT, palm_session_create(program, 0, &session));
  FAILS(PALM_ERROR_ARGUMENT, palm_session_create(program, 257, &session));
  FAILS(PALM_ERROR_ARGUMENT, palm_session_create(program, 1, NULL));
  palm_program_free(program);
  WORKS(palm_program_create(model, 0, NULL, &program));
  WORKS(palm_session_create(program, 1, &session));
  made = buffers_of(program);
  read_inputs(&made, folders[0]);
  check_running(session, &made, folders[0]);
  check_session_options(program, &made, folders[0]);
  free_buffers(&made);
  palm_session_free(session);
  CHECK(!palm_model_input(model, 1000) && !palm_model_output(model, (size_t)-1));
  CHECK(!palm_model_plan_dims(model, 1000, 0) && !palm_model_plan_dims(model, 0, 1000));
  CHECK(!palm_model_metadata_key(model, 1000) && !palm_model_metadata(model, "no such key"));
  CHECK(!palm_program_input(program, 1000) && !palm_program_step_node(program, 1 << 20));
  palm_program_free(program);
  palm_model_free(model);
  CHECK(!palm_model_input_count(NULL) && !palm_model_input(NULL, 0) && !palm_value_name(NULL));
  CHECK(!palm_model_plan_count(NULL) && !palm_model_plan_dims(NULL, 0, 0));
  CHECK(!palm_model_metadata(NULL, "a") && !palm_program_step_count(NULL));
  CHECK(palm_value_dtype(NULL) == -1 && !palm_value_dims(NULL) && !palm_value_size(NULL));
  CHECK(!palm_dtype_name(-1) && !palm_dtype_name(13) && !palm_dtype_size(99));
  CHECK(!strcmp(palm_dtype_name(PALM_UINT16), "uint16") && palm_dtype_size(PALM_BFLOAT16) == 2);
  palm_model_free(NULL);
  palm_program_free(NULL);
  palm_session_free(NULL);
}

/* Files that C cannot run say what to do: each has a word of it in its name. */
static void test_refused(int count, char **paths) {
  int i;
  for (i = 0; i < count; ++i) {
    palm_model *model;
    const char *name = strrchr(paths[i], '/') + 1;
    char word[100];
    size_t c;
    snprintf(word, sizeof word, "%.*s", (int)(strlen(name) - strlen(".palm")), name);
    for (c = 0; word[c]; ++c) word[c] = word[c] == '_' ? ' ' : word[c];
    FAILS(strcmp(word, "format") ? PALM_ERROR_UNSUPPORTED : PALM_ERROR_MODEL,
          palm_open(paths[i], &model));
    CHECK(strstr(strrchr(palm_error(), '/'), ": ") && strstr(strrchr(palm_error(), '/'), word));
    puts(palm_error());
  }
}

static void test_damaged(int count, char **folders) {
  int f;
  for (f = 0; f < count; ++f) {
    const bytes file = read_file(folders[f], "model.palm");
    check_damage(&file);
    check_lies(file.data, file.size);
    free(file.data);
  }
}

typedef struct runner {
  palm_session *session;
  buffers made;
  const char *folder;
  int busy, ran;
} runner;

static void *run_often(void *data) {
  runner *r = data;
  int i;
  for (i = 0; i < 30; ++i) {
    const palm_status status = palm_run(r->session, r->made.inputs, r->made.input_count,
                                        r->made.outputs, r->made.output_count);
    if (status == PALM_ERROR_BACKEND && strstr(palm_error(), "another caller")) {
      ++r->busy;
      continue;
    }
    WORKS(status);
    ++r->ran;
    check_outputs(&r->made, r->folder);
    clear_outputs(&r->made);
  }
  return NULL;
}

/* Two sessions run at the same time; one session says that it is busy. */
static void test_threads(int count, char **folders) {
  int f, shared;
  for (f = 0; f < count; ++f) {
    for (shared = 0; shared < 2; ++shared) {
      char path[4096];
      palm_model *model;
      palm_program *program;
      pthread_t threads[2];
      runner runners[2];
      int i;
      snprintf(path, sizeof path, "%s/model.palm", folders[f]);
      WORKS(palm_open(path, &model));
      WORKS(palm_program_create(model, 0, NULL, &program));
      for (i = 0; i < 2; ++i) {
        runner *r = &runners[i];
        if (i && shared) r->session = runners[0].session;
        else WORKS(palm_session_create(program, 1, &r->session));
        r->made = buffers_of(program);
        read_inputs(&r->made, folders[f]);
        r->folder = folders[f], r->busy = r->ran = 0;
      }
      for (i = 0; i < 2; ++i) CHECK(!pthread_create(&threads[i], NULL, run_often, &runners[i]));
      for (i = 0; i < 2; ++i) CHECK(!pthread_join(threads[i], NULL));
      for (i = 0; i < 2; ++i) {
        CHECK(shared ? runners[i].ran + runners[i].busy == 30 : runners[i].ran == 30);
        if (!i || !shared) palm_session_free(runners[i].session);
        free_buffers(&runners[i].made);
      }
      CHECK(runners[0].ran + runners[1].ran > 0);
      palm_program_free(program);
      palm_model_free(model);
    }
  }
}

static int give_up(void *user) {
  ++*(int *)user;
  return 0;
}

/* A long run ends when it is asked to; the session runs again. paths: the slow model, a folder. */
static void test_interrupt(int count, char **paths) {
  palm_options options = PALM_OPTIONS;
  palm_model *model;
  palm_program *program;
  palm_session *session;
  buffers made;
  int asked = 0;
  CHECK(count == 2);
  WORKS(palm_open(paths[0], &model));
  options.isa = palm_isa_name(palm_isa_count() - 1);
  WORKS(palm_program_create(model, 0, &options, &program));
  WORKS(palm_session_create(program, 2, &session));
  WORKS(palm_session_watch(session, give_up, &asked));
  made = buffers_of(program);
  FAILS(PALM_ERROR_INTERRUPTED,
        palm_run(session, made.inputs, made.input_count, made.outputs, made.output_count));
  CHECK(asked == 1);
  FAILS(PALM_ERROR_INTERRUPTED,
        palm_run(session, made.inputs, made.input_count, made.outputs, made.output_count));
  CHECK(asked == 2);
  free_buffers(&made);
  palm_session_free(session);
  palm_program_free(program);
  palm_model_free(model);
  session = session_of(paths[1], 1, &made);
  read_inputs(&made, paths[1]);
  WORKS(palm_session_watch(session, give_up, &asked));
  WORKS(palm_run(session, made.inputs, made.input_count, made.outputs, made.output_count));
  WORKS(palm_session_watch(session, NULL, NULL));
  WORKS(palm_run(session, made.inputs, made.input_count, made.outputs, made.output_count));
  check_outputs(&made, paths[1]);
  palm_session_free(session);
  free_buffers(&made);
}

int main(int count, char **arguments) {
  static const struct {
    const char *name;
    void (*run)(int count, char **folders);
  } tests[] = {{"golden", test_golden},   {"arguments", test_arguments}, {"refused", test_refused},
               {"damaged", test_damaged}, {"threads", test_threads},     {"interrupt", test_interrupt}};
  size_t i;
  for (i = 0; count > 2 && i < sizeof tests / sizeof *tests; ++i) {
    if (strcmp(arguments[1], tests[i].name)) continue;
    tests[i].run(count - 2, arguments + 2);
    return 0;
  }
  fprintf(stderr, "palm_test golden|arguments|refused|damaged|threads|interrupt FOLDER...\n");
  return 2;
}
