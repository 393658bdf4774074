/* Key header: a checkpoint is one HDF5 file with every tensor in its global, unpadded shape. Any number of ranks can
 * read it, in any layout, and so can any HDF5 program.
 *
 *   /                attribute cistron_checkpoint: version of this format
 *   /meta            attributes deck, version, tokenizer (texts), step, updates, tokens, unpadded_tokens, seed, ranks,
 *                    vocabulary, validation_step, best_step, best_loss, outliers, gradient_norms (array); digest, as a
 *                    signed number
 *   /data            attributes offset, epoch, window, before, key: the position in the data (loader/blend.h); the last
 *                    four are numbers with one store, else arrays with an entry for each. content, path: the stores
 *                    (loader/provenance.h). store: their checksum (loader/store_set.h), as a signed number
 *   /model/<name>    weights: matrices [rows, cols], vectors [cols], in the type of the masters (f32)
 *   /optim/m/<name>, /optim/v/<name>   moments, of the same shapes; a final model has none
 *   /state/choices   the executor's tuned kernels, if it has any (checkpoint/tuned_kernels.h)
 *   /state/precision/history [operands, steps], scale [operands], largest [operands]
 *                    state of delayed scaling, if the run uses it (engine/delayed_scaling.h); a final model has none
 *   /tokenizer       the files of a tokenizer of text (data/tokenizer_member.h)
 *   /carried/<name>  tensors of the imported model that are not trained (checkpoint/carried.h)
 *
 * A side file "<path>.xxh3" has the hashes of all its bytes (file/block.h).
 *
 * How a checkpoint is written:
 *   1. Rank 0 lays out <path>.tmp with HDF5.
 *   2. Every rank writes its share at the offsets of the datasets, hashes it while writing, and flushes.
 *   3. Rank 0 writes the rest again, now with the digest, flushes and hashes it, and writes and flushes
 *      <path>.xxh3.tmp.
 *   4. Rank 0 renames the side file, then the checkpoint, and flushes the folder after each.
 * A program killed at any point leaves either no <path>, or a complete one with its side file. A side file without a
 * checkpoint is replaced or pruned later.
 * If <path> already exists, the new side file does not match the old content. Then step 4 removes the old side file,
 * renames the checkpoint, and renames the side file last. A program killed in between leaves the old or the new file
 * complete, without its side file.
 *
 * Collective functions return the same code on all ranks, and rank 0 has printed the message (comm_agree). */
#ifndef CHECKPOINT_CHECKPOINT_H
#define CHECKPOINT_CHECKPOINT_H

#include "comm/comm.h"
#include "loader/loader.h"
#include "state/gradient_norms.h"

struct carried_files;
struct engine;
struct snapshot;

enum { CHECKPOINT_FORMAT = 1, CHECKPOINT_VERSION_BYTES = 64, CHECKPOINT_TOKENIZER_BYTES = TOKENIZER_NAME_BYTES };

struct checkpoint_meta {
    char *deck_text;                        /* the effective deck */
    char version[CHECKPOINT_VERSION_BYTES]; /* version of the program that writes the file; the caller sets it */
    int64_t step;                           /* steps done, skipped steps included */
    /* Updates that the moments have seen, for the bias correction: the steps that were not skipped, plus the updates of
     * an earlier run if this run started from its moments. checkpoint_write sets it. Reading a file of version 0.1,
     * which lacks it, sets it to step. */
    int64_t updates;
    bool moments;   /* the file has moments; set by reading */
    bool scales;    /* the file has the state of delayed scaling; set by reading */
    int64_t tokens; /* tokens trained on so far, padding included */
    /* Tokens without padding. Reading a file of a version before 0.2, which lacks it, sets it to tokens. */
    int64_t unpadded;
    struct gradient_norms norms; /* none in files of versions before 0.2 */
    int64_t seed;
    int64_t ranks; /* number of ranks that wrote the file, for information; checkpoint_write sets it */
    struct blend_position position;
    uint64_t store; /* checksum of the token stores trained on */
    /* The stores trained on; empty for random data, and for files of versions before 0.2 with several stores. Borrowed
     * when a file is written. */
    struct data_provenance provenance;
    /* checkpoint_digest of weights and moments. Writing a file with moments sets it; for a file of weights alone the
     * caller passes it. 0 = unknown. */
    uint64_t digest;
    char tokenizer[CHECKPOINT_TOKENIZER_BYTES];
    int64_t vocabulary;      /* rows of the embedding; 0 in files of version 0.1 */
    int64_t validation_step; /* step of the last validation; 0 = none */
    int64_t best_step;       /* step of the best validation so far, best_loss; 0 = none */
    double best_loss;        /* nats per label; with another validation.metric, minus the metric */
    /* The next three are borrowed and used on rank 0 only; reading leaves them NULL. NULL = none. */
    const struct carried_files *carried; /* carried tensors to write; carried_read reads them */
    const struct tokenizer *opened; /* an open tokenizer; a text tokenizer's files are written, tokenizer_member_open
                                       reads them */
    const void *tuned_kernels; /* the executor's tuned kernels, [tuned_kernels_bytes]; tuned_kernels_read reads them */
    int64_t tuned_kernels_bytes;
};

