/* Shared by the files of io/checkpoint_*.c and io/inspect.c. */
#ifndef IO_CHECKPOINT_PRIVATE_H
#define IO_CHECKPOINT_PRIVATE_H

#include "io/checkpoint.h"
#include "io/hdf5_file.h"
#include "io/piece.h"

/* The group of each enum piece_kind. */
extern const char *const checkpoint_groups[PIECE_KINDS];

/* "<group>/<name>" in out. */
enum { CHECKPOINT_DATASET_BYTES = 128 };
void checkpoint_dataset_name(char out[CHECKPOINT_DATASET_BYTES], enum piece_kind kind, const struct parameter *p);

/* HDF5's name for the masters' element type. */
hid_t checkpoint_type(const struct engine *engine);
/* Dimensions of a parameter's dataset; returns how many. */
int checkpoint_dimensions(const struct parameter *parameter, hsize_t dims[2]);

/* Lays the file out with HDF5: all of it but the tensors' content. offsets[kinds * parameters]: where
 * each dataset starts in the file, kind by kind. Local (rank 0). ERROR_ENVIRONMENT. */
int checkpoint_lay_out(const struct engine *engine, const struct checkpoint_meta *meta, const char *path, int kinds,
                       int64_t *offsets);

/* Opens the file and checks that it is a checkpoint of a format that this program reads. Local. ERROR_USER. */
int checkpoint_open(hid_t *file, const char *path);
/* checkpoint_read_meta by one rank. Local; the message is in the record. */
int checkpoint_load_meta(const char *path, struct checkpoint_meta *meta);

/* checkpoint_verify, but quiet: the agreed code's message is in every rank's record. Collective. */
int checkpoint_examine(struct comm *world, const char *path);
#endif
