/* Calls of palm_kits.h that no program should make: each is refused, with a text, and harms
 * nothing.
 *
 *   arguments_test ROUNDS
 *
 * After those that are known, ROUNDS of random pictures, parts, crops, numbers and networks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "palm_kits.h"

#define CHECK(truth) ((truth) ? (void)0 : fail(#truth, __LINE__))
#define REFUSED(call) refused((call), #call, __LINE__)
#define TAKEN(call) ((call) ? fail(palm_kits_error(), __LINE__) : (void)0)

static void fail(const char *what, int line) {
  fprintf(stderr, "line %d: not true: %s\n", line, what);
  exit(1);
}

static void refused(palm_kits_status status, const char *call, int line) {
  if (status != PALM_KITS_ERROR_ARGUMENT && status != PALM_KITS_ERROR_SHAPE) fail(call, line);
  if (!palm_kits_error()[0] || strchr(palm_kits_error(), '\n')) fail(palm_kits_error(), line);
}

/* ---- Random numbers, pictures and networks */

static uint64_t state = 1;

static uint32_t random_bits(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 32);
}
static int below(int most) { return (int)(random_bits() % (uint32_t)most); }
static double share(void) { return random_bits() / 4294967296.0; }
/* Any number, the odd ones often. */
static double any(void) {
  static const double odd[] = {0, -0.0, 1, -1, 0.5, 1e-30, -1e30, 1e30, 1e300, 3.4e38, 65536};
  switch (below(8)) {
    case 0: return NAN;
    case 1: return below(2) ? HUGE_VAL : -HUGE_VAL;
    case 2: return odd[below((int)(sizeof odd / sizeof *odd))];
    default: return (share() - 0.3) * 100;
  }
}

static uint8_t pixels[64 * 64 * 4];

static palm_kits_image some_image(void) {
  palm_kits_image image = PALM_KITS_IMAGE(pixels, 1 + below(64), 1 + below(64), below(5));
  size_t i;
  for (i = 0; i < sizeof pixels; ++i) pixels[i] = (uint8_t)random_bits();
  image.rotation = 90 * below(4), image.is_mirrored = below(2);
  return image;
}

static palm_kits_mask mask_of(const palm_kits_image *image, float *data) {
  palm_kits_mask mask = {NULL, 0, 0, 0};
  const int is_turned = image->rotation % 180 != 0;
  mask.data = data;
  mask.width = is_turned ? image->height : image->width;
  mask.height = is_turned ? image->width : image->height;
  return mask;
}

/* Writes what no trained network would; now and then it fails. */
static int32_t run(void *user, const palm_kits_tensor *inputs, size_t input_count,
                   const palm_kits_tensor *outputs, size_t output_count) {
  const int hostile = *(const int *)user;
  size_t i, k, axis, size;
  CHECK(input_count > 0 && inputs[0].rank == 4 && inputs[0].dims[3] == 3);
  for (i = 0; i < output_count; ++i) {
    size = 1;
    for (axis = 0; axis < outputs[i].rank; ++axis) size *= (size_t)outputs[i].dims[axis];
    for (k = 0; k < size; ++k)
      outputs[i].data[k] = (float)(hostile && !below(20) ? any() : 1.2 * share());
  }
  return hostile && !below(50);
}

/* ---- Calls that are known to be wrong */

