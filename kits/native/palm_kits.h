/* What PalmKit's kits do round their networks, in C: pictures are fitted, crops drawn, outputs
 * decoded, duplicates suppressed, things tracked and steadied, masks brought to the picture's size.
 *
 *   palm_kits_options options = PALM_KITS_FACES;
 *   palm_kits_faces *kit;
 *   palm_kits_face faces[8];
 *   palm_kits_list found = {0, 8};
 *   palm_kits_image image = PALM_KITS_IMAGE(pixels, width, height, PALM_KITS_RGB);
 *   if (palm_kits_faces_create(&detector, &options, &kit) ||
 *       palm_kits_faces_run(kit, &image, NULL, NULL, faces, &found))
 *     puts(palm_kits_error());
 *
 * The second half of this file is whole kits, which are given networks as functions that run them;
 * the first half is the pieces, for who goes another way. Networks may be run by anything:
 * palm_network.h beside this file runs .palm files by palm.h.
 *
 * Pictures are 8 bits a channel, x to the right and y down; pixels are areas: the first covers 0
 * to 1. Buffers are the caller's. What one function made another frees; calls take scratch memory
 * while they run and keep none. An object serves one thread at a time; there is nothing that
 * objects share. No function throws, prints or ends the process.
 *
 * Results are those of palmkit.kits in Python, which tests compare: pixels that are resized or
 * drawn are the same as OpenCV 5 makes them, boxes and points differ by hundredths of a pixel.
 * Texts are UTF-8 and end with a zero.
 *
 * The interface grows by functions, by fields at the end of palm_kits_options, and by numbers.
 */
#ifndef PALM_KITS_H
#define PALM_KITS_H

#include <stddef.h>
#include <stdint.h>

#define PALM_KITS_VERSION_MAJOR 1
#define PALM_KITS_VERSION_MINOR 0
#define PALM_KITS_VERSION (PALM_KITS_VERSION_MAJOR << 16 | PALM_KITS_VERSION_MINOR)

#ifndef PALM_KITS_API
#if defined(_WIN32) && !defined(PALM_KITS_STATIC)
#define PALM_KITS_API __declspec(dllimport)
#elif defined(__GNUC__)
#define PALM_KITS_API __attribute__((visibility("default")))
#else
#define PALM_KITS_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What came of a call: who has to act. Where it is not PALM_KITS_OK, palm_kits_error has a text,
 * and what would have been made is NULL. Numbers that palm.h has as well mean the same there. */
typedef int32_t palm_kits_status;
enum {
  PALM_KITS_OK = 0,
  PALM_KITS_ERROR_SHAPE = 2,    /* a buffer is too small for what goes there */
  PALM_KITS_ERROR_BACKEND = 4,  /* the machine: no memory */
  PALM_KITS_ERROR_ARGUMENT = 5, /* a NULL, a size or a number that no call may have */
  PALM_KITS_ERROR_NETWORK = 7   /* a network's function returned something else than 0 */
};

/* PALM_KITS_VERSION of the library, which may be newer than the header's. */
PALM_KITS_API uint32_t palm_kits_version(void);
/* What the last call of this thread that did not return PALM_KITS_OK says of it, in one line; ""
 * before there was one. It stays until another call fails. */
PALM_KITS_API const char *palm_kits_error(void);

/* ---- Pictures, and what networks take */

typedef int32_t palm_kits_format;
enum {
  PALM_KITS_RGB = 0,
  PALM_KITS_BGR = 1,
  PALM_KITS_RGBA = 2, /* alpha is ignored: cameras and screens leave it undefined */
  PALM_KITS_BGRA = 3,
  PALM_KITS_GREY = 4
};

/* A picture, of at most 65,536 pixels a side and 2^29 in all. Begin with PALM_KITS_IMAGE. All that
 * is said of places, parts and masks is of the upright picture. */
typedef struct palm_kits_image {
  const uint8_t *pixels;
  int32_t width, height; /* as it lies in memory */
  size_t stride;         /* bytes from a row to the next one; 0: those of the row's pixels */
  palm_kits_format format;
  int32_t rotation;    /* clockwise, that turns it upright: 0, 90, 180 or 270 degrees */
  int32_t is_mirrored; /* 1: mirrored left to right after that, as pictures of selfie cameras are */
} palm_kits_image;
#define PALM_KITS_IMAGE(pixels, width, height, format) \
  {(pixels), (width), (height), 0, (format), 0, 0}

