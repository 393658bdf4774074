/* Checkpoints: one HDF5 file with every tensor in its global, unpadded shape, so that it can be read on any number of
 * ranks and by any HDF5 program.
 *   /                attribute cistron_checkpoint: version of this format
 *   /meta            attributes deck, version, tokenizer (texts), step, updates, tokens, unpadded_tokens, seed, ranks,
 *                    vocabulary, validation_step, best_step, best_loss, outliers, gradient_norms (array); digest, as a
 *                    signed number
 *   /data            attributes offset, epoch, window, before, key: the position in the data (loader/blend.h); the last
 *                    four are numbers with one store, else arrays with an entry for each. content, path: the stores
 *                    (loader/lineage.h). store: their checksum (loader/store_set.h), as a signed number
 *   /model/<name>    weights: matrices [rows, cols], vectors [cols], in the type of the masters (f32)
 *   /optim/m/<name>, /optim/v/<name>   moments, of the same shapes; a final model has none
 *   /state/choices   the executor's choices, where it has any (checkpoint/choices.h)
 *   /state/precision/history [operands, steps], scale [operands], largest [operands]
 *                    delayed scaling, where the run has it (engine/delayed_scaling.h); a final model has none
 *   /tokenizer       the files of a tokenizer of text (data/tokenizer_member.h)
 *   /carried/<name>  tensors that came with the run's first weights and that training does not touch
 * (checkpoint/carried.h) Beside it lies a side file "<path>.xxh3" with the hashes of all its bytes (file/block.h).
 *
 * How a checkpoint is written:
 *   1. Rank 0 lays out <path>.tmp with HDF5.
 *   2. Every rank writes its share at the offsets of the datasets, hashes it on the way, and flushes.
 *   3. Rank 0 writes the rest once more, with the digest that is known now, flushes and hashes it, and writes and
 *      flushes <path>.xxh3.tmp.
 *   4. Rank 0 renames the side file, then the checkpoint, and flushes the folder after each.
 * A program killed at any point leaves either no <path>, or a whole one with its side file. A side file without a
 * checkpoint is replaced or pruned later.
 * Where <path> exists already, the new side file would not fit the old content. Then step 4 removes the old side file,
 * renames the checkpoint, and renames the side file last. A program killed in between leaves the old or the new file
 * whole, but without its side file.
 *
 * Errors of collective functions are agreed: every rank returns the same code, and rank 0 has printed the message. */
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
    char version[CHECKPOINT_VERSION_BYTES]; /* of the program that wrote the file; the caller sets it */
    int64_t step;                           /* steps done, skipped ones included */
    /* Updates that the moments have seen, for the bias correction: the steps that were not skipped, and the updates of
     * an earlier run if this run started from its moments. checkpoint_write sets it. Files of version 0.1 do not have
     * it: reading them sets it to step. */
    int64_t updates;
    bool moments;   /* the file has moments; reading sets it */
    bool scales;    /* it has the state of delayed scaling; reading sets it */
    int64_t tokens; /* seen in training so far, padding included */
    /* The same without padding. Files of versions before 0.2 do not have it: reading them sets it to tokens. */
    int64_t unpadded;
    struct gradient_norms norms; /* none in files of versions before 0.2 */
    int64_t seed;
    int64_t ranks; /* how many wrote the file, for information; checkpoint_write sets it */
    struct blend_position position;
    uint64_t store; /* checksum of the token stores trained on */
    /* These stores; none with random data, and of files of versions before 0.2 unless they have one store. Borrowed
     * when a file is written. */
    struct data_lineage lineage;
    /* checkpoint_digest of weights and moments. Set by writing a file with moments; of one that holds only the weights
     * the caller says it. 0 = unknown. */
    uint64_t digest;
    char tokenizer[CHECKPOINT_TOKENIZER_BYTES];
    int64_t vocabulary;      /* rows of the embedding; 0 in files of version 0.1 */
    int64_t validation_step; /* of the last validation; 0 = none */
    int64_t best_step;       /* step of the lowest validation loss so far, best_loss; 0 = none */
    double best_loss;        /* nats per label */
    /* Carried tensors to write; NULL = none. Borrowed; used on rank 0 only. Reading leaves it NULL: carried_read reads
     * them. */
    const struct carried_files *carried;
    /* The tokenizer, open, whose files are written if it is one of text; NULL = none. In the same way;
     * tokenizer_member_open reads it. */
    const struct tokenizer *opened;
    /* The executor's choices to write, in the same way. Reading leaves it NULL: choices_read reads them. */
    const void *choices;
    int64_t choices_bytes;
};

