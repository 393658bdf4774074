/* Shared by checkpoint_*.c and inspect.c. */
#ifndef CHECKPOINT_CHECKPOINT_PRIVATE_H
#define CHECKPOINT_CHECKPOINT_PRIVATE_H

#include "file/block.h"
#include "checkpoint/checkpoint.h"
#include "file/hdf5_file.h"
#include "engine/delayed_scaling.h"
#include "state/fetched.h"
#include "state/piece.h"

/* The HDF5 group of each enum piece_kind. */
extern const char *const checkpoint_groups[PIECE_KINDS];

/* "<group>/<name>" in out. */
enum { CHECKPOINT_DATASET_BYTES = 128 };
void checkpoint_dataset_name(char out[CHECKPOINT_DATASET_BYTES], enum piece_kind kind, const struct parameter *p);

/* HDF5's name for the masters' element type. */
hid_t checkpoint_type(enum dtype dtype);
/* Sets dims to the shape of a parameter's dataset; returns the number of dimensions. */
int checkpoint_dimensions(const struct parameter *parameter, hsize_t dims[2]);

/* What a checkpoint holds, and where. */
struct checkpoint_layout {
    const struct model *model;
    enum dtype dtype;              /* of the tensors */
    int kinds;                     /* the first `kinds` of enum piece_kind */
    int64_t *offsets;              /* [kinds * parameters] byte where each dataset starts in the file, kind by kind */
    struct delayed_scaling scales; /* delayed_scaling_fetch; absent tensors: none are written */
};

/* Writes the whole file with HDF5 except the tensors' content, and fills layout->offsets; who writes that flushes it.
 * Local (rank 0). ERROR_ENVIRONMENT. */
int checkpoint_lay_out(const struct checkpoint_layout *layout, const struct checkpoint_meta *meta, const char *path);
/* Once the tensors' content stands in `blocks`: writes all else anew, where meta holds other numbers, and flushes it.
 */
int checkpoint_lay_out_again(const struct checkpoint_layout *layout, const struct checkpoint_meta *meta,
                             const char *path, struct block_list *blocks);

/* What a run adds to the digest, and the sum over ranks; the latter collective. */
uint64_t checkpoint_digest_run(const struct fetched_elements *fetched, const void *content);
uint64_t checkpoint_digest_sum(struct comm *world, uint64_t own);

/* The state of delayed scaling, group /state/precision. Write: into a file that is being made, whose group /state is
 * there; nothing of absent tensors; false when HDF5 fails. bytes: that it takes. */
bool checkpoint_write_scales(hid_t file, const struct delayed_scaling *host);
int64_t checkpoint_scales_bytes(const struct delayed_scaling *host);
bool checkpoint_has_scales(hid_t file);
/* Takes an open file's state over where file and engine have one and it fits: as many operands and steps, and the same
 * largest numbers. Else the engine's stays as it is. engine->scaling.restored says which. Local. ERROR_USER: the
 * datasets cannot be read. */
int checkpoint_read_scales(hid_t file, const char *path, struct engine *engine);

/* The names of a checkpoint and its side file, while they are written and afterwards; owned. */
struct checkpoint_names {
    char *path, *side;                /* afterwards */
    char *temporary, *side_temporary; /* while written */
};
void checkpoint_names_create(struct checkpoint_names *names, const char *path);
void checkpoint_names_destroy(struct checkpoint_names *names);

/* Writes `bytes` bytes of a dataset at byte `offset` of the file, and adds their hash to blocks. Local.
 * ERROR_ENVIRONMENT. */
int checkpoint_write_run(struct block_list *blocks, int descriptor, const char *path, const void *data, int64_t bytes,
                         int64_t offset);
/* The last steps of a write (rank 0): hashes what is not in blocks, writes the side file, renames both files.
 * ERROR_ENVIRONMENT. */
int checkpoint_publish(struct block_list *blocks, const struct checkpoint_names *names);
/* After a failed write: removes the temporary files, and the side file if there is no checkpoint. Failures to remove
 * are ignored: the error of the write is recorded already. */
void checkpoint_abandon(const struct checkpoint_names *names);

/* Checks that the tensors of the first `kinds` kinds in an open file fit the model. ERROR_USER: tensors are missing,
 * unknown or of another shape (the message names each), or moments are wanted of a final model. */
int checkpoint_check_tensors(hid_t file, const char *path, const struct model *model, int kinds);
/* Reads a slab of the parameter from its open dataset into out, converted to `type`; false on failure. */
bool checkpoint_read_slab(hid_t dataset, hid_t type, const struct parameter *parameter, struct parameter_slab slab,
                          void *out);
/* Records the error that checkpoint_read_slab failed. Returns ERROR_USER. */
int checkpoint_refuse_tensor(const char *path, const char *name);

/* Every rank: reads what it holds of the first `kinds` kinds and, with moments, the scales (checkpoint_load). list:
 * blocks to compare, of which those of no tensor are left out. Collective. */
int checkpoint_read_tensors(struct comm *world, struct engine *engine, const char *path, int kinds,
                            const struct block_list *list, bool *damaged);

/* Opens the file and checks that it is a checkpoint in a format that this program reads. Local. ERROR_USER. */
int checkpoint_open(hid_t *file, const char *path);
/* checkpoint_read_meta on one rank. Local; the error message is recorded (base/error.h), not printed. */
int checkpoint_load_meta(const char *path, struct checkpoint_meta *meta);

/* checkpoint_verify without printing: every rank records the message of the agreed code. tensors: their blocks too;
 * without, what HDF5 parses and all small data. Collective. */
int checkpoint_examine(struct comm *world, const char *path, bool tensors);
/* Reads the side file on rank 0 for all; an empty list where there is none. The caller destroys the list. Errors are
 * shared and recorded, as above. Collective. */
int checkpoint_share_blocks(struct comm *world, const char *path, struct block_list *list);
/* ERROR_USER: the block is damaged. Local. */
int checkpoint_compare_block(const struct hash_block *block, uint64_t hash, const char *path);
/* The same by reading it. */
int checkpoint_check_block(int descriptor, const char *path, const struct hash_block *block);
#endif