/* A part of a picture, in pixels; what of it lies outside of the picture does not count. NULL in a
 * call is the whole picture. */
typedef struct palm_kits_part {
  double x, y, width, height;
} palm_kits_part;

typedef int32_t palm_kits_layout;
enum {
  PALM_KITS_NHWC = 0, /* red, green and blue of a pixel are neighbours */
  PALM_KITS_NCHW = 1  /* three planes */
};

/* A network's input, float32[1, height, width, 3] or float32[1, 3, height, width], RGB: each value
 * is (0..255 - mean) * scale of its channel. PALM_KITS_INPUT has it as PalmKit's networks do. */
typedef struct palm_kits_input {
  float *data;
  size_t size;           /* of data, in bytes: 12 * height * width or more */
  int32_t width, height; /* 1 to 16,384 */
  palm_kits_layout layout;
  float mean[3], scale[3];
} palm_kits_input;
#define PALM_KITS_INPUT(data, size, width, height) \
  {(data), (size), (width), (height), PALM_KITS_NHWC, {0, 0, 0}, {1, 1, 1}}

/* ---- Fit */

/* Where a picture lies on an input: at x * scale_x + shift_x, and likewise for y. */
typedef struct palm_kits_placement {
  double scale_x, scale_y, shift_x, shift_y;
} palm_kits_placement;

/* Fits a part of a picture whole and undistorted in an input, at its top left corner, black beside
 * and below. It shrinks by pixel areas, or grows between pixels, by max_scale at most. */
PALM_KITS_API palm_kits_status palm_kits_letterbox(const palm_kits_image *image,
                                                   const palm_kits_part *part, double max_scale,
                                                   const palm_kits_input *input,
                                                   palm_kits_placement *placement);
/* Brings a part of a picture to the size of an input, which may distort it. */
PALM_KITS_API palm_kits_status palm_kits_stretch(const palm_kits_image *image,
                                                 const palm_kits_part *part,
                                                 const palm_kits_input *input);
/* The same for networks of masks, whose input is a square: halved exactly, which is fast, down to
 * about its size, and between pixels from there. */
PALM_KITS_API palm_kits_status palm_kits_shrink(const palm_kits_image *image,
                                                const palm_kits_part *part,
                                                const palm_kits_input *input);
/* Maps points, x and y each, from the input to the picture, where they are. */
PALM_KITS_API palm_kits_status palm_kits_to_picture(const palm_kits_placement *placement,
                                                    float *points, size_t count);

/* ---- Crop */

/* A rotated square of a picture; its own coordinates run from 0 to 1, y down as its content stands
 * upright. */
typedef struct palm_kits_crop {
  double x, y;  /* of its middle, in pixels of the picture */
  double side;  /* in pixels, above 0 */
  double angle; /* of its content in the picture, clockwise in radians */
} palm_kits_crop;

/* Draws a crop into an input, which is a square: halved by pixel areas while it is twice as large,
 * then between pixels; beyond the picture's border the border's pixels go on. One wholly outside is
 * black. is_mirrored: 1 for its mirror image. */
PALM_KITS_API palm_kits_status palm_kits_crop_draw(const palm_kits_image *image,
                                                   const palm_kits_crop *crop, int32_t is_mirrored,
                                                   const palm_kits_input *input);
/* Maps points of 2 or 3 numbers between a crop and its picture, where they are; z is scaled as x
 * and y are. */
PALM_KITS_API palm_kits_status palm_kits_crop_to_picture(const palm_kits_crop *crop, float *points,
                                                         size_t count, int32_t dims);
PALM_KITS_API palm_kits_status palm_kits_crop_from_picture(const palm_kits_crop *crop,
                                                           float *points, size_t count,
                                                           int32_t dims);
/* What the network of the mesh sees of a face: of one that the detector found (left eye, right eye,
 * nose, left and right corner of the mouth; box: x, y, width, height), and of a mesh. */