/* Frees what checkpoint_read_meta allocated. */
void checkpoint_meta_destroy(struct checkpoint_meta *meta);

/* A checkpoint that is being written, possibly in the background. */
struct checkpoint_save;

/* Begins a save of the engine's weights, and with with_optimizer of its moments and scales. Collective over world,
 * which includes the ranks of engine->settings.tensor; ranks that own the same shard divide the work. Without a
 * snapshot, the shares are written before it returns. With a snapshot (which needs with_optimizer), the state is copied
 * there, and a thread on each rank writes it while the engine continues; the thread uses neither MPI nor HDF5 nor the
 * device. meta and snapshot are borrowed until checkpoint_end. After success
 * checkpoint_end must be called before the engine is destroyed and before the next save. A failure on any rank is
 * ERROR_ENVIRONMENT on all ranks; then there is no save and no file. */
int checkpoint_begin(struct checkpoint_save **save, struct comm *world, struct engine *engine,
                     const struct checkpoint_meta *meta, const char *path, bool with_optimizer,
                     struct snapshot *snapshot);

/* Returns whether all ranks' shares are on the disk or have failed, so that checkpoint_end will not wait for them. Call
 * it after each step: a rank's writer thread starts in this call, or in checkpoint_end, once the snapshot is complete.
 * With tensor parallelism each call exchanges a part of the snapshot (snapshot_complete). Collective. */
bool checkpoint_ready(struct checkpoint_save *save);

struct checkpoint_written {
    uint64_t digest; /* of the written state, or meta's */
    int64_t bytes;   /* of all tensors */
    double seconds;  /* from the beginning until the slowest rank's share was on the disk */
};

/* Waits for the shares, renames the file to its final name, and frees save. Collective. A failure of any rank or writer
 * thread (disk full, no permission) is ERROR_ENVIRONMENT on all ranks; then an older file at path is untouched, and no
 * temporary file remains. */
int checkpoint_end(struct checkpoint_save *save, struct checkpoint_written *written);

/* checkpoint_begin without a snapshot, then checkpoint_end. With a dry engine (core/executor.h) it makes no file, but
 * the same collectives. Collective. */
int checkpoint_write(struct comm *world, struct engine *engine, const struct checkpoint_meta *meta, const char *path,
                     bool with_optimizer);

/* Compares the file with the hashes in its side file; each rank checks some of the blocks. Call it before HDF5 opens
 * the file, because damaged metadata can crash the library. A missing side file is a warning, and then the file must
 * open as a checkpoint. Collective. ERROR_USER: the message names the damage; ERROR_ENVIRONMENT: the file cannot be
 * read. */
int checkpoint_verify(struct comm *world, const char *path);

/* Reads /meta and /data of a verified file on rank 0 and sends them to all ranks. On success the caller destroys meta;
 * on error it is empty. Collective. ERROR_USER: not a checkpoint, or damaged. */
int checkpoint_read_meta(struct comm *world, const char *path, struct checkpoint_meta *meta);

/* Reads weights into the engine from a verified file of any float type and HDF5 layout. with_optimizer: also reads the
 * moments and sets engine_updates; otherwise both stay unchanged. The state of delayed scaling is read with the moments
 * if it fits the engine's (engine->scaling.restored). Collective. ERROR_USER: tensors are missing, unknown or of
 * another shape (the message names each), or moments are requested and the file has none. */
int checkpoint_read(struct comm *world, struct engine *engine, const char *path, bool with_optimizer);

/* As checkpoint_read, for a training that begins from the file. Adapters (architecture/lora.h) keep the engine's values
 * if the file has none. new_head: the engine has a fine-tuning head and the file a language-model head. The head's
 * linear layers then keep the engine's values, and the file's head is not read, but for its final norm. ERROR_USER too:
 * the file has tensors of such a head; with_optimizer, and it has no adapters. */
int checkpoint_read_origin(struct comm *world, struct engine *engine, const char *path, bool with_optimizer,
                           bool new_head);

