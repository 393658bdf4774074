/* The loader: global batches of rows, from stores (loader/corpus.h) or from random data. They do not depend on the
 * number of ranks.
 *
 * Windows come from one store, or from several blended by weights (loader/blend.h), epoch after epoch without a gap.
 * The packer puts them into rows (loader/packer.h). Row g of step s is a function of the deck and the seed alone.
 *
 * A global batch has G rows, a micro-batch B: micro-batch k of step s has rows k * B + i, i < B; rows from G on are
 * empty. Its number (batch.number) is s * 2^32 + k: whatever went before in the process, and on whatever rank. Every
 * one of `data_ranks` data ranks has ceil(G / (data_ranks * B)) micro-batches a step: rank r has micro-batches
 * m * data_ranks + r, or with `balance` those that loader/deal.h deals it.
 *
 * Ranks that share data (tensor and context parallelism) have the same data rank, and each reads whole rows for itself:
 * a step depends on nothing else. A prefetch thread keeps one step ahead; it calls neither MPI nor HDF5. */
#ifndef LOADER_LOADER_H
#define LOADER_LOADER_H

#include "comm/comm.h"
#include "data/batch.h"
#include "loader/blend.h"
#include "loader/corpus.h"
#include "loader/lineage.h"
#include "data/random_windows.h"
#include "loader/store_epochs.h"

#include <stdbool.h>

enum loader_special { LOADER_SPECIAL_WINDOW, LOADER_SPECIAL_SEQUENCE };
enum loader_format { LOADER_PACKED, LOADER_PADDED };

struct loader_settings {
    const char *stores;  /* path of a store (loader/corpus.h); with weights, comma-separated paths of several
                            (loader/store_list.h); NULL: random data */
    const char *weights; /* NULL: one store; else comma-separated, one per store; "": in proportion to windows */
    struct megatron_settings megatron;     /* of Megatron data sets among the stores */
    struct random_windows_settings random; /* used where stores is NULL; never shuffled */
    uint64_t seed;
    int64_t row_tokens;   /* tokens per row */
    int64_t window;       /* tokens per window, specials included; <= row_tokens */
    int64_t overlap;      /* tokens that neighbouring windows share */
    int64_t max_segments; /* per row */
    int64_t global_rows;  /* G */
    int64_t micro_rows;   /* B */
    enum loader_format format;
    enum loader_special special;
    bool no_bos, no_eos;     /* these special tokens are left out */
    bool truncate;           /* use only the first window of each sequence */
    bool split;              /* packed rows: cut a window that does not fit; its rest begins the next row */
    double mask_probability; /* 0: predict the next token; else, below 1: predict masked tokens (loader/masking.h) */
    bool token_dropout;      /* fill the batches' scale with that of token dropout (loader/masking.h), 0 on padding */
    bool mask_degenerate;    /* ignore labels other than ACGTacgt; for nucleotides only */
    bool uppercase_labels;
    bool balance;   /* deal micro-batches to ranks by what they cost */
    bool shuffle;   /* false: store order (validation) */
    bool once;      /* one pass over one store; rows after the last window are empty (validation) */
    int64_t memory; /* bytes of host memory that this rank's batches may take; 0: no limit */
};

struct loader;

/* How a loader cuts sequences into windows (data/windows.h). */
struct windows_layout loader_layout(const struct loader_settings *settings);

/* Checks what can be checked without opening the stores. ERROR_USER. */
int loader_check_settings(const struct loader_settings *settings);

/* Bytes of host memory that the batches of one rank take, with so many data ranks: those of two steps. */
double loader_bytes(const struct loader_settings *settings, int64_t data_ranks);

/* Collective over `world`. Rank 0 of it writes the side files of the window indexes, then all ranks map them. data_rank
 * of data_ranks: which data this rank reads (comm/grid.h). Returns an enum error_code, the same on all ranks:
 * ERROR_USER also where the batches take more than settings->memory; ERROR_REQUEUE when a signal stopped it
 * (data/windows.h). */
int loader_create(struct loader **loader, const struct loader_settings *settings, struct comm *world, int data_rank,
                  int data_ranks);
void loader_destroy(struct loader *loader);

/* Micro-batches a step, the same on every rank. When `once`, a step has no more rows than the store fills. */
int64_t loader_micro_batches(const struct loader *loader);
/* Windows of all stores together in one epoch of each, and tokens in them. Not for random data, which has no end. */
int64_t loader_windows(const struct loader *loader);
int64_t loader_window_tokens(const struct loader *loader);

/* How often `steps` steps go through each of the *stores stores of a weighted blend; freed with memory_free. NULL: the
 * loader has no weighted blend. */
struct store_share *loader_shares(const struct loader *loader, int64_t steps, int *stores);

/* When `once`: steps of one pass over the store. After so many calls of loader_next all rows are empty. */
int64_t loader_steps_once(const struct loader *loader);

/* The next step's micro-batches (loader_micro_batches of them), valid until the next call. Not collective. */
const struct batch *loader_next(struct loader *loader);

/* The position after the steps that loader_next has returned so far, which is freed with blend_position_destroy, and
 * the number of these steps. After loader_seek, the next loader_next continues from the position, which so many steps
 * of the training come before. */
struct blend_position loader_position(const struct loader *loader);
int64_t loader_step(const struct loader *loader);
void loader_seek(struct loader *loader, const struct blend_position *position, int64_t step);
/* Is this a position that the stream of these stores can reach? */
bool loader_has_position(const struct loader *loader, const struct blend_position *position);

/* The loader's stores; none with random data. Borrowed. */
const struct data_lineage *loader_lineage(const struct loader *loader);
const char *loader_store_path(const struct loader *loader, int64_t store);
/* Is any of them a Megatron data set? */
bool loader_has_megatron(const struct loader *loader);
/* The place at which this loader goes on where one of other stores or weights was at `old` (blend_carry). */
struct blend_position loader_carry(const struct loader *loader, const struct blend_position *old, const int64_t *from);

/* Total seconds spent in loader_next, waiting for the prefetch thread. */
double loader_wait_seconds(const struct loader *loader);

/* Vocabulary, tokenizer (which is not open if it is one of text), and checksum: of the content of all stores
 * (loader/store_set.h), or of what determines random data. A position is valid only for data of the same checksum. */
int64_t loader_vocabulary(const struct loader *loader);
const struct tokenizer *loader_tokenizer(const struct loader *loader);
/* The same tokenizer, opened from the first store; NULL where ids mean nothing. Local; it reads a file. Close it.
 * Errors of corpus_open_tokenizer. */
int loader_open_tokenizer(const struct loader *loader, const struct tokenizer **tokenizer);
/* Have the files been overwritten under way? Collective; an agreed code. Errors and warnings of corpus_recheck. */
int loader_recheck(struct loader *loader, struct comm *world);
uint64_t loader_checksum(const struct loader *loader);

#endif