static void pictures(void) {
  static float data[3 * 16 * 16];
  palm_kits_image image = PALM_KITS_IMAGE(pixels, 8, 8, PALM_KITS_RGB), bad;
  palm_kits_input input = PALM_KITS_INPUT(data, sizeof data, 16, 16), wrong;
  palm_kits_placement at;
  palm_kits_part part = {0, 0, 4, 4};
  palm_kits_crop crop = {4, 4, 4, 0}, off;
  float points[10] = {1, 2, 3};
  const int32_t sides[] = {0, -1, INT32_MIN, 65537, INT32_MAX};
  const double odd[] = {NAN, HUGE_VAL, -HUGE_VAL};
  size_t i;
  TAKEN(palm_kits_letterbox(&image, &part, 1, &input, &at));
  REFUSED(palm_kits_letterbox(NULL, NULL, 1, &input, &at));
  REFUSED(palm_kits_letterbox(&image, NULL, 1, NULL, &at));
  REFUSED(palm_kits_letterbox(&image, NULL, 1, &input, NULL));
  REFUSED(palm_kits_letterbox(&image, NULL, 0, &input, &at));
  for (i = 0; i < 3; ++i) REFUSED(palm_kits_letterbox(&image, NULL, odd[i], &input, &at));
  for (i = 0; i < sizeof sides / sizeof *sides; ++i) {
    bad = image, bad.width = sides[i];
    REFUSED(palm_kits_stretch(&bad, NULL, &input));
    bad = image, bad.height = sides[i];
    REFUSED(palm_kits_stretch(&bad, NULL, &input));
    wrong = input, wrong.width = sides[i];
    REFUSED(palm_kits_stretch(&image, NULL, &wrong));
    wrong = input, wrong.height = sides[i];
    REFUSED(palm_kits_shrink(&image, NULL, &wrong));
  }
  bad = image, bad.width = bad.height = 65536;
  REFUSED(palm_kits_stretch(&bad, NULL, &input));
  bad = image, bad.pixels = NULL;
  REFUSED(palm_kits_stretch(&bad, NULL, &input));
  bad = image, bad.rotation = 45;
  REFUSED(palm_kits_stretch(&bad, NULL, &input));
  bad = image, bad.is_mirrored = -1;
  REFUSED(palm_kits_stretch(&bad, NULL, &input));
  bad = image, bad.format = 5;
  REFUSED(palm_kits_stretch(&bad, NULL, &input));
  bad = image, bad.stride = 23;
  REFUSED(palm_kits_stretch(&bad, NULL, &input));
  bad = image, bad.stride = SIZE_MAX;
  REFUSED(palm_kits_stretch(&bad, NULL, &input));
  bad = image, bad.stride = SIZE_MAX / 8;
  REFUSED(palm_kits_stretch(&bad, NULL, &input));
  wrong = input, wrong.size = sizeof data - 1;
  REFUSED(palm_kits_stretch(&image, NULL, &wrong));
  wrong = input, wrong.data = NULL;
  REFUSED(palm_kits_stretch(&image, NULL, &wrong));
  wrong = input, wrong.layout = 2;
  REFUSED(palm_kits_stretch(&image, NULL, &wrong));
  wrong = input, wrong.mean[1] = NAN;
  REFUSED(palm_kits_stretch(&image, NULL, &wrong));
  wrong = input, wrong.scale[2] = (float)HUGE_VAL;
  REFUSED(palm_kits_stretch(&image, NULL, &wrong));
  for (i = 0; i < 4; ++i) {
    const palm_kits_part parts[] = {{9, 0, 4, 4}, {0, 0, 0, 4}, {-8, 0, 8, 8}, {NAN, 0, 1, 1}};
    REFUSED(palm_kits_stretch(&image, &parts[i], &input));
  }
  wrong = input, wrong.height = 15;
  REFUSED(palm_kits_shrink(&image, NULL, &wrong));
  REFUSED(palm_kits_crop_draw(&image, &crop, 0, &wrong));
  TAKEN(palm_kits_crop_draw(&image, &crop, 1, &input));
  REFUSED(palm_kits_crop_draw(&image, NULL, 0, &input));
  REFUSED(palm_kits_crop_draw(NULL, &crop, 0, &input));
  REFUSED(palm_kits_crop_draw(&image, &crop, 2, &input));
  off = crop, off.side = 0;
  REFUSED(palm_kits_crop_draw(&image, &off, 0, &input));
  off = crop, off.angle = NAN;
  REFUSED(palm_kits_crop_draw(&image, &off, 0, &input));
  REFUSED(palm_kits_crop_to_picture(&crop, points, 1, 4));
  REFUSED(palm_kits_crop_to_picture(&crop, NULL, 1, 3));
  TAKEN(palm_kits_crop_to_picture(&crop, NULL, 0, 3));
  REFUSED(palm_kits_crop_from_picture(NULL, points, 1, 3));
  REFUSED(palm_kits_to_picture(NULL, points, 1));
  memset(&at, 0, sizeof at);
  REFUSED(palm_kits_to_picture(&at, points, 1));
  REFUSED(palm_kits_face_crop(NULL, points, &crop));
  REFUSED(palm_kits_mesh_crop(NULL, &crop));
  REFUSED(palm_kits_hand_crop(NULL, NULL, &crop));
  REFUSED(palm_kits_landmarks_crop(NULL, &crop));
}

