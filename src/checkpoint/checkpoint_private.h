/* Private functions of checkpoint_*.c and inspect.c. */
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

/* Writes "<group>/<name>" to out. */
enum { CHECKPOINT_DATASET_BYTES = 128 };
void checkpoint_dataset_name(char out[CHECKPOINT_DATASET_BYTES], enum piece_kind kind, const struct parameter *p);

/* Returns the HDF5 type of the masters' element type. */
hid_t checkpoint_type(enum dtype dtype);
/* Sets dims to the shape of a parameter's dataset; returns the number of dimensions. */
int checkpoint_dimensions(const struct parameter *parameter, hsize_t dims[2]);

/* The contents of a checkpoint, and their offsets. */
struct checkpoint_layout {
    const struct model *model;
    enum dtype dtype;              /* element type of the tensors */
    int kinds;                     /* the file has the first `kinds` of enum piece_kind */
    int64_t *offsets;              /* [kinds * parameters] byte offset of each dataset in the file, kind by kind */
    struct delayed_scaling scales; /* from delayed_scaling_fetch; absent tensors are not written */
};

/* Writes the whole file with HDF5 except the tensors' content, and fills layout->offsets. The caller writes the
 * tensors, and flushes the file. Local (rank 0). ERROR_ENVIRONMENT. */
int checkpoint_lay_out(const struct checkpoint_layout *layout, const struct checkpoint_meta *meta, const char *path);
/* Rewrites everything except the tensors, whose ranges are in `blocks`, with a changed `meta`, and flushes it. Local
 * (rank 0). ERROR_ENVIRONMENT. */
int checkpoint_lay_out_again(const struct checkpoint_layout *layout, const struct checkpoint_meta *meta,
                             const char *path, struct block_list *blocks);

/* checkpoint_digest_run returns what a run of elements adds to the digest; local. checkpoint_digest_sum returns the sum
 * over ranks; collective. */
uint64_t checkpoint_digest_run(const struct fetched_elements *fetched, const void *content);
uint64_t checkpoint_digest_sum(struct comm *world, uint64_t own);

/* The state of delayed scaling, group /state/precision. checkpoint_write_scales writes it into a file that is being
 * made and has a group /state, or nothing if the tensors are absent; it returns false if HDF5 fails.
 * checkpoint_scales_bytes returns an upper bound of its size in the file. */
bool checkpoint_write_scales(hid_t file, const struct delayed_scaling *host);
int64_t checkpoint_scales_bytes(const struct delayed_scaling *host);
bool checkpoint_has_scales(hid_t file);
/* Loads the state of delayed scaling from a file that rank 0 opens, if file and engine have one and it fits: equal
 * numbers of operands and steps, and equal `largest` numbers. Otherwise the engine's state is unchanged.
 * engine->scaling.restored says which. Collective; the error is shared, not printed. ERROR_USER: the datasets cannot be
 * read. */
int checkpoint_read_scales(struct comm *world, const char *path, struct engine *engine);

/* The final and temporary names of a checkpoint and its side file; owned. */
struct checkpoint_names {
    char *path, *side;                /* final names */
    char *temporary, *side_temporary; /* names while the files are written */
};
void checkpoint_names_create(struct checkpoint_names *names, const char *path);
void checkpoint_names_destroy(struct checkpoint_names *names);

/* Writes `bytes` bytes of a dataset at byte `offset` of the file, and adds their hash to blocks. Thread-safe. Local.
 * ERROR_ENVIRONMENT. */
int checkpoint_write_run(struct block_list *blocks, int descriptor, const char *path, const void *data, int64_t bytes,
                         int64_t offset);
/* Finishes a write on rank 0: hashes the ranges that are not in blocks, writes the side file, renames both files.
 * ERROR_ENVIRONMENT. */
int checkpoint_publish(struct block_list *blocks, const struct checkpoint_names *names);
/* Removes the temporary files after a failed write, and the side file if there is no checkpoint. Failures are ignored,
 * because the error of the write is already recorded. Local. */