/* Frees what checkpoint_read_meta allocated. */
void checkpoint_meta_destroy(struct checkpoint_meta *meta);

/* A checkpoint that is being written. */
struct checkpoint_save;

/* Begins to write the engine's weights, and its moments and scales if with_optimizer. Collective over world, to which
 * the ranks of engine->settings.tensor belong; ranks that hold the same share the work. Without a snapshot the shares
 * are written before it returns. With one (it needs with_optimizer, and parameters whose rows are whole), the state is
 * copied there, and a thread on each rank writes it while the engine goes on; the thread touches neither MPI, HDF5 nor
 * the device. What meta and snapshot point to must stay until checkpoint_end. On success checkpoint_end must follow,
 * before the engine is destroyed and before another save begins. A failure on any rank is ERROR_ENVIRONMENT on all;
 * then there is no save, and no file is left behind. */
int checkpoint_begin(struct checkpoint_save **save, struct comm *world, struct engine *engine,
                     const struct checkpoint_meta *meta, const char *path, bool with_optimizer,
                     struct snapshot *snapshot);

/* Are all ranks' shares on the disk, or have failed, so that checkpoint_end need not wait for them? Collective. To be
 * called now and then: a device's copies are complete before the thread begins. */
bool checkpoint_ready(struct checkpoint_save *save);

struct checkpoint_written {
    uint64_t digest; /* of what was written, or meta's */
    int64_t bytes;   /* of the tensors */
    double seconds;  /* from the beginning until the slowest rank's share was on the disk */
};

/* Waits for the shares, gives the file its name, and frees save. Collective. A failure on any rank (disk full, no
 * permission), the thread's too, is ERROR_ENVIRONMENT on all ranks; then a file that was at path before is untouched,
 * and no other file is left behind. */
int checkpoint_end(struct checkpoint_save *save, struct checkpoint_written *written);

/* Both, without a snapshot. */
int checkpoint_write(struct comm *world, struct engine *engine, const struct checkpoint_meta *meta, const char *path,
                     bool with_optimizer);

/* Compares the file with the hashes in its side file; each rank checks some of the blocks. This comes before HDF5 opens
 * the file, because damaged metadata can crash the library. Without a side file: a warning, and the file must open as a
 * checkpoint. Collective. ERROR_USER: the message says what is wrong with the file; ERROR_ENVIRONMENT: it could not be
 * read. */
int checkpoint_verify(struct comm *world, const char *path);

/* Reads /meta and /data of a verified file; rank 0 reads for all. Collective. ERROR_USER: not a checkpoint, damaged.
 * On success meta is the caller's to destroy; on error it holds nothing. */
int checkpoint_read_meta(struct comm *world, const char *path, struct checkpoint_meta *meta);

/* Reads weights into the engine from a verified file, whatever its float type and HDF5 layout. with_optimizer: reads
 * the moments too, and sets engine_updates to the file's; otherwise both stay as they are. With the moments comes the
 * state of delayed scaling, where it fits the engine's: engine->scaling.restored says so. Collective. ERROR_USER:
 * tensors are missing, unknown or of another shape (the message names each), or moments are wanted of a final model. */
int checkpoint_read(struct comm *world, struct engine *engine, const char *path, bool with_optimizer);

