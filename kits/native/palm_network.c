#include "palm_network.h"

#include <stdlib.h>
#include <string.h>

#define MOST_VALUES 16

/* A plan of the file, and once a picture needed it, what runs it. */
typedef struct plan {
  palm_program *program;
  palm_session *session;
} plan;

struct palm_network {
  palm_model *model;
  int32_t threads;
  size_t plan_count;
  plan *plans;
  palm_kits_size *sizes;
};

/* The input's place in the model; the count of inputs if there is none. */
static size_t input_named(const palm_model *model, const char *name) {
  size_t count = palm_model_input_count(model), i;
  for (i = 0; i < count; ++i)
    if (!strcmp(palm_value_name(palm_model_input(model, i)), name)) return i;
  return count;
}

/* Whether image is float32[1, height, width, 3] in every plan; writes their sizes. */
static int read_sizes(palm_network *network) {
  size_t image = input_named(network->model, "image"), i;
  const palm_value *value = palm_model_input(network->model, image);
  if (!value || palm_value_dtype(value) != PALM_FLOAT32 || palm_value_rank(value) != 4) return 0;
  for (i = 0; i < network->plan_count; ++i) {
    const int64_t *dims = palm_model_plan_dims(network->model, i, image);
    if (!dims || dims[0] != 1 || dims[3] != 3 || dims[1] > 16384 || dims[2] > 16384) return 0;
    network->sizes[i].height = (int32_t)dims[1];
    network->sizes[i].width = (int32_t)dims[2];
  }
  return 1;
}

static palm_status make_ready(palm_network *network, plan *made, size_t index) {
  palm_status status = PALM_OK;
  palm_options options = PALM_OPTIONS;
  options.threads = network->threads;
  if (!made->program) status = palm_program_create(network->model, index, &options, &made->program);
  if (!status && !made->session)
    status = palm_session_create(made->program, network->threads, &made->session);
  return status;
}

/* The tensor that a kit has of this name, if it is of this size. */
static float *data_of(const palm_kits_tensor *tensors, size_t count, const palm_value *value) {
  size_t i, axis, size;
  for (i = 0; i < count; ++i) {
    if (strcmp(tensors[i].name, palm_value_name(value))) continue;
    size = sizeof(float);
    for (axis = 0; axis < tensors[i].rank; ++axis) size *= (size_t)tensors[i].dims[axis];
    return palm_value_dtype(value) == PALM_FLOAT32 && size == palm_value_size(value)
               ? tensors[i].data
               : NULL;
  }
  return NULL;
}

static int32_t run(void *user, const palm_kits_tensor *inputs, size_t input_count,
                   const palm_kits_tensor *outputs, size_t output_count) {
  palm_network *network = user;
  const int64_t *dims = inputs[0].dims;
  palm_input in[MOST_VALUES];
  palm_output out[MOST_VALUES];
  size_t i, index, in_count, out_count;
  palm_status status;
  plan *at;
  for (index = 0; index < network->plan_count; ++index)
    if (network->sizes[index].height == dims[1] && network->sizes[index].width == dims[2]) break;
  if (index == network->plan_count) return PALM_ERROR_SHAPE;
  at = &network->plans[index];
  status = make_ready(network, at, index);
  if (status) return status;
  in_count = palm_program_input_count(at->program);
  out_count = palm_program_output_count(at->program);
  if (in_count > MOST_VALUES || out_count > MOST_VALUES) return PALM_ERROR_UNSUPPORTED;
  for (i = 0; i < in_count; ++i) {
    const palm_value *value = palm_program_input(at->program, i);
    in[i].data = data_of(inputs, input_count, value);
    in[i].size = palm_value_size(value);
    if (!in[i].data) return PALM_ERROR_MODEL;
  }
  for (i = 0; i < out_count; ++i) {
    const palm_value *value = palm_program_output(at->program, i);
    out[i].data = data_of(outputs, output_count, value);
    out[i].size = palm_value_size(value);
    if (!out[i].data) return PALM_ERROR_MODEL;
  }
  /* What the kit asks for and the file has not. */
  if (out_count != output_count) return PALM_ERROR_MODEL;
  return palm_run(at->session, in, in_count, out, out_count);
}

palm_status palm_network_open(const char *path, int32_t threads, palm_network **network) {
  palm_status status;
  palm_network *made;
  *network = NULL;
  made = calloc(1, sizeof *made);
  if (!made) return PALM_ERROR_BACKEND;
  made->threads = threads;
  status = palm_open(path, &made->model);
  if (!status) {
    made->plan_count = palm_model_plan_count(made->model);
    made->plans = calloc(made->plan_count, sizeof *made->plans);
    made->sizes = calloc(made->plan_count, sizeof *made->sizes);
    if (!made->plans || !made->sizes) status = PALM_ERROR_BACKEND;
    else if (!read_sizes(made)) status = PALM_ERROR_UNSUPPORTED;
  }
  if (status) palm_network_free(made);
  else *network = made;
  return status;
}

void palm_network_free(palm_network *network) {
  size_t i;
  if (!network) return;
  for (i = 0; network->plans && i < network->plan_count; ++i) {
    palm_session_free(network->plans[i].session);
    palm_program_free(network->plans[i].program);
  }
  palm_model_free(network->model);
  free(network->plans);
  free(network->sizes);
  free(network);
}

void palm_network_describe(const palm_network *network, palm_kits_network *described) {
  described->run = run;
  described->user = (void *)network;
  described->sizes = network->sizes;
  described->size_count = network->plan_count;
}

double palm_network_threshold(const palm_network *network) {
  const char *text = palm_model_metadata(network->model, "threshold");
  double value = 0, digit = 1;
  if (!text) return 0.5;
  /* Not by strtod, which in some countries ends at the point. */
  for (; *text >= '0' && *text <= '9'; ++text) value = 10 * value + (*text - '0');
  if (*text == '.')
    for (++text; *text >= '0' && *text <= '9'; ++text) value += (*text - '0') * (digit /= 10);
  return value;
}
