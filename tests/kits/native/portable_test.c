/* Prints what the library finds in a picture that it draws itself, with networks that look at
 * single pixels: numbers that are to be the same on every machine. */
#include <stdio.h>
#include <string.h>

#include "palm_kits.h"

enum { WIDTH = 200, HEIGHT = 150 };

static uint8_t pixels[HEIGHT][WIDTH][3];
static float mask_data[HEIGHT][WIDTH], alpha_data[HEIGHT][WIDTH];

static void draw(int shift) {
  int x, y;
  for (y = 0; y < HEIGHT; ++y) {
    for (x = 0; x < WIDTH; ++x) {
      const int dx = x - 90 - shift, dy = y - 70, inside = dx * dx + dy * dy < 1600;
      pixels[y][x][0] = (uint8_t)(inside ? 220 - (x * 7 + y * 3) % 40 : 40 + x % 60);
      pixels[y][x][1] = (uint8_t)(inside ? 90 + (x + y * 5) % 30 : 120 + (x * y) % 50);
      pixels[y][x][2] = (uint8_t)((x * 3 + y * 11) % 90);
    }
  }
}

static float redness(const palm_kits_tensor *image, int64_t x, int64_t y) {
  const float *pixel = image->data + 3 * (y * image->dims[2] + x);
  return pixel[0] > 170 ? 0.9f + pixel[0] * 1e-4f : 0.01f;
}

/* Boxes and points where it is red, of one size; and masks of what is red. */
static int32_t run(void *user, const palm_kits_tensor *inputs, size_t input_count,
                   const palm_kits_tensor *outputs, size_t output_count) {
  size_t i;
  (void)user, (void)input_count;
  for (i = 0; i < output_count; ++i) {
    const int64_t rows = outputs[i].dims[1], columns = outputs[i].rank > 2 ? outputs[i].dims[2] : 1;
    const int64_t channels = outputs[i].rank > 3 ? outputs[i].dims[3] : 1;
    const int64_t step = inputs[0].dims[1] / rows;
    int64_t x, y, k;
    if (outputs[i].rank < 4) { /* of close-ups */
      for (k = 0; k < rows * columns; ++k)
        outputs[i].data[k] =
            outputs[i].rank == 3 ? 0.2f + 0.6f * (float)(k * 37 % 101) / 101 : 0.95f;
      continue;
    }
    for (y = 0; y < rows; ++y) {
      for (x = 0; x < columns; ++x) {
        const float red = redness(&inputs[0], x * step, y * step);
        float *to = outputs[i].data + channels * (y * columns + x);
        for (k = 0; k < channels; ++k)
          to[k] = channels == 1 ? red : 40.f / (float)step + 0.3f * (float)((k + x) % 3);
      }
    }
  }
  return 0;
}

static void print_numbers(const char *name, const float *numbers, size_t count) {
  size_t i;
  printf("%s", name);
  for (i = 0; i < count; ++i) printf(" %.9g", numbers[i]);
  puts("");
}

static int end(void) {
  fprintf(stderr, "%s\n", palm_kits_error());
  return 1;
}

int main(void) {
  const palm_kits_size square = {64, 64};
  palm_kits_network detector = {run, NULL, NULL, 0}, close = {run, NULL, NULL, 1};
  palm_kits_options options = PALM_KITS_MESHES;
  palm_kits_image image = PALM_KITS_IMAGE(&pixels[0][0][0], WIDTH, HEIGHT, PALM_KITS_RGB);
  palm_kits_mask mask = {&mask_data[0][0], 0, WIDTH, HEIGHT};
  palm_kits_mask alpha = {&alpha_data[0][0], 0, WIDTH, HEIGHT};
  palm_kits_meshes *meshes;
  palm_kits_faces *faces;
  palm_kits_portrait *portrait;
  static palm_kits_mesh found_meshes[64];
  palm_kits_face found_faces[64];
  static float drawn[48 * 48 * 3];
  palm_kits_input input = PALM_KITS_INPUT(drawn, sizeof drawn, 48, 48);
  palm_kits_crop crop = {95, 66, 120, 0.4};
  int frame;
  close.sizes = &square;
  options.is_video = 1;
  if (palm_kits_faces_create(&detector, &options, &faces) ||
      palm_kits_meshes_create(&detector, &close, &options, &meshes) ||
      palm_kits_portrait_create(&close, NULL, &options, &portrait))
    return end();
  for (frame = 0; frame < 5; ++frame) {
    palm_kits_list face_list = {0, 64}, mesh_list = {0, 64};
    size_t i;
    draw(3 * frame);
    if (palm_kits_faces_run(faces, &image, NULL, NULL, found_faces, &face_list) ||
        palm_kits_meshes_run(meshes, &image, NULL, NULL, found_meshes, &mesh_list) ||
        palm_kits_portrait_run(portrait, &image, NULL, NULL, &mask) ||
        palm_kits_mask_opacity(&image, &mask, &alpha) ||
        palm_kits_crop_draw(&image, &crop, 0, &input))
      return end();
    printf("found %d %d\n", (int)face_list.count, (int)mesh_list.count);
    for (i = 0; i < face_list.count; ++i) {
      printf("id %d\n", (int)found_faces[i].id);
      print_numbers("box", found_faces[i].box, 4);
      print_numbers("keypoints", &found_faces[i].keypoints[0][0], 10);
    }
    for (i = 0; i < mesh_list.count; ++i)
      print_numbers("points", &found_meshes[i].points[0][0], 1434);
    print_numbers("mask", mask.data, WIDTH * HEIGHT);
    print_numbers("alpha", alpha.data, WIDTH * HEIGHT);
    print_numbers("crop", drawn, 48 * 48 * 3);
  }
  palm_kits_faces_free(faces);
  palm_kits_meshes_free(meshes);
  palm_kits_portrait_free(portrait);
  return 0;
}