PALM_KITS_API palm_kits_status palm_kits_face_crop(const float keypoints[10], const float box[4],
                                                   palm_kits_crop *crop);
PALM_KITS_API palm_kits_status palm_kits_mesh_crop(const float points[1434], palm_kits_crop *crop);
/* What the network of landmarks sees of a hand: of one that the detector found (wrist, base of the
 * middle finger; box as above), and of landmarks. */
PALM_KITS_API palm_kits_status palm_kits_hand_crop(const float keypoints[4], const float box[4],
                                                   palm_kits_crop *crop);
PALM_KITS_API palm_kits_status palm_kits_landmarks_crop(const float landmarks[63],
                                                        palm_kits_crop *crop);

/* ---- Decode and suppress */

/* How many a call found, and how many there is room for. With too little room the call fails, and
 * `count` is how many there are. */
typedef struct palm_kits_list {
  size_t count, room;
} palm_kits_list;

/* Things that a detector found: buffers of the caller's with room for `list.room` of them. */
typedef struct palm_kits_detections {
  palm_kits_list list;
  float *boxes;      /* 4 each: left, top, right, bottom */
  float *scores;     /* 1 each */
  float *points;     /* 2 each a keypoint: x, y; NULL if there are none */
  int32_t keypoints; /* of a thing: 0 to 64 */
} palm_kits_detections;

/* The outputs of a detector for one stride, dense: a cell for each stride x stride pixels of the
 * input, in rows. scores: 1 a cell, 0 to 1. boxes: 4, how far from the cell's middle to the left,
 * top, right and bottom side, in strides. points: 2 a keypoint, x, y from there. */
typedef struct palm_kits_head {
  int32_t stride, width, height; /* width, height: in cells */
  const float *scores, *boxes, *points;
} palm_kits_head;

/* The cells that score min_score or more, head by head, in pixels of the network's input. Those
 * with numbers that are not finite, or without area, are left out. */
PALM_KITS_API palm_kits_status palm_kits_decode(const palm_kits_head *heads, size_t head_count,
                                                double min_score, palm_kits_detections *detections);
/* Leaves one row a thing, the best first: the mean, by score, of nearly equal ones; what lies in a
 * better one is a part of it. */
PALM_KITS_API palm_kits_status palm_kits_merge(palm_kits_detections *detections);
/* The rows of boxes that no better one overlaps by more than max_iou, the best first; of `values`,
 * if they are not NULL, `width` numbers a box, the means by score of each of these boxes and those
 * that overlap it by more than blend_iou and max_iou go to `means`. rows and means have room for
 * all boxes; *kept is how many there are. */
PALM_KITS_API palm_kits_status palm_kits_nms(const float *boxes, const float *scores, size_t count,
                                             double max_iou, const float *values, size_t width,
                                             double blend_iou, size_t *rows, float *means,
                                             size_t *kept);

/* ---- Track */

/* How the camera moved the picture: x + yi comes to (turn_x + turn_y i) (x + yi) + shift, where
 * 1, 0, 0, 0 is not at all. The library does not look for it: who knows it, as by a gyroscope, may
 * say so, and things keep their ids while the camera pans. */
typedef struct palm_kits_motion {
  double turn_x, turn_y, shift_x, shift_y;
} palm_kits_motion;

typedef struct palm_kits_tracker palm_kits_tracker;

/* max_lost_s: how long a thing is waited for; 1 as kits have it. */
PALM_KITS_API palm_kits_status palm_kits_tracker_create(double max_lost_s,
                                                        palm_kits_tracker **tracker);
PALM_KITS_API void palm_kits_tracker_free(palm_kits_tracker *tracker);
/* Says of the next frame how large it is, and how the camera moved since the first one. */
PALM_KITS_API palm_kits_status palm_kits_tracker_look(palm_kits_tracker *tracker,
                                                      const palm_kits_motion *since_first,
                                                      int32_t width, int32_t height);
/* Where what the last frame showed will be: boxes as corners, with room for list->room. */
PALM_KITS_API palm_kits_status palm_kits_tracker_predict(palm_kits_tracker *tracker, double time_s,
                                                         float *boxes, palm_kits_list *list);
