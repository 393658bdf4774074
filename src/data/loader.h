/* The loader: global batches of rows from token stores or of random data, the same on every rank count.
 *
 * Stream: windows of one store or of several by weight (data/blend.h), epoch after epoch without a gap, cut into rows
 * by the packer (data/packer.h). Row g of step s is a function of the deck
 * and the seed alone. Of a global batch of G rows, rank r of `data_ranks`, with micro-batches of B rows, takes in
 * micro-batch m the rows (m * data_ranks + r) * B + i, i < B; rows from G on are empty. There are ceil(G / (data_ranks
 * * B)) micro-batches a step, the same number on every rank.
 *
 * Of each group of ranks that share data (tensor, context, pipeline: `model_comm`), rank 0 reads; the others receive
 * over model_comm inside loader_next. A prefetch thread, which calls neither MPI nor HDF5, keeps one step ahead. */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include "comm/comm.h"
#include "data/batch.h"
#include "data/blend.h"
#include "data/random_windows.h"

#include <stdbool.h>

enum loader_special { LOADER_SPECIAL_WINDOW, LOADER_SPECIAL_SEQUENCE };
enum loader_format { LOADER_PACKED, LOADER_PADDED };

struct loader_settings {
    const char *stores;  /* path of a token store; with weights, of several, commas between (data/store_list.h); NULL:
                            random data */
    const char *weights; /* NULL: one store; else of each store, commas between, or "": in proportion to windows */
    struct random_windows_settings random; /* without stores; never shuffled, since it has no order */
    uint64_t seed;
    int64_t row_tokens;   /* tokens per row */
    int64_t window;       /* tokens per window, specials included; <= row_tokens */
    int64_t overlap;      /* tokens that neighbouring windows share */
    int64_t max_segments; /* per row */
    int64_t global_rows;  /* G */
    int64_t micro_rows;   /* B */
    enum loader_format format;
    enum loader_special special;
    bool truncate;           /* each sequence's first window alone */
    bool split;              /* packed rows: cut a window that does not fit and carry its rest on */
    double mask_probability; /* of data/masking.h, below 1: what is predicted are masked tokens; 0: the next token */
    bool token_dropout;      /* the batches' scale is that of token dropout (data/masking.h), 0 on padding */
    bool mask_degenerate;    /* labels other than ACGTacgt are ignored; nucleotides alone */
    bool uppercase_labels;
    bool shuffle;   /* false: store order (validation) */
    bool once;      /* one pass over one store: behind the last window rows stay empty (validation) */
    int64_t memory; /* bytes of host memory that this rank's batches may take; 0: any number */
};

struct loader;

/* How a loader cuts sequences into windows (data/windows.h). */
struct windows_layout loader_layout(const struct loader_settings *settings);

/* What can be told without the stores. ERROR_USER. */
int loader_check_settings(const struct loader_settings *settings);

/* Bytes of host memory that the batches of each of so many ranks take: two steps of them. */
double loader_bytes(const struct loader_settings *settings, int64_t data_ranks);

/* Collective over `world` (rank 0 makes the window indexes' side files, then all map them) and over model_comm.
 * data_rank of data_ranks: this rank's place among the groups. Returns an enum error_code, agreed by all: ERROR_USER
 * also where the batches take more than settings->memory; ERROR_REQUEUE when a signal stopped it (data/windows.h). */
int loader_create(struct loader **loader, const struct loader_settings *settings, struct comm *world,
                  struct comm *model_comm, int data_rank, int data_ranks);
void loader_destroy(struct loader *loader);

/* Micro-batches a step on every rank (when `once`, of no more rows than the store has); windows of all stores, each
 * counted once, and tokens in them; not of random data, which has no end. */
int64_t loader_micro_batches(const struct loader *loader);
int64_t loader_windows(const struct loader *loader);
int64_t loader_window_tokens(const struct loader *loader);

/* Steps of one pass over the store when `once`: after so many loader_next calls all rows are empty. */
int64_t loader_steps_once(const struct loader *loader);

/* The next step's micro-batches (loader_micro_batches of them), valid until the next call. Collective over model_comm.
 */
const struct batch *loader_next(struct loader *loader);

/* The position after the steps handed out so far, to be freed by blend_position_destroy; loader_seek makes the next
 * loader_next continue from a position. */
struct blend_position loader_position(const struct loader *loader);
void loader_seek(struct loader *loader, const struct blend_position *position);
/* Is it a position that these stores have? */
bool loader_has_position(const struct loader *loader, const struct blend_position *position);

/* Seconds that loader_next has taken in all: waiting for the prefetch thread and for the reader of the group. */
double loader_wait_seconds(const struct loader *loader);

/* Vocabulary, and content checksum of all stores (data/store_set.h) or of what random data is drawn by: a position is
 * good for the same data alone. */
int64_t loader_vocabulary(const struct loader *loader);
const char *loader_tokenizer(const struct loader *loader); /* its name */
uint64_t loader_checksum(const struct loader *loader);

#endif