static void lists(void) {
  float boxes[8] = {0, 0, 4, 4, 1, 1, 5, 5}, scores[2] = {1, NAN}, points[8] = {0}, means[8];
  palm_kits_detections found = {{2, 2}, NULL, NULL, NULL, 2};
  palm_kits_head head = {8, 1, 1, NULL, NULL, NULL};
  palm_kits_tracker *tracker;
  palm_kits_filter *filter;
  palm_kits_mesh_filter *mesh;
  palm_kits_mask_filter *mask;
  palm_kits_list list = {0, 2};
  uint8_t sure[2] = {1, 1};
  int64_t ids[2];
  size_t rows[2], kept;
  found.boxes = boxes, found.scores = scores, found.points = points;
  REFUSED(palm_kits_merge(NULL));
  REFUSED(palm_kits_merge(&found));
  scores[1] = 0.5f;
  TAKEN(palm_kits_merge(&found));
  found.list.count = 3;
  REFUSED(palm_kits_merge(&found));
  found.list.count = 2, found.keypoints = 65;
  REFUSED(palm_kits_merge(&found));
  found.keypoints = 2, found.points = NULL;
  REFUSED(palm_kits_merge(&found));
  found.points = points;
  REFUSED(palm_kits_decode(&head, 1, 0.5, &found));
  REFUSED(palm_kits_decode(NULL, 1, 0.5, &found));
  REFUSED(palm_kits_decode(&head, 1, 0.5, NULL));
  REFUSED(palm_kits_decode(&head, 1, NAN, &found));
  TAKEN(palm_kits_decode(NULL, 0, 0.5, &found));
  head.scores = scores, head.boxes = boxes, head.points = points;
  TAKEN(palm_kits_decode(&head, 1, 0.5, &found));
  head.stride = 0;
  REFUSED(palm_kits_decode(&head, 1, 0.5, &found));
  head.stride = 8, head.width = -1;
  REFUSED(palm_kits_decode(&head, 1, 0.5, &found));
  REFUSED(palm_kits_nms(NULL, scores, 2, 0.5, NULL, 0, 0, rows, NULL, &kept));
  REFUSED(palm_kits_nms(boxes, scores, 2, 2, NULL, 0, 0, rows, NULL, &kept));
  REFUSED(palm_kits_nms(boxes, scores, 2, 0.5, boxes, 4, NAN, rows, means, &kept));
  REFUSED(palm_kits_nms(boxes, scores, 2, 0.5, boxes, 4, 0, rows, NULL, &kept));
  REFUSED(palm_kits_nms(boxes, scores, 2, 0.5, boxes, SIZE_MAX, 0, rows, means, &kept));
  REFUSED(palm_kits_nms(boxes, scores, SIZE_MAX, 0.5, NULL, 0, 0, rows, NULL, &kept));
  REFUSED(palm_kits_nms(boxes, scores, 2, 0.5, NULL, 0, 0, rows, NULL, NULL));
  TAKEN(palm_kits_nms(NULL, NULL, 0, 0.5, NULL, 0, 0, NULL, NULL, &kept));
  REFUSED(palm_kits_tracker_create(NAN, &tracker));
  CHECK(!tracker);
  REFUSED(palm_kits_tracker_create(1, NULL));
  TAKEN(palm_kits_tracker_create(1, &tracker));
  REFUSED(palm_kits_tracker_update(NULL, boxes, sure, 2, 1, ids));
  REFUSED(palm_kits_tracker_update(tracker, NULL, sure, 2, 1, ids));
  REFUSED(palm_kits_tracker_update(tracker, boxes, NULL, 2, 1, ids));
  REFUSED(palm_kits_tracker_update(tracker, boxes, sure, 2, 1, NULL));
  REFUSED(palm_kits_tracker_update(tracker, boxes, sure, 2, NAN, ids));
  REFUSED(palm_kits_tracker_update(tracker, boxes, sure, SIZE_MAX, 1, ids));
  TAKEN(palm_kits_tracker_update(tracker, boxes, sure, 2, 1, ids));
  REFUSED(palm_kits_tracker_update(tracker, boxes, sure, 2, 1, ids));
  REFUSED(palm_kits_tracker_look(tracker, NULL, 0, 5));
  REFUSED(palm_kits_tracker_predict(tracker, 0.5, boxes, &list));
  REFUSED(palm_kits_tracker_predict(tracker, 2, NULL, &list));
  REFUSED(palm_kits_tracker_predict(tracker, 2, boxes, NULL));
  ids[1] = ids[0];
  REFUSED(palm_kits_tracker_smooth(tracker, ids, 2, scores, boxes, 4));
  ids[1] = 7;
  REFUSED(palm_kits_tracker_smooth(tracker, ids, 2, scores, boxes, 4));
  TAKEN(palm_kits_tracker_smooth(tracker, ids, 1, scores, boxes, 4));
  REFUSED(palm_kits_tracker_smooth(tracker, ids, 1, scores, boxes, 4));
  scores[0] = 0;
  REFUSED(palm_kits_tracker_smooth(tracker, ids, 1, scores, boxes, 4));
  palm_kits_tracker_free(tracker);
  palm_kits_tracker_free(NULL);
  REFUSED(palm_kits_filter_create(0, 8, 1, &filter));
  REFUSED(palm_kits_filter_create(1, NAN, 1, &filter));
  TAKEN(palm_kits_filter_create(1, 8, 1, &filter));
  REFUSED(palm_kits_filter_run(NULL, boxes, 2, 1, 1));
  REFUSED(palm_kits_filter_run(filter, NULL, 2, 1, 1));
  REFUSED(palm_kits_filter_run(filter, boxes, 2, NAN, 1));
  REFUSED(palm_kits_filter_run(filter, boxes, 2, 1, 0));
  palm_kits_filter_free(filter);
  REFUSED(palm_kits_mesh_filter_create(NULL));
  TAKEN(palm_kits_mesh_filter_create(&mesh));
  REFUSED(palm_kits_mesh_filter_run(mesh, NULL, 1));
  palm_kits_mesh_filter_free(mesh);
  TAKEN(palm_kits_mask_filter_create(&mask));
  REFUSED(palm_kits_mask_filter_run(mask, boxes, NULL, NULL, 1));
  palm_kits_mask_filter_free(mask);
}