/* The same for a file of checkpoint_find_to_load: each block of a tensor is compared with its hash once over all ranks,
 * by one that reads it whole if there is one. Where a block differs it is ERROR_USER and *damaged, and every rank has
 * the message recorded, not printed; the engine then holds half of it and is not to be used. */
int checkpoint_load(struct comm *world, struct engine *engine, const char *path, bool with_optimizer, bool *damaged);

/* "<folder>/step_00000123.h5"; freed with free(). Local. */
char *checkpoint_path(const char *folder, int64_t step);

/* Finds and verifies the checkpoint to use. `where` is a file, which is taken itself, or a run folder: the newest good
 * checkpoint in it, NULL if it has no checkpoints. *path is freed with free(). In a folder, a file that fails
 * verification is set aside: renamed to *.bad, with a warning; then the next older one is tried. Collective: all ranks
 * get rank 0's choice. ERROR_USER: `where` does not exist; the file is bad, or a newer program wrote it; all
 * checkpoints of the folder are bad. ERROR_ENVIRONMENT: a file could not be read; it is not set aside for that. */
int checkpoint_find(struct comm *world, const char *where, char **path);
/* The same. On rank 0, *aside says which files were set aside and why, one line each, or is NULL. It is freed with
 * free(). */
int checkpoint_find_telling(struct comm *world, const char *where, char **path, char **aside);
/* The same, but of tensors only the places are known to be good: checkpoint_load compares them as it reads them. */
int checkpoint_find_to_load(struct comm *world, const char *where, char **path, char **aside);
/* Sets a file aside whose error every rank has recorded, and clears it. The line that tells so, on rank 0; freed with
 * free(). Collective. */
char *checkpoint_set_aside(struct comm *world, const char *path);

/* Is anything there? Collective. ERROR_USER: no; the message begins with `before`, the path and `behind`, by which a
 * caller names the key or option that it comes from. */
int checkpoint_look(struct comm *world, const char *before, const char *where, const char *behind);

/* Records the error that a checkpoint is needed and the folder has none; a run that has not saved one yet gets its own
 * message. The message begins with `before`, the folder and `after` ("--from ", "run", ""). Always returns ERROR_USER.
 */
int checkpoint_none(const char *before, const char *folder, const char *after);

/* checkpoint_find for callers that need only weights. In a run folder it takes final_model.h5, unless the run was
 * continued after that was written and has a checkpoint of a later step. *path is never NULL on success: a folder
 * without checkpoints is ERROR_USER, and the message names --checkpoint. Collective. */
int checkpoint_find_model(struct comm *world, const char *where, char **path);

/* Is there a good file at path whose digest in /meta is this one? Collective; prints nothing. */
bool checkpoint_holds(struct comm *world, const char *path, uint64_t digest);

/* The path of the newest checkpoint of a run folder, not verified, NULL if there is none. Local.
 * ERROR_ENVIRONMENT: the folder cannot be read. */
int checkpoint_newest(const char *folder, char **path);

/* Which checkpoints of steps are kept: the newest `keep` that have a side file, and any newer ones without a side file;
 * steps that are multiples of keep_every (0 = none); best_step (0 = none). */
struct checkpoint_rule {
    int64_t keep, keep_every, best_step;
};

/* Removes all other checkpoints of steps, then calls checkpoint_remove_leavings. Collective. ERROR_ENVIRONMENT. */
int checkpoint_prune(struct comm *world, const char *folder, const struct checkpoint_rule *rule);

/* Removes what killed programs left behind: step_*.tmp, and side files of steps without a checkpoint. Local.
 * ERROR_ENVIRONMENT. */
int checkpoint_remove_leavings(const char *folder);

/* Checksum of the model's weights and moments: the sum over elements of a hash of (tensor, global index, bits). It does
 * not depend on how the model is split over ranks, and leaves out padding. Collective over the ranks that hold the
 * model. */
uint64_t checkpoint_digest(struct comm *world, struct engine *engine);

#endif
