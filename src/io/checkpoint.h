/* Checkpoints: one HDF5 file with every tensor in its global, unpadded shape, so that it can be read on any number of
 * ranks and by any HDF5 program.
 *   /                attribute cistron_checkpoint: version of this format
 *   /meta            attributes deck, version, tokenizer (texts), step, updates, tokens, seed, ranks, vocabulary,
 *                    validation_step, best_step, best_loss; digest, as a signed number
 *   /data            attributes epoch, window, offset: where the data stands (data/blend.h), epoch and window being
 *                    numbers for one store, arrays with an entry for each store for several; store: the checksum of
 *                    the training stores (data/store_set.h), as a signed number
 *   /model/<name>    weights: matrices [rows, cols], vectors [cols], in the type of the masters (f32)
 *   /optim/m/<name>, /optim/v/<name>   moments, of the same shapes; a final model has none
 *   /state/choices   the executor's, where it has any (io/choices.h)
 *   /carried/<name>  what the run's first weights came with and training leaves alone (io/carried.h)
 * and beside it a side file "<path>.xxh3" with hashes over all of it (io/block.h).
 *
 * Protocol of a write. Rank 0 lays out <path>.tmp with HDF5; every rank writes its share at the offsets
 * of the datasets, hashes it on the way and flushes; rank 0 hashes the rest, writes and flushes <path>.xxh3.tmp, then
 * renames the side file, then the checkpoint, flushing the folder after each. Killed at any point, this leaves no
 * <path>, or a whole one with its side file; a side file without a checkpoint is replaced or pruned later. Where <path>
 * exists already its side file would not fit the old content, so that goes first, then the checkpoint is renamed, then
 * the side file: killed in between, the old or the new file stands whole, without its side file.
 *
 * Errors of collective functions are agreed: every rank returns the same code, and rank 0 has printed the message. */
#ifndef IO_CHECKPOINT_H
#define IO_CHECKPOINT_H

#include "comm/comm.h"
#include "data/loader.h"

struct carried;
struct engine;

enum { CHECKPOINT_FORMAT = 1, CHECKPOINT_VERSION_BYTES = 64, CHECKPOINT_TOKENIZER_BYTES = 64 };

struct checkpoint_meta {
    char *deck_text;                        /* the effective deck */
    char version[CHECKPOINT_VERSION_BYTES]; /* of the program that wrote it, by its caller */
    int64_t step;                           /* done, with those that were skipped */
    int64_t updates; /* that the moments saw: step without those that were skipped, and those of a run whose moments
                        this one began with (bias correction); checkpoint_write sets it; files of version 0.1 have
                        none: step */
    bool moments;    /* the file has them; reading sets it */
    int64_t tokens;  /* seen in training so far */
    int64_t seed;
    int64_t ranks; /* that wrote it, for information; checkpoint_write sets it */
    struct blend_position position;
    uint64_t store; /* checksum of the token stores trained on */
    uint64_t
        digest; /* of the state that the file is of (checkpoint_digest), also where it has weights alone; 0 = unknown */
    char tokenizer[CHECKPOINT_TOKENIZER_BYTES];
    int64_t vocabulary;      /* rows of the embedding; 0 in files of version 0.1 */
    int64_t validation_step; /* of the last validation; 0 = none */
    int64_t best_step;       /* of the lowest validation loss so far, best_loss; 0 = none */
    double best_loss;        /* nats per label */
    /* To be written too; NULL = none. Borrowed, and rank 0's alone. Reading leaves it NULL: carried_read has them. */
    const struct carried *carried;
    /* The same: choices_read has them. */
    const void *choices;
    int64_t choices_bytes;
};

/* Frees what checkpoint_read_meta allocated. */
void checkpoint_meta_destroy(struct checkpoint_meta *meta);

/* Writes the engine's weights, and its moments if with_optimizer. Collective over world, to which the ranks of
 * engine->settings.tensor belong; ranks that hold the same share the work. A failure on any rank (disk full, no
 * permission) is ERROR_ENVIRONMENT on all; what stood at path before is untouched then, and nothing else is left. */
