/* Threads with kits and filters of their own, on pictures that they share, find what one alone
 * finds.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "palm_kits.h"

enum { THREADS = 6, FRAMES = 12, WIDTH = 120, HEIGHT = 90 };

static uint8_t frames[FRAMES][HEIGHT][WIDTH][3];
static const palm_kits_size square = {64, 64};

/* What a thread found, as one number. */
typedef struct result {
  uint64_t sum;
  char refusal[200];
} result;

static void add(result *to, const void *data, size_t size) {
  const unsigned char *bytes = data;
  size_t i;
  for (i = 0; i < size; ++i) to->sum = (to->sum ^ bytes[i]) * 1099511628211u;
}

static int32_t run(void *user, const palm_kits_tensor *inputs, size_t input_count,
                   const palm_kits_tensor *outputs, size_t output_count) {
  uint64_t *calls = user;
  size_t i, k, axis, size, pixels = (size_t)(inputs[0].dims[1] * inputs[0].dims[2]);
  (void)input_count;
  ++*calls;
  for (i = 0; i < output_count; ++i) {
    size = 1;
    for (axis = 0; axis < outputs[i].rank; ++axis) size *= (size_t)outputs[i].dims[axis];
    for (k = 0; k < size; ++k) outputs[i].data[k] = inputs[0].data[3 * (k * 7 % pixels)] / 255;
  }
  return 0;
}

static void end(void) {
  fprintf(stderr, "%s\n", palm_kits_error());
  exit(1);
}

static void *work(void *user) {
  result *to = user;
  uint64_t calls = 0;
  palm_kits_network detector = {run, NULL, NULL, 0}, close = {run, NULL, NULL, 1};
  palm_kits_options options = PALM_KITS_MESHES;
  palm_kits_meshes *meshes;
  palm_kits_portrait *portrait;
  palm_kits_mesh found[16];
  static const palm_kits_part outside = {9999, 0, 1, 1};
  palm_kits_mask mask = {NULL, 0, WIDTH, HEIGHT};
  int frame;
  detector.user = close.user = &calls;
  close.sizes = &square;
  options.is_video = 1;
  options.max_count = 8;
  options.min_score = 0.7;
  options.min_presence = 0.3;
  mask.data = calloc(WIDTH * HEIGHT, sizeof(float));
  if (palm_kits_meshes_create(&detector, &close, &options, &meshes) ||
      palm_kits_portrait_create(&close, NULL, &options, &portrait))
    end();
  for (frame = 0; frame < FRAMES; ++frame) {
    palm_kits_image image = PALM_KITS_IMAGE(&frames[frame][0][0][0], WIDTH, HEIGHT, PALM_KITS_BGR);
    palm_kits_list list = {0, 16};
    size_t i;
    if (palm_kits_meshes_run(meshes, &image, NULL, NULL, found, &list) ||
        palm_kits_portrait_run(portrait, &image, NULL, NULL, &mask))
      end();
    for (i = 0; i < list.count; ++i) add(to, found[i].points, sizeof found[i].points);
    add(to, &list.count, sizeof list.count);
    add(to, mask.data, WIDTH * HEIGHT * sizeof(float));
    if (!palm_kits_portrait_run(portrait, &image, &outside, NULL, &mask)) exit(2);
    strncpy(to->refusal, palm_kits_error(), sizeof to->refusal - 1);
  }
  add(to, &calls, sizeof calls);
  palm_kits_meshes_free(meshes);
  palm_kits_portrait_free(portrait);
  free(mask.data);
  return NULL;
}

int main(void) {
  static result alone, results[THREADS];
  pthread_t threads[THREADS];
  uint32_t state = 1;
  size_t i;
  for (i = 0; i < sizeof frames; ++i) {
    state = state * 1664525u + 1013904223u;
    (&frames[0][0][0][0])[i] = (uint8_t)(state >> 24);
  }
  work(&alone);
  for (i = 0; i < THREADS; ++i)
    if (pthread_create(&threads[i], NULL, work, &results[i])) return 3;
  for (i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  for (i = 0; i < THREADS; ++i) {
    if (results[i].sum != alone.sum || strcmp(results[i].refusal, alone.refusal)) {
      fprintf(stderr, "thread %d found something else\n", (int)i);
      return 4;
    }
  }
  printf("%s\n", alone.refusal);
  return 0;
}