/* Takes the boxes of a frame, corners, and writes an id for each. is_sure: for each whether it may
 * start a track if it fits none; -1 is the id of one that fits none and may not. Times rise. */
PALM_KITS_API palm_kits_status palm_kits_tracker_update(palm_kits_tracker *tracker,
                                                        const float *boxes, const uint8_t *is_sure,
                                                        size_t count, double time_s, int64_t *ids);
/* Steadies `width` values of each of these things, in place, once a frame after the update. sizes:
 * how large each thing is, in the values' unit. */
PALM_KITS_API palm_kits_status palm_kits_tracker_smooth(palm_kits_tracker *tracker,
                                                        const int64_t *ids, size_t count,
                                                        const float *sizes, float *values,
                                                        size_t width);

/* ---- Smooth */

/* One-euro filters (Casiez, Roussel, Vogel: 1 Euro Filter, CHI 2012), one for each value. */
typedef struct palm_kits_filter palm_kits_filter;
/* min_cutoff_hz: at rest, less is steadier; beta: more for each size a second that it moves, more
 * follows faster; speed_cutoff_hz: of the speed itself. Kits have 1.5, 8 and 1. */
PALM_KITS_API palm_kits_status palm_kits_filter_create(double min_cutoff_hz, double beta,
                                                       double speed_cutoff_hz,
                                                       palm_kits_filter **filter);
PALM_KITS_API void palm_kits_filter_free(palm_kits_filter *filter);
/* Steadies values in place: always as many, at times that rise. size: of the object, in their unit.
 */
PALM_KITS_API palm_kits_status palm_kits_filter_run(palm_kits_filter *filter, float *values,
                                                    size_t count, double time_s, double size);

/* The mesh of one face: its place, size and turn are steadied little, its shape more. */
typedef struct palm_kits_mesh_filter palm_kits_mesh_filter;
PALM_KITS_API palm_kits_status palm_kits_mesh_filter_create(palm_kits_mesh_filter **filter);
PALM_KITS_API void palm_kits_mesh_filter_free(palm_kits_mesh_filter *filter);
PALM_KITS_API palm_kits_status palm_kits_mesh_filter_run(palm_kits_mesh_filter *filter,
                                                         float points[1434], double time_s);

/* A mask of a video, held still where the picture is. */
typedef struct palm_kits_mask_filter palm_kits_mask_filter;
PALM_KITS_API palm_kits_status palm_kits_mask_filter_create(palm_kits_mask_filter **filter);
PALM_KITS_API void palm_kits_mask_filter_free(palm_kits_mask_filter *filter);
/* Steadies a network's mask, dense and as large as `small`, which is the picture that the network
 * saw, of the part `view` of the frame. */
PALM_KITS_API palm_kits_status palm_kits_mask_filter_run(palm_kits_mask_filter *filter, float *mask,
                                                         const palm_kits_image *small,
                                                         const palm_kits_part *view, double time_s);

/* ---- Masks */

/* A mask as large as its picture, 0 to 1. */
typedef struct palm_kits_mask {
  float *data;
  size_t stride; /* bytes from a row to the next one, a multiple of 4; 0: those of the row */
  int32_t width, height;
} palm_kits_mask;

/* Fades small separate parts of a network's mask, dense, which are hardly ever another person. */
PALM_KITS_API palm_kits_status palm_kits_mask_clean(float *mask, int32_t width, int32_t height);
/* Brings a network's mask, dense, to the size of the picture that it is of, and there to the edges
 * of the picture; without is_refined it is only enlarged. */
PALM_KITS_API palm_kits_status palm_kits_mask_enlarge(const palm_kits_image *image,
                                                      const float *coarse, int32_t coarse_width,
                                                      int32_t coarse_height, int32_t is_refined,
                                                      const palm_kits_mask *mask);
/* How much of each pixel the mask's subject covers, by colour, for hair and other fine edges: 0 and
 * 1 where that is certain. `mask` and `alpha` are as large as the picture. */
PALM_KITS_API palm_kits_status palm_kits_mask_opacity(const palm_kits_image *image,
                                                      const palm_kits_mask *mask,
                                                      const palm_kits_mask *alpha);

/* ---- Networks */

