/* Shared by the files of io/checkpoint_*.c and io/inspect.c. */
#ifndef IO_CHECKPOINT_PRIVATE_H
#define IO_CHECKPOINT_PRIVATE_H

#include "io/block.h"
#include "io/checkpoint.h"
#include "io/hdf5_file.h"
#include "step/piece.h"

/* The group of each enum piece_kind. */
extern const char *const checkpoint_groups[PIECE_KINDS];

/* "<group>/<name>" in out. */
enum { CHECKPOINT_DATASET_BYTES = 128 };
void checkpoint_dataset_name(char out[CHECKPOINT_DATASET_BYTES], enum piece_kind kind, const struct parameter *p);

/* HDF5's name for the masters' element type. */
hid_t checkpoint_type(enum dtype dtype);
/* Dimensions of a parameter's dataset; returns how many. */
int checkpoint_dimensions(const struct parameter *parameter, hsize_t dims[2]);

/* What a file holds. */
struct checkpoint_layout {
    const struct model *model;
    enum dtype dtype; /* of the tensors */
    int kinds;        /* how many of enum piece_kind */
    int64_t *offsets; /* [kinds * parameters] where each dataset starts in the file, kind by kind */
};

/* Lays the file out with HDF5: all of it but the tensors' content; fills layout->offsets. Local (rank 0).
 * ERROR_ENVIRONMENT. */
int checkpoint_lay_out(const struct checkpoint_layout *layout, const struct checkpoint_meta *meta, const char *path);

/* The names that a file has while it is written, and then; owned. */
struct checkpoint_names {
    char *path, *side;                /* in the end */
    char *temporary, *side_temporary; /* before */
};
void checkpoint_names_create(struct checkpoint_names *names, const char *path);
void checkpoint_names_destroy(struct checkpoint_names *names);

/* A run of a dataset at its offset in the file, and its hash onto the list. Local. ERROR_ENVIRONMENT. */
int checkpoint_write_run(struct block_list *blocks, int descriptor, const char *path, const void *data, int64_t bytes,
                         int64_t offset);
/* The last steps of a write (rank 0): hashes what the blocks leave out, writes the side file, gives both their names.
 * ERROR_ENVIRONMENT. */
int checkpoint_publish(struct block_list *blocks, const struct checkpoint_names *names);
/* After a failure, as far as that goes: the reason was told already. */
void checkpoint_abandon(const struct checkpoint_names *names);

/* Do the first `kinds` kinds of an open file's tensors fit the model? ERROR_USER: tensors that are missing, unknown or
 * of another shape, each named; a final model where moments are wanted. */
int checkpoint_check_tensors(hid_t file, const char *path, const struct model *model, int kinds);
/* A slab of the parameter from its open dataset into out, as `type`; false on failure. */
bool checkpoint_read_slab(hid_t dataset, hid_t type, const struct parameter *parameter, struct slab slab, void *out);
/* The message when that fails: ERROR_USER. */
int checkpoint_refuse_tensor(const char *path, const char *name);

/* Opens the file and checks that it is a checkpoint of a format that this program reads. Local. ERROR_USER. */
int checkpoint_open(hid_t *file, const char *path);
/* checkpoint_read_meta by one rank. Local; the message is in the record. */
int checkpoint_load_meta(const char *path, struct checkpoint_meta *meta);

/* checkpoint_verify, but quiet: the agreed code's message is in every rank's record. Collective. */
int checkpoint_examine(struct comm *world, const char *path);
#endif