static void wear(const palm_kits_network *network, const palm_kits_image *image) {
  palm_kits_options options = PALM_KITS_MESHES;
  palm_kits_try_on_networks networks = {NULL, NULL, NULL, NULL, NULL};
  palm_kits_try_on *kit;
  palm_kits_look look = PALM_KITS_LOOK;
  static uint8_t shown[64 * 64 * 4];
  palm_kits_canvas after = {shown, 0, 0, 0, PALM_KITS_BGR};
  palm_kits_list found = {0, 1};
  palm_kits_frame frame = {0, NULL};
  const int turned = image->rotation % 180 != 0;
  after.width = turned ? image->height : image->width;
  after.height = turned ? image->width : image->height;
  REFUSED(palm_kits_try_on_create(NULL, &options, &kit));
  REFUSED(palm_kits_try_on_create(&networks, &options, &kit));
  networks.detector = networks.mesh = network;
  REFUSED(palm_kits_try_on_create(&networks, NULL, &kit));
  REFUSED(palm_kits_try_on_create(&networks, &options, NULL));
  networks.hand_landmarks = network;
  REFUSED(palm_kits_try_on_create(&networks, &options, &kit));
  CHECK(!kit);
  networks.hand_landmarks = NULL;
  TAKEN(palm_kits_try_on_create(&networks, &options, &kit));
  TAKEN(palm_kits_try_on_run(kit, image, NULL, NULL, &look, &after, NULL, NULL));
#define WEAR(look, after, found) \
  REFUSED(palm_kits_try_on_run(kit, image, NULL, NULL, (look), (after), NULL, (found)))
  REFUSED(palm_kits_try_on_run(NULL, image, NULL, NULL, &look, &after, NULL, NULL));
  REFUSED(palm_kits_try_on_run(kit, NULL, NULL, NULL, &look, &after, NULL, NULL));
  REFUSED(palm_kits_try_on_run(kit, image, NULL, &frame, &look, &after, NULL, NULL));
  WEAR(NULL, &after, NULL);
  WEAR(&look, NULL, NULL);
  WEAR(&look, &after, &found);
  after.pixels = NULL;
  WEAR(&look, &after, NULL);
  after.pixels = shown, after.width += 1;
  WEAR(&look, &after, NULL);
  after.width -= 1, after.format = PALM_KITS_GREY;
  WEAR(&look, &after, NULL);
  after.format = PALM_KITS_BGR, after.stride = 2;
  WEAR(&look, &after, NULL);
  after.stride = 0, look.hair.opacity = 0.5;
  WEAR(&look, &after, NULL);
  look.hair.opacity = NAN;
  WEAR(&look, &after, NULL);
  look.hair.opacity = 0, look.lipstick.finish = 4;
  WEAR(&look, &after, NULL);
  look.lipstick.finish = 0, look.behind_things = 2;
  WEAR(&look, &after, NULL);
  look.behind_things = 1, look.face = -4;
  WEAR(&look, &after, NULL);
  look.face = 0, look.size = 1;
  WEAR(&look, &after, NULL);
  palm_kits_try_on_free(kit);
  palm_kits_try_on_free(NULL);
}