int checkpoint_write(struct comm *world, struct engine *engine, const struct checkpoint_meta *meta, const char *path,
                     bool with_optimizer);

/* Compares the file with its side file, the blocks shared among the ranks, before HDF5 opens anything: damaged metadata
 * can crash the library. Without side file: a warning, and it must open as a checkpoint. Collective. ERROR_USER says
 * what is wrong with the file; ERROR_ENVIRONMENT: it could not be read. */
int checkpoint_verify(struct comm *world, const char *path);

/* Reads /meta and /data of a verified file; rank 0 reads for all. Collective. ERROR_USER: not a checkpoint, damaged.
 * On success meta is the caller's to destroy; on error it holds nothing. */
int checkpoint_read_meta(struct comm *world, const char *path, struct checkpoint_meta *meta);

/* Reads weights into the engine from a verified file, of any float type and layout; with_optimizer: moments too, and
 * engine_updates becomes the file's; without, both stay as they are. Collective. ERROR_USER: tensors that are
 * missing, unknown or of another shape, each named; a final model where moments are wanted. */
int checkpoint_read(struct comm *world, struct engine *engine, const char *path, bool with_optimizer);

/* "<folder>/step_00000123.h5"; freed with free(). Local. */
char *checkpoint_path(const char *folder, int64_t step);

/* The checkpoint to use: the newest good one of a run folder, NULL if it has none, or the file itself if `where` is
 * one; verified; *path is freed with free(). In a folder, files that fail verification are renamed to *.bad with a
 * warning and the one before is taken. Collective: all ranks get rank 0's choice. ERROR_USER: where does not exist; the
 * file is bad, or a newer program's; a folder has bad ones alone. ERROR_ENVIRONMENT: a file could not be read, which is
 * no reason to set it aside. */
int checkpoint_find(struct comm *world, const char *where, char **path);
/* The same; on rank 0, *aside says which files were set aside and why, one line each, or is NULL; freed with free(). */
int checkpoint_find_telling(struct comm *world, const char *where, char **path, char **aside);

/* The error where a checkpoint is needed and the folder has none; a run that has saved none yet is told apart. The
 * message begins with `before`, the folder and `after` ("--from ", "run", ""). ERROR_USER. */
int checkpoint_none(const char *before, const char *folder, const char *after);

/* checkpoint_find for what needs weights alone: of a run's folder it takes final_model.h5, unless that is there from
 * before the run went on and a step's checkpoint is later. *path is never NULL on success; ERROR_USER besides: the
 * folder --checkpoint names holds none. Collective. */
int checkpoint_find_model(struct comm *world, const char *where, char **path);

/* Is there a good file that is of the state with this digest? Collective; says nothing. */
bool checkpoint_holds(struct comm *world, const char *path, uint64_t digest);

/* The path of the newest checkpoint of a run folder, not verified, NULL if there is none. Local.
 * ERROR_ENVIRONMENT: the folder cannot be read. */
int checkpoint_newest(const char *folder, char **path);

/* Which step files stay: the newest `keep` that have a side file, and those without one that are newer; multiples of
 * keep_every (0 = none); best_step (0 = none). */
struct checkpoint_rule {
    int64_t keep, keep_every, best_step;
};

/* Removes all other step files, and what checkpoint_remove_leavings does. Collective. ERROR_ENVIRONMENT. */
int checkpoint_prune(struct comm *world, const char *folder, const struct checkpoint_rule *rule);

/* Removes what killed programs left of steps' checkpoints: step_*.tmp, and side files without a checkpoint. Local.
 * ERROR_ENVIRONMENT. */
int checkpoint_remove_leavings(const char *folder);

/* A number for the state of the model (weights, moments), the same on every partition over ranks: the sum over elements
 * of a hash of (tensor, global index, bits). Padding does not count. Collective over the ranks that hold the model. */
uint64_t checkpoint_digest(struct comm *world, struct engine *engine);

#endif