/* As checkpoint_read, for a file of checkpoint_find_to_load: it also compares each block of a tensor with its hash,
 * once over all ranks. If a block differs it returns ERROR_USER and sets *damaged; the message is then recorded on all
 * ranks and not printed, and the engine is partly loaded and must not be used. Collective. */
int checkpoint_load(struct comm *world, struct engine *engine, const char *path, bool with_optimizer, bool *damaged);

/* Makes the collectives of checkpoint_load, with optimizer, for a file with this meta and number of hashed blocks,
 * without a file, for estimates of their traffic. Collective. */
void checkpoint_dry_load(struct comm *world, const struct engine *engine, struct checkpoint_meta *meta, int64_t blocks);

/* Returns "<folder>/step_00000123.h5", freed with free(). Local. */
char *checkpoint_path(const char *folder, int64_t step);

/* Finds and verifies the checkpoint to use. `where` is a file, or a run folder, in which the newest good checkpoint is
 * chosen. *path is freed with free(), and NULL if a folder has no checkpoints. In a folder, a file that fails
 * verification is set aside (renamed to *.bad, with a warning), and the next older one is tried. Collective; all ranks
 * get rank 0's choice. ERROR_USER: `where` does not exist, the file is bad or of a newer program, or all checkpoints of
 * the folder are bad. ERROR_ENVIRONMENT: a file cannot be read; it is not set aside. */
int checkpoint_find(struct comm *world, const char *where, char **path);
/* As checkpoint_find. On rank 0, *aside is one line for each file that was set aside, with the reason, or NULL; freed
 * with free(). */
int checkpoint_find_reporting(struct comm *world, const char *where, char **path, char **aside);
/* As checkpoint_find_reporting, but verifies only the metadata: checkpoint_load compares the tensors while reading
 * them.
 */
int checkpoint_find_to_load(struct comm *world, const char *where, char **path, char **aside);
/* Sets a file aside whose error all ranks have recorded, and clears the error. Returns the warning's line on rank 0,
 * freed with free(), NULL on other ranks. Collective. */
char *checkpoint_set_aside(struct comm *world, const char *path);

/* Checks that `where` exists. Collective. ERROR_USER: it does not; the message begins with `before`, the path and
 * `after`, with which the caller names the key or option. */
int checkpoint_look(struct comm *world, const char *before, const char *where, const char *after);

/* Records the error that the folder has no checkpoint and one is needed, with a message of its own for a run that has
 * not saved one yet. The message begins with `before`, the folder and `after`. Returns ERROR_USER. Local. */
int checkpoint_none(const char *before, const char *folder, const char *after);

/* checkpoint_find for callers that need only weights. In a run folder it chooses final_model.h5, unless the run was
 * continued afterwards and has a checkpoint of a later step. *path is never NULL on success: a folder without
 * checkpoints is ERROR_USER, and the message names --checkpoint. Collective. */
int checkpoint_find_model(struct comm *world, const char *where, char **path);

/* As checkpoint_find_model and then checkpoint_read_meta, by this process alone. If the metadata cannot be read, *path
 * is set all the same. */
int checkpoint_find_meta(const char *where, char **path, struct checkpoint_meta *meta);

/* Returns whether there is a good file at path whose digest in /meta is `digest`. Collective; prints nothing. */
bool checkpoint_matches(struct comm *world, const char *path, uint64_t digest);

/* Finds the newest checkpoint of a run folder without verifying it; *path is freed with free(), NULL if there is none.
 * Local. ERROR_ENVIRONMENT: the folder cannot be read. */
int checkpoint_newest(const char *folder, char **path);

/* Which step_*.h5 files are kept: the newest `keep` that have a side file and any newer ones without one, the steps
 * that are multiples of keep_every (0 = none), and best_step (0 = none). */
struct checkpoint_rule {
    int64_t keep, keep_every, best_step;
};

/* Removes the step_*.h5 files that the rule does not keep, then calls checkpoint_remove_leftovers. Collective.
 * ERROR_ENVIRONMENT. */
int checkpoint_prune(struct comm *world, const char *folder, const struct checkpoint_rule *rule);

/* Removes the files that killed programs left: step_*.tmp, and side files without a checkpoint. Local.
 * ERROR_ENVIRONMENT. */
int checkpoint_remove_leftovers(const char *folder);

/* Returns a checksum of the model's weights and moments: the sum over elements of a hash of (tensor, global index,
 * bits). It does not depend on how the model is sharded, and excludes padding. Collective over the ranks that own the
 * model. */
uint64_t checkpoint_digest(struct comm *world, struct engine *engine);

#endif