static void kits(void) {
  const palm_kits_options right = PALM_KITS_FACES;
  palm_kits_options options = right;
  palm_kits_size sizes[2] = {{32, 32}, {64, 32}};
  int hostile = 0;
  palm_kits_network network = {run, &hostile, sizes, 2}, wrong = network;
  palm_kits_faces *faces;
  palm_kits_meshes *meshes;
  palm_kits_hands *hands;
  palm_kits_portrait *portrait;
  palm_kits_image image = some_image();
  palm_kits_face face;
  palm_kits_frame frame = {NAN, NULL};
  palm_kits_motion motion = {0, 0, 0, 0};
  palm_kits_list found = {0, 1};
  palm_kits_mask mask = {NULL, 0, 0, 0};
  float value = 0;
  TAKEN(palm_kits_faces_create(&network, &options, &faces));
  REFUSED(palm_kits_faces_run(NULL, &image, NULL, NULL, &face, &found));
  REFUSED(palm_kits_faces_run(faces, NULL, NULL, NULL, &face, &found));
  REFUSED(palm_kits_faces_run(faces, &image, NULL, NULL, NULL, &found));
  REFUSED(palm_kits_faces_run(faces, &image, NULL, NULL, &face, NULL));
  REFUSED(palm_kits_faces_run(faces, &image, NULL, &frame, &face, &found));
  palm_kits_faces_free(faces);
  palm_kits_faces_free(NULL);
  REFUSED(palm_kits_faces_create(NULL, &options, &faces));
  REFUSED(palm_kits_faces_create(&network, NULL, &faces));
  REFUSED(palm_kits_faces_create(&network, &options, NULL));
  options.size = 8;
  REFUSED(palm_kits_faces_create(&network, &options, &faces));
  CHECK(!faces);
#define WRONG(field, value)                 \
  options = right, options.field = (value); \
  REFUSED(palm_kits_faces_create(&network, &options, &faces))
  WRONG(is_video, 2);
  WRONG(max_count, -1);
  WRONG(min_score, 1.5);
  WRONG(min_score, NAN);
  WRONG(min_presence, -1);
  WRONG(min_face, NAN);
  WRONG(detector_size, 31);
  WRONG(detector_size, 4097);
  WRONG(tile, 31);
  WRONG(detect_every, 0);
  WRONG(is_smooth, -1);
  WRONG(second_pass, 7);
  WRONG(is_refined, 2);
  WRONG(hold_ms, HUGE_VAL);
  options = right, options.is_video = 1;
  TAKEN(palm_kits_faces_create(&network, &options, &faces));
  REFUSED(palm_kits_faces_run(faces, &image, NULL, &frame, &face, &found));
  frame.timestamp_ms = 1, frame.motion = &motion;
  REFUSED(palm_kits_faces_run(faces, &image, NULL, &frame, &face, &found));
  palm_kits_faces_free(faces);
  wrong.run = NULL;
  REFUSED(palm_kits_faces_create(&wrong, &options, &faces));
  wrong = network, wrong.sizes = NULL;
  REFUSED(palm_kits_faces_create(&wrong, &options, &faces));
  wrong = network, wrong.size_count = SIZE_MAX;
  REFUSED(palm_kits_faces_create(&wrong, &options, &faces));
  sizes[0].width = 33;
  REFUSED(palm_kits_faces_create(&network, &options, &faces));
  sizes[0].width = 64;
  REFUSED(palm_kits_meshes_create(&network, &network, &options, &meshes));
  REFUSED(palm_kits_meshes_create(&network, NULL, &options, &meshes));
  REFUSED(palm_kits_hands_create(&network, &network, &options, &hands));
  sizes[0].width = 32;
  TAKEN(palm_kits_hands_create(&network, &network, &options, &hands));
  palm_kits_hands_free(hands);
  sizes[0].width = 64;
  REFUSED(palm_kits_portrait_create(&network, NULL, &options, &portrait));
  sizes[0].width = 32;
  TAKEN(palm_kits_portrait_create(&network, NULL, &right, &portrait));
  wear(&network, &image);
  REFUSED(palm_kits_portrait_run(portrait, &image, NULL, NULL, NULL));
  REFUSED(palm_kits_portrait_run(portrait, &image, NULL, NULL, &mask));
  mask = mask_of(&image, NULL);
  REFUSED(palm_kits_portrait_run(portrait, &image, NULL, NULL, &mask));
  mask.data = &value, mask.stride = 3;
  REFUSED(palm_kits_portrait_run(portrait, &image, NULL, NULL, &mask));
  mask.stride = SIZE_MAX - 3;
  REFUSED(palm_kits_portrait_run(portrait, &image, NULL, NULL, &mask));
  palm_kits_portrait_free(portrait);
}