/* A dense float32 array, an input or an output of a network. */
typedef struct palm_kits_tensor {
  const char *name; /* of the model's */
  const int64_t *dims;
  size_t rank;
  float *data;
} palm_kits_tensor;

/* Runs a network of a kit: reads the inputs, and writes all of the outputs. It returns 0, or what
 * the call that needed it says in its error. It must not use the kit. */
typedef int32_t (*palm_kits_run)(void *user, const palm_kits_tensor *inputs, size_t input_count,
                                 const palm_kits_tensor *outputs, size_t output_count);

/* Width and height of an input, in pixels. */
typedef struct palm_kits_size {
  int32_t width, height;
} palm_kits_size;

/* A network. sizes: those that it runs at; a detector without any runs at all, sides multiples of
 * 32, and of others the first, a square, counts. Kits copy them. */
typedef struct palm_kits_network {
  palm_kits_run run;
  void *user;
  const palm_kits_size *sizes;
  size_t size_count;
} palm_kits_network;

/* ---- Kits. Another video takes another kit. */

/* Options of all kits; each begins with its own PALM_KITS_..., which has the size, the defaults of
 * Python and the thresholds of the shipped models. */
typedef struct palm_kits_options {
  size_t size;           /* sizeof(palm_kits_options) */
  int32_t is_video;      /* 0: each picture stands for itself; 1: frames of one video, in order */
  int32_t max_count;     /* keep so many things; 0: all */
  double min_score;      /* least score of what a detector finds, 0 to 1 */
  double min_presence;   /* how certain a mesh or landmarks must be of their thing, 0 to 1 */
  double min_face;       /* least shorter side of a face, in pixels; below 1: of the picture's */
  int32_t detector_size; /* longest side of what the detector sees, 32 to 4,096; 0: of faces 320,
                          * and closer at what may be a small one; of hands 224, and then 448 in
                          * larger pictures without a near hand, in videos from time to time, and
                          * 896 in pictures where that finds none */
  int32_t tile;          /* pictures also in squares of this side, for small things; 0: not */
  int32_t detect_every;  /* frames of a video from one search of the whole to the next */
  int32_t is_smooth;     /* 1: results of videos are steadied */
  int32_t second_pass;   /* 1: what is in pictures is inferred twice, which is better, and small
                          * people in videos are followed */
  int32_t is_refined;    /* 1: masks follow the picture's edges */
  double hold_ms;        /* of a video: a gesture counts once it was held so long */
} palm_kits_options;
#define PALM_KITS_FACES {sizeof(palm_kits_options), 0, 0, 0.65, 0.5, 0, 0, 0, 10, 1, 1, 1, 100}
#define PALM_KITS_MESHES {sizeof(palm_kits_options), 0, 0, 0.65, 0.5, 0, 0, 0, 20, 1, 1, 1, 100}
#define PALM_KITS_HANDS {sizeof(palm_kits_options), 0, 0, 0.35, 0.9, 0, 0, 0, 20, 1, 1, 1, 100}
#define PALM_KITS_MASKS {sizeof(palm_kits_options), 0, 0, 0.65, 0.5, 0, 0, 0, 10, 1, 1, 1, 100}

/* What is known of a frame of a video. NULL in a call: it comes 1/30 s after the last one, and the
 * camera stood still. */
typedef struct palm_kits_frame {
  double timestamp_ms;            /* with any origin; it may repeat or jump back */
  const palm_kits_motion *motion; /* the camera's, since the last frame; NULL: none */
} palm_kits_frame;

typedef struct palm_kits_face {
  float box[4];          /* x, y, width, height, inside the picture */
  float score;           /* 0 to 1 */
  float keypoints[5][2]; /* left eye, right eye, nose, left and right corner of the mouth */
  int64_t id;            /* of a video: the same while it is tracked; -1 in pictures */
} palm_kits_face;

typedef struct palm_kits_mesh {
  palm_kits_face face;
  float points[478]
              [3]; /* in pixels, z smaller nearer to the camera; docs/mesh.md has their order */
  float visibility[478]; /* 0 hidden to 1 seen */
} palm_kits_mesh;