void checkpoint_abandon(const struct checkpoint_names *names);

/* The tensors that are read: the first `kinds` kinds, without those that are new in a training that begins from the
 * file (checkpoint_read_origin). */
struct checkpoint_reading {
    int kinds;
    bool new_head, new_adapters;
};

/* Returns whether an open file has linear layers of the model's fine-tuning head; true if the model has none. Local. */
bool checkpoint_has_task_head(hid_t file, const struct model *model);

/* Checks that the tensors in an open file fit the model. Local. ERROR_USER: tensors are missing, unknown or of another
 * shape (the message names each), or moments are requested and the file is a final model. */
int checkpoint_check_tensors(hid_t file, const char *path, const struct model *model,
                             const struct checkpoint_reading *reading);
/* Reads a slab of the parameter from its open dataset into out, converted to `type`. Returns false on failure. */
bool checkpoint_read_slab(hid_t dataset, hid_t type, const struct parameter *parameter, struct parameter_slab slab,
                          void *out);
/* Records the error that checkpoint_read_slab failed. Returns ERROR_USER. */
int checkpoint_refuse_tensor(const char *path, const char *name);

/* In place of an offset: the tensor is not read, and keeps the engine's values. */
enum { CHECKPOINT_NEW = -2 };
/* Writes the offset of each dataset's bytes in an open file to places[kinds * parameters], kind by kind: -1 if they do
 * not have the layout of a row-major array of `dtype`. Local. */
void checkpoint_find_places(hid_t file, const struct model *model, int kinds, enum dtype dtype, int64_t *places);
/* Reads each rank's shards of the first `kinds` kinds; with moments also the state of delayed scaling
 * (checkpoint_load). places: from checkpoint_find_places; a rank opens the file with HDF5 only if it owns elements
 * without a place. list: blocks to compare; blocks that are not of tensors are ignored. Collective. */
int checkpoint_read_tensors(struct comm *world, struct engine *engine, const char *path, int kinds,
                            const int64_t *places, const struct block_list *list, bool *damaged);

/* Opens the file and checks that it is a checkpoint in a format that this program reads. Local. ERROR_USER. */
int checkpoint_open(hid_t *file, const char *path);
/* As checkpoint_read_meta, on one rank. Local; the error message is recorded (base/error.h), not printed. */
int checkpoint_load_meta(const char *path, struct checkpoint_meta *meta);

/* As checkpoint_verify without printing: all ranks record the message of the agreed code. tensors: compare the tensors'
 * blocks too; otherwise only what HDF5 parses and small data. Collective. */
int checkpoint_examine(struct comm *world, const char *path, bool tensors);
/* Reads the side file on rank 0 and sends it to all ranks; the list is empty if there is no side file. The caller
 * destroys the list. Errors are recorded on all ranks and not printed. Collective. */
int checkpoint_share_blocks(struct comm *world, const char *path, struct block_list *list);
/* Sends rank 0's list to all ranks, whose lists are empty. Collective. */
void checkpoint_send_blocks(struct comm *world, struct block_list *list);
/* Sends rank 0's meta to all ranks, which get copies of what it points to. Collective. */
void checkpoint_send_meta(struct comm *world, struct checkpoint_meta *meta);
/* Replaces the numbers that this rank has drawn for each block by the lowest over all ranks. Collective. */
void checkpoint_draw_blocks(struct comm *world, int64_t *numbers, int64_t count);
/* checkpoint_compare_block compares a block's hash with `hash`; checkpoint_check_block reads the block to compute it.
 * Local. ERROR_USER: the block is damaged. ERROR_ENVIRONMENT: it cannot be read. */
int checkpoint_compare_block(const struct hash_block *block, uint64_t hash, const char *path);
int checkpoint_check_block(int descriptor, const char *path, const struct hash_block *block);
#endif