/* ---- Rounds of random calls */

static void some_pieces(void) {
  static float data[3 * 40 * 40], mask[64 * 64], alpha[64 * 64], boxes[40], values[20];
  palm_kits_image image = some_image();
  palm_kits_part part, *given = below(2) ? &part : NULL;
  palm_kits_crop crop;
  palm_kits_input input = PALM_KITS_INPUT(data, sizeof data, 0, 0);
  palm_kits_placement at;
  const palm_kits_mask whole = mask_of(&image, mask), other = mask_of(&image, alpha);
  size_t rows[10], kept, i;
  const int side = 1 + below(40);
  part.x = any(), part.y = any(), part.width = any(), part.height = any();
  crop.x = any(), crop.y = any(), crop.side = any(), crop.angle = any();
  input.width = side, input.height = below(2) ? side : 1 + below(40), input.layout = below(2);
  palm_kits_letterbox(&image, given, any(), &input, &at);
  palm_kits_stretch(&image, given, &input);
  palm_kits_shrink(&image, given, &input);
  palm_kits_crop_draw(&image, &crop, below(2), &input);
  for (i = 0; i < 40; ++i) boxes[i] = (float)any();
  for (i = 0; i < 20; ++i) values[i] = (float)any();
  palm_kits_crop_to_picture(&crop, boxes, 10, 3);
  palm_kits_crop_from_picture(&crop, boxes, 10, 2);
  palm_kits_face_crop(boxes, values, &crop);
  palm_kits_hand_crop(boxes, values, &crop);
  palm_kits_nms(boxes, values, 10, share(), values, 2, share(), rows, data, &kept);
  for (i = 0; i < 64 * 64; ++i) mask[i] = (float)share();
  palm_kits_mask_clean(mask, whole.width, whole.height);
  palm_kits_mask_opacity(&image, &whole, &other);
  for (i = 0; i < 3 * 40 * 40; ++i) data[i] = (float)share();
  TAKEN(palm_kits_mask_enlarge(&image, data, side, 1 + below(40), below(2), &whole));
}

static palm_kits_frame some_frame(palm_kits_motion *motion) {
  palm_kits_frame frame = {0, NULL};
  frame.timestamp_ms = any();
  motion->turn_x = 1 + 0.1 * share(), motion->turn_y = 0.1 * share();
  motion->shift_x = 9 * share(), motion->shift_y = below(9) ? share() : any();
  if (below(2)) frame.motion = motion;
  return frame;
}

static palm_kits_effect some_effect(int finishes) {
  palm_kits_effect effect = {0, 0, 0, 0, 0};
  effect.red = (uint8_t)below(256), effect.green = (uint8_t)below(256);
  effect.blue = (uint8_t)below(256);
  effect.finish = below(finishes), effect.opacity = below(9) ? share() : any();
  return effect;
}

static void some_look(palm_kits_look *look) {
  look->lipstick = some_effect(4), look->hair = some_effect(3);
  look->face = below(2) ? PALM_KITS_ALL : below(6) - 4;
  look->behind_hair = below(2), look->behind_hands = below(2), look->behind_things = below(2);
}