typedef struct palm_kits_hand {
  float box[4]; /* as that of a face */
  float score;
  float landmarks[21][3]; /* from the wrist, finger by finger from the thumb, outwards */
  float right;            /* how likely it is a right hand, 0 to 1 */
  float gesture_score;
  int32_t gesture; /* palm_kits_gesture_name has its name */
  int64_t id;
} palm_kits_hand;

/* "fist", "open_palm", "one", "two", "three", "four", "ok", "thumb_up", "thumb_down",
 * "finger_heart", "other"; NULL from there on. */
PALM_KITS_API const char *palm_kits_gesture_name(int32_t gesture);

/* Finds faces, best first. The network has the contract of face_detector: input image, outputs
 * score_s, box_s and points_s for s = 8, 16 and 32. */
typedef struct palm_kits_faces palm_kits_faces;
PALM_KITS_API palm_kits_status palm_kits_faces_create(const palm_kits_network *detector,
                                                      const palm_kits_options *options,
                                                      palm_kits_faces **kit);
PALM_KITS_API void palm_kits_faces_free(palm_kits_faces *kit);
PALM_KITS_API palm_kits_status palm_kits_faces_run(palm_kits_faces *kit,
                                                   const palm_kits_image *image,
                                                   const palm_kits_part *part,
                                                   const palm_kits_frame *frame,
                                                   palm_kits_face *faces, palm_kits_list *found);

/* Finds faces with their meshes. mesh: input image, outputs points, visibility and presence. */
typedef struct palm_kits_meshes palm_kits_meshes;
PALM_KITS_API palm_kits_status palm_kits_meshes_create(const palm_kits_network *detector,
                                                       const palm_kits_network *mesh,
                                                       const palm_kits_options *options,
                                                       palm_kits_meshes **kit);
PALM_KITS_API void palm_kits_meshes_free(palm_kits_meshes *kit);
PALM_KITS_API palm_kits_status palm_kits_meshes_run(palm_kits_meshes *kit,
                                                    const palm_kits_image *image,
                                                    const palm_kits_part *part,
                                                    const palm_kits_frame *frame,
                                                    palm_kits_mesh *meshes, palm_kits_list *found);

/* Finds hands, their side and what they show. landmarks: inputs image and up, outputs landmarks,
 * handedness, presence and gesture. */
typedef struct palm_kits_hands palm_kits_hands;
PALM_KITS_API palm_kits_status palm_kits_hands_create(const palm_kits_network *detector,
                                                      const palm_kits_network *landmarks,
                                                      const palm_kits_options *options,
                                                      palm_kits_hands **kit);
PALM_KITS_API void palm_kits_hands_free(palm_kits_hands *kit);
PALM_KITS_API palm_kits_status palm_kits_hands_run(palm_kits_hands *kit,
                                                   const palm_kits_image *image,
                                                   const palm_kits_part *part,
                                                   const palm_kits_frame *frame,
                                                   palm_kits_hand *hands, palm_kits_list *found);

/* Finds the people of a picture, pixel by pixel. portrait: input image, output mask. finder, of the
 * same kind with half the sides for its mask, says where to look closer, in videos at small people,
 * who are followed; NULL: the whole picture is looked at. mask: as large as the picture, 0 outside
 * the part. */
typedef struct palm_kits_portrait palm_kits_portrait;
PALM_KITS_API palm_kits_status palm_kits_portrait_create(const palm_kits_network *portrait,
                                                         const palm_kits_network *finder,
                                                         const palm_kits_options *options,
                                                         palm_kits_portrait **kit);
PALM_KITS_API void palm_kits_portrait_free(palm_kits_portrait *kit);
PALM_KITS_API palm_kits_status palm_kits_portrait_run(palm_kits_portrait *kit,
                                                      const palm_kits_image *image,
                                                      const palm_kits_part *part,
                                                      const palm_kits_frame *frame,
                                                      const palm_kits_mask *mask);

/* Finds the hair round faces that palm_kits_faces_run found in the same picture; without any it
 * looks at all of the part. */
typedef struct palm_kits_hair palm_kits_hair;
PALM_KITS_API palm_kits_status palm_kits_hair_create(const palm_kits_network *hair,
                                                     const palm_kits_options *options,
                                                     palm_kits_hair **kit);
