/* Runs a kit on pictures, by palm.h and palm_kits.h alone:
 *
 *   kits_test KIT MODELS IS_VIDEO MASKS PICTURE.ppm ...
 *
 * KIT: faces, meshes, hands, portrait or hair. MODELS: the folder of the shipped models. What is
 * found is printed, a thing a line behind its picture's index; masks go to the file MASKS, float32.
 * Frames are 40 ms apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "palm_network.h"

#define MOST 16

static void end(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void check(palm_kits_status status) {
  if (status) end(palm_kits_error(), palm_error());
}

static palm_network *opened(const char *models, const char *name, palm_kits_network *described) {
  char path[4096];
  palm_network *network;
  snprintf(path, sizeof path, "%s/%s/%s.palm", models, name, name);
  if (palm_network_open(path, 1, &network)) end(path, palm_error());
  palm_network_describe(network, described);
  return network;
}

/* A binary PPM, in memory that the caller frees. */
static palm_kits_image read_picture(const char *path) {
  palm_kits_image image = PALM_KITS_IMAGE(NULL, 0, 0, PALM_KITS_RGB);
  FILE *file = fopen(path, "rb");
  uint8_t *pixels;
  size_t size;
  int width, height, most;
  if (!file || fscanf(file, "P6 %d %d %d", &width, &height, &most) != 3 || most != 255)
    end(path, "no PPM");
  fgetc(file);
  size = (size_t)3 * (size_t)width * (size_t)height;
  pixels = malloc(size);
  if (!pixels || fread(pixels, 1, size, file) != size) end(path, "ends early");
  fclose(file);
  image.pixels = pixels;
  image.width = width;
  image.height = height;
  return image;
}

static void print_numbers(const float *numbers, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i) printf(" %.9g", numbers[i]);
}

static void print_face(int index, const palm_kits_face *face) {
  printf("%d %lld", index, (long long)face->id);
  print_numbers(&face->score, 1);
  print_numbers(face->box, 4);
  print_numbers(&face->keypoints[0][0], 10);
}

int main(int count, char **arguments) {
  const char *kind = arguments[1], *models = arguments[2];
  palm_kits_options face_options = PALM_KITS_FACES, mesh_options = PALM_KITS_MESHES,
                    hand_options = PALM_KITS_HANDS, mask_options = PALM_KITS_MASKS;
  palm_network *networks[4] = {NULL, NULL, NULL, NULL};
  palm_kits_network first, second, third;
  palm_kits_faces *faces = NULL;
  palm_kits_meshes *meshes = NULL;
  palm_kits_hands *hands = NULL;
  palm_kits_portrait *portrait = NULL;
  palm_kits_hair *hair = NULL;
  palm_kits_face found_faces[MOST];
  static palm_kits_mesh found_meshes[MOST];
  palm_kits_hand found_hands[MOST];
  const int is_video = count > 3 && arguments[3][0] == '1';
  FILE *masks = fopen(arguments[4], "wb");
  int index;
  if (!masks) end(arguments[4], "cannot be written");
  face_options.is_video = mesh_options.is_video = is_video;
  hand_options.is_video = mask_options.is_video = is_video;
  if (!strcmp(kind, "faces") || !strcmp(kind, "hair")) {
    networks[0] = opened(models, "face_detector", &first);
    face_options.min_score = palm_network_threshold(networks[0]);
    check(palm_kits_faces_create(&first, &face_options, &faces));
  }
  if (!strcmp(kind, "meshes")) {
    networks[0] = opened(models, "face_detector", &first);
    networks[1] = opened(models, "face_mesh", &second);
    mesh_options.min_presence = palm_network_threshold(networks[1]);
    check(palm_kits_meshes_create(&first, &second, &mesh_options, &meshes));
  }
  if (!strcmp(kind, "hands")) {
    networks[0] = opened(models, "hand_detector", &first);
    networks[1] = opened(models, "hand_landmarks", &second);
    hand_options.min_score = palm_network_threshold(networks[0]);
    hand_options.min_presence = palm_network_threshold(networks[1]);
    check(palm_kits_hands_create(&first, &second, &hand_options, &hands));
  }
  if (!strcmp(kind, "portrait")) {
    networks[0] = opened(models, "portrait", &first);
    networks[1] = opened(models, "person_finder", &second);
    check(palm_kits_portrait_create(&first, &second, &mask_options, &portrait));
  }
  if (!strcmp(kind, "hair")) {
    networks[1] = opened(models, "hair", &second);
    networks[2] = opened(models, "person_finder", &third);
    check(palm_kits_hair_create(&second, &mask_options, &hair));
    check(palm_kits_hair_find_heads(hair, &third));
  }
  for (index = 0; index + 5 < count; ++index) {
    palm_kits_image image = read_picture(arguments[index + 5]);
    palm_kits_frame frame = {0, NULL}, *now = is_video ? &frame : NULL;
    palm_kits_list found = {0, MOST};
    const size_t pixels = (size_t)image.width * (size_t)image.height;
    palm_kits_mask mask = {NULL, 0, 0, 0};
    size_t i;
    frame.timestamp_ms = 40.0 * index;
    mask.data = malloc(pixels * sizeof(float));
    mask.width = image.width;
    mask.height = image.height;
    if (faces) check(palm_kits_faces_run(faces, &image, NULL, now, found_faces, &found));
    for (i = 0; faces && i < found.count; ++i) print_face(index, &found_faces[i]), puts("");
    if (meshes) check(palm_kits_meshes_run(meshes, &image, NULL, now, found_meshes, &found));
    for (i = 0; meshes && i < found.count; ++i) {
      print_face(index, &found_meshes[i].face);
      print_numbers(&found_meshes[i].points[0][0], 1434);
      puts("");
    }
    if (hands) check(palm_kits_hands_run(hands, &image, NULL, now, found_hands, &found));
    for (i = 0; hands && i < found.count; ++i) {
      const palm_kits_hand *hand = &found_hands[i];
      printf("%d %lld", index, (long long)hand->id);
      print_numbers(&hand->score, 1);
      print_numbers(hand->box, 4);
      print_numbers(&hand->landmarks[0][0], 63);
      printf(" %d %d\n", (int)hand->gesture, hand->right > 0.5f);
    }
    if (portrait) check(palm_kits_portrait_run(portrait, &image, NULL, now, &mask));
    if (hair) check(palm_kits_hair_run(hair, &image, NULL, now, found_faces, found.count, &mask));
    if (portrait || hair) fwrite(mask.data, sizeof(float), pixels, masks);
    free((void *)image.pixels);
    free(mask.data);
  }
  palm_kits_faces_free(faces);
  palm_kits_meshes_free(meshes);
  palm_kits_hands_free(hands);
  palm_kits_portrait_free(portrait);
  palm_kits_hair_free(hair);
  for (index = 0; index < 4; ++index) palm_network_free(networks[index]);
  fclose(masks);
  return 0;
}