static void some_video(int is_video) {
  const palm_kits_size sizes[] = {{32, 32}, {64, 64}}, finder_size = {16, 16};
  int hostile = below(2), i;
  palm_kits_network network = {run, &hostile, sizes, 2}, finder = {run, &hostile, NULL, 1};
  palm_kits_network any_size = network;
  palm_kits_options options = PALM_KITS_MESHES;
  palm_kits_faces *faces;
  palm_kits_meshes *meshes;
  palm_kits_hands *hands;
  palm_kits_portrait *portrait;
  palm_kits_hair *hair;
  palm_kits_try_on *try_on;
  palm_kits_try_on_networks networks = {&any_size, &network, &network, &network, &network};
  static palm_kits_mesh found_meshes[64];
  static palm_kits_face found_faces[64];
  static palm_kits_hand found_hands[64];
  static float data[64 * 64];
  static uint8_t shown[64 * 64 * 4];
  finder.sizes = &finder_size;
  options.is_video = is_video, options.detector_size = 64, options.max_count = below(4);
  options.min_score = 0.9, options.min_presence = 0.3, options.detect_every = 1 + below(4);
  options.tile = below(4) ? 0 : 32, options.is_smooth = below(2), options.is_refined = below(2);
  TAKEN(palm_kits_hands_create(&network, &network, &options, &hands));
  if (below(2)) options.detector_size = 0;
  if (below(2)) any_size.size_count = 0;
  TAKEN(palm_kits_faces_create(&any_size, &options, &faces));
  TAKEN(palm_kits_meshes_create(&any_size, &network, &options, &meshes));
  TAKEN(palm_kits_portrait_create(&network, &finder, &options, &portrait));
  TAKEN(palm_kits_hair_create(&network, &options, &hair));
  if (below(2)) TAKEN(palm_kits_hair_find_heads(hair, &finder));
  TAKEN(palm_kits_try_on_create(&networks, &options, &try_on));
  for (i = 0; i < 6; ++i) {
    palm_kits_image image = some_image();
    palm_kits_motion motion;
    palm_kits_frame frame = some_frame(&motion), *now = is_video && below(4) ? &frame : NULL;
    palm_kits_part part = {0, 0, 0, 0}, *where = below(3) ? NULL : &part;
    palm_kits_list list = {0, 64};
    const palm_kits_mask mask = mask_of(&image, data);
    palm_kits_canvas after = {shown, 0, 0, 0, PALM_KITS_RGBA};
    palm_kits_look look = PALM_KITS_LOOK;
    size_t k;
    after.width = mask.width, after.height = mask.height;
    part.x = any(), part.y = any(), part.width = any(), part.height = any();
    palm_kits_meshes_run(meshes, &image, where, now, found_meshes, &list);
    list.room = 64;
    palm_kits_hands_run(hands, &image, where, now, found_hands, &list);
    palm_kits_portrait_run(portrait, &image, where, now, &mask);
    list.room = 64;
    some_look(&look);
    palm_kits_try_on_run(try_on, &image, where, now, &look, &after, found_meshes, &list);
    list.room = 64;
    if (palm_kits_faces_run(faces, &image, where, now, found_faces, &list)) continue;
    for (k = 0; k < list.count; ++k) {
      const float *box = found_faces[k].box;
      CHECK(box[0] >= 0 && box[1] >= 0 && box[2] > 0 && box[3] > 0);
      CHECK(box[0] + box[2] <= mask.width + 0.01f && box[1] + box[3] <= mask.height + 0.01f);
    }
    if (palm_kits_hair_run(hair, &image, where, now, found_faces, list.count, &mask)) continue;
    for (k = 0; k < (size_t)image.width * (size_t)image.height; ++k)
      CHECK(data[k] >= 0 && data[k] <= 1);
  }
  palm_kits_faces_free(faces);
  palm_kits_meshes_free(meshes);
  palm_kits_hands_free(hands);
  palm_kits_portrait_free(portrait);
  palm_kits_hair_free(hair);
  palm_kits_try_on_free(try_on);
}

int main(int count, char **arguments) {
  int rounds = count > 1 ? atoi(arguments[1]) : 10, i;
  CHECK(palm_kits_version() == PALM_KITS_VERSION && !palm_kits_error()[0]);
  pictures();
  lists();
  kits();
  for (i = 0; i < rounds; ++i) {
    state = (uint64_t)i + 1;
    some_pieces();
    some_video(i % 2);
  }
  return 0;
}