/* From here on it looks for the hair of people whose faces are not among these as well, such as
 * those seen from behind, as Python does. finder: as of palm_kits_portrait_create; NULL: no more. */
PALM_KITS_API palm_kits_status palm_kits_hair_find_heads(palm_kits_hair *kit,
                                                         const palm_kits_network *finder);
PALM_KITS_API void palm_kits_hair_free(palm_kits_hair *kit);
PALM_KITS_API palm_kits_status palm_kits_hair_run(palm_kits_hair *kit, const palm_kits_image *image,
                                                  const palm_kits_part *part,
                                                  const palm_kits_frame *frame,
                                                  const palm_kits_face *faces, size_t face_count,
                                                  const palm_kits_mask *mask);

/* Puts lipstick and hair dye on the faces of a picture. */

/* How an effect's light falls: matte dims highlights, satin keeps them, gloss adds to them, shimmer
 * sparkles; dye has none that shimmers. */
typedef int32_t palm_kits_finish;
enum {
  PALM_KITS_MATTE = 0,
  PALM_KITS_SATIN = 1,
  PALM_KITS_GLOSS = 2,
  PALM_KITS_SHIMMER = 3
};

/* One thing worn. opacity: 0 to 1, how far its region takes the colour; 0: it is not worn. */
typedef struct palm_kits_effect {
  uint8_t red, green, blue;
  palm_kits_finish finish;
  double opacity;
} palm_kits_effect;

/* Whose face and hair wear a look; 0 and on: one, by its number from the left. */
enum { PALM_KITS_ALL = -1, PALM_KITS_LARGEST = -2, PALM_KITS_MIDDLE = -3 };

/* A look, and how it is worn; it may change from frame to frame. Begin with PALM_KITS_LOOK. */
typedef struct palm_kits_look {
  size_t size; /* sizeof(palm_kits_look) */
  palm_kits_effect lipstick, hair;
  int32_t face;          /* PALM_KITS_ALL or its like */
  int32_t behind_hair;   /* 1: strands in front of the face stay over the lipstick */
  int32_t behind_hands;  /* 1: so do hands, where the kit has their networks */
  int32_t behind_things; /* 1: so does what has another colour than the face's skin */
} palm_kits_look;
#define PALM_KITS_LOOK \
  {sizeof(palm_kits_look), {0, 0, 0, 1, 0}, {0, 0, 0, 1, 0}, PALM_KITS_ALL, 1, 1, 1}

/* A picture that is written, as large as the upright one; RGB, BGR, RGBA or BGRA, whose alpha
 * becomes 255. It may be none of the pixels that are read. */
typedef struct palm_kits_canvas {
  uint8_t *pixels;
  int32_t width, height;
  size_t stride; /* as an image's */
  palm_kits_format format;
} palm_kits_canvas;

/* The networks of try-on, each as the kit of its name needs it. hair: NULL where no look dyes any,
 * and none is in front. hand_detector, hand_landmarks: NULL where hands are not looked for. */
typedef struct palm_kits_try_on_networks {
  const palm_kits_network *detector, *mesh, *hair, *hand_detector, *hand_landmarks;
} palm_kits_try_on_networks;

/* Options are those of meshes. Writes the picture with the look on, whose other pixels are as they
 * were, and the faces that wear it; meshes and found may be NULL. */
typedef struct palm_kits_try_on palm_kits_try_on;
PALM_KITS_API palm_kits_status palm_kits_try_on_create(const palm_kits_try_on_networks *networks,
                                                       const palm_kits_options *options,
                                                       palm_kits_try_on **kit);
PALM_KITS_API void palm_kits_try_on_free(palm_kits_try_on *kit);
PALM_KITS_API palm_kits_status palm_kits_try_on_run(palm_kits_try_on *kit,
                                                    const palm_kits_image *image,
                                                    const palm_kits_part *part,
                                                    const palm_kits_frame *frame,
                                                    const palm_kits_look *look,
                                                    const palm_kits_canvas *after,
                                                    palm_kits_mesh *meshes, palm_kits_list *found);

#ifdef __cplusplus
}
#endif

#endif
