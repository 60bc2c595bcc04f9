/* Runs .palm files by palm.h as networks of the kits of palm_kits.h. palm_network.c, C99, is
 * compiled with the program that uses it.
 *
 *   palm_network *detector;
 *   palm_kits_network network;
 *   if (palm_network_open("face_detector.palm", 1, &detector)) puts(palm_error());
 *   palm_network_describe(detector, &network);
 *   palm_kits_faces_create(&network, &options, &kit);
 *
 * A network lives longer than its kits, and serves one of them: a plan of the file is made ready
 * when a picture first needs its size. */
#ifndef PALM_NETWORK_H
#define PALM_NETWORK_H

#include "palm.h"
#include "palm_kits.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct palm_network palm_network;

/* Opens a file, whose input `image` is float32[1, height, width, 3]; PALM_ERROR_UNSUPPORTED if it
 * is another. threads: of a run, 1 to 256. What palm.h refuses, here or when a kit says that its
 * network's function returned one of these numbers, palm_error has a text of; PALM_ERROR_MODEL of a
 * run may also be a model with other inputs or outputs than the kit has. */
palm_status palm_network_open(const char *path, int32_t threads, palm_network **network);
void palm_network_free(palm_network *network);
/* Describes it to a kit: the function that runs it, and the sizes that the file has plans for. */
void palm_network_describe(const palm_network *network, palm_kits_network *described);
/* The score from which its finds count, by the file; 0.5 if it has none. */
double palm_network_threshold(const palm_network *network);

#ifdef __cplusplus
}
#endif

#endif
