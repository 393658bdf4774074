/* Key header: the loader makes global batches of rows from token stores (loader/data_set.h) or random data. A global
 * batch does not depend on the number of ranks: row g of step s is a function of the deck and the seed alone.
 *
 * Windows come from one store, or from several blended by weights (loader/blend.h), epoch after epoch without a gap.
 * The packer puts them into rows (loader/packer.h). A global batch has G rows and a micro-batch B rows: micro-batch k
 * of step s consists of rows k * B .. k * B + B - 1, and rows from G on are empty. batch.number is s * 2^32 + k on any
 * rank and after any restart. Each of `data_ranks` data ranks gets ceil(G / (data_ranks * B)) micro-batches per step:
 * rank r gets micro-batches m * data_ranks + r, or with `balance` those that loader/balance.h assigns to it.
 *
 * Every rank packs the rows of all ranks once a step, by the windows' lengths; on one core, 400,000 windows of a store
 * take about 0.15 s (bench/loader_speed large) and 30 MB.
 *
 * Tensor- and context-parallel ranks have the same data rank, and each reads whole rows on its own. A prefetch thread
 * prepares the next step; it calls neither MPI nor HDF5. */
#ifndef LOADER_LOADER_H
#define LOADER_LOADER_H

#include "architecture/settings.h"
#include "comm/comm.h"
#include "data/batch.h"
#include "loader/blend.h"
#include "loader/data_set.h"
#include "loader/provenance.h"
#include "data/random_windows.h"
#include "loader/store_epochs.h"

#include <stdbool.h>

enum loader_special { LOADER_SPECIAL_WINDOW, LOADER_SPECIAL_SEQUENCE };
enum loader_format { LOADER_PACKED, LOADER_PADDED };

struct loader_settings {
    const char *stores;  /* path of a store (loader/data_set.h); with weights, comma-separated paths of several
                            (loader/store_list.h); NULL: random data */
    const char *weights; /* NULL: one store; else comma-separated, one per store; "": in proportion to windows */
    struct megatron_settings megatron;     /* for Megatron data sets among the stores */
    struct random_windows_settings random; /* used if stores is NULL; never shuffled */
    uint64_t seed;
    int64_t row_tokens;   /* tokens per row */
    int64_t window;       /* tokens per window, special tokens included; <= row_tokens */
    int64_t overlap;      /* tokens that neighbouring windows share */
    int64_t max_segments; /* segments per row */
    int64_t global_rows;  /* G */
    int64_t micro_rows;   /* B */
    enum loader_format format;
    enum loader_special special;
    bool no_bos, no_eos;       /* omit these special tokens */
    bool truncate;             /* use only the first window of each sequence */
    bool split;                /* packed rows: split a window that does not fit; its rest begins the next row */
    double mask_probability;   /* 0: predict the next token; else, below 1: predict masked tokens (loader/masking.h) */
    struct task_settings task; /* labels of the stores, for a fine-tuning head (loader/labelling.h) */
    bool token_dropout;        /* batch.scale gets the factors of token dropout (loader/masking.h), 0 on padding */
    bool mask_degenerate;      /* ignore labels other than ACGTacgt; for nucleotides only */
    bool uppercase_labels;
    bool dropout_keys;         /* batch.dropout_keys gets the tokens' keys */
    double reverse_complement; /* probability that a window is read from the other strand; for nucleotides only */
    bool balance;              /* assign micro-batches to ranks by their cost (loader/balance.h) */
    int64_t sliding_window;    /* of attention in all layers, for this cost; 0: none */
    bool shuffle;              /* false: store order (validation) */
    bool once;                 /* one pass over one store; rows after the last window are empty (validation) */
    int64_t memory;            /* limit for the host memory of this rank's batches, bytes; 0: none */
};

struct loader;

/* Returns how the loader splits sequences into windows (data/windows.h). */
struct windows_layout loader_layout(const struct loader_settings *settings);

/* Checks the settings without opening the stores. ERROR_USER. Local. */
int loader_check_settings(const struct loader_settings *settings);

/* Returns the host memory of one rank's batches, bytes: the batches of two steps. Local. */
double loader_bytes(const struct loader_settings *settings, int64_t data_ranks);

/* Makes a loader, which the caller destroys. Rank 0 of `world` writes the side files of the window indexes, then all
 * ranks map them. data_rank of data_ranks: which data this rank reads (comm/grid.h). Collective over `world`, with the
 * same code on all ranks. ERROR_USER: bad stores or settings, or batches larger than settings->memory;
 * ERROR_ENVIRONMENT: a file cannot be read; ERROR_REQUEUE: a signal stopped it (data/windows.h). */
int loader_create(struct loader **loader, const struct loader_settings *settings, struct comm *world, int data_rank,
                  int data_ranks);
void loader_destroy(struct loader *loader);

/* Micro-batches per step and rank, the same on all ranks. With `once`, a step has no more rows than the store fills. */
int64_t loader_micro_batches(const struct loader *loader);
/* Windows, and tokens in them, of one epoch of each store, summed over stores. Not for random data, which is endless.
 */
int64_t loader_windows(const struct loader *loader);
int64_t loader_window_tokens(const struct loader *loader);

/* Counts the rows of a stream's first epochs, which may be a fraction: those that have tokens of the first epochs x
 * windows windows, all stores together. Rank 0 of `world` packs them. Collective; an agreed code, errors as of
 * loader_create. */
int loader_count_rows(int64_t *rows, const struct loader_settings *settings, double epochs, struct comm *world);

/* Returns how many epochs of each store `steps` steps consume: [*stores], freed with memory_free. NULL: the loader has
 * no weighted blend. */
struct store_share *loader_shares(const struct loader *loader, int64_t steps, int *stores);

/* With `once`: the steps of one pass over the store. Later calls of loader_next return empty rows. */
int64_t loader_steps_once(const struct loader *loader);

/* Returns the next step's micro-batches, [loader_micro_batches], owned by the loader and valid until the next call. May
 * wait for the prefetch thread. Not collective. */
const struct batch *loader_next(struct loader *loader);

/* loader_position returns the position after the steps that loader_next has returned, freed with
 * blend_position_destroy; loader_step returns their number. loader_seek makes the next loader_next continue from a
 * position, as step number `step` of the training (from 0). Not collective. */
struct blend_position loader_position(const struct loader *loader);
int64_t loader_step(const struct loader *loader);
void loader_seek(struct loader *loader, const struct blend_position *position, int64_t step);
/* Returns whether the stream of these stores can reach the position. */
bool loader_has_position(const struct loader *loader, const struct blend_position *position);

/* The loader's stores; none with random data. Owned by the loader. */
const struct data_provenance *loader_provenance(const struct loader *loader);
const char *loader_store_path(const struct loader *loader, int64_t store);
/* Returns whether any of the stores is a Megatron data set. */
bool loader_has_megatron(const struct loader *loader);
/* Translates a position of a loader with other stores or weights to this loader's (blend_carry): from[i] is the number
 * of this loader's store i in the other one, or -1. */
struct blend_position loader_carry(const struct loader *loader, const struct blend_position *old, const int64_t *from);

/* Return the first store with labels, NULL without a fine-tuning head; and whether the classes of one loader's stores
 * have the same numbers in the other's. */
const struct token_store *loader_labelled(const struct loader *loader);
bool loader_same_classes(const struct loader *a, const struct loader *b);
/* Adds the labels of each class in the stores to counts[task.labels], for a head that learns classes. Reads all labels.
 */
void loader_count_classes(const struct loader *loader, int64_t *counts);

/* Seconds that loader_next has spent waiting for the prefetch thread, in total. */
double loader_wait_seconds(const struct loader *loader);

/* The vocabulary of the data, and its tokenizer, which is not open if it is a text tokenizer. Owned by the loader. */
int64_t loader_vocabulary(const struct loader *loader);
const struct tokenizer *loader_tokenizer(const struct loader *loader);
/* Opens the tokenizer from the first store; *tokenizer is NULL for data whose ids have no meaning. The caller closes
 * it. Local; reads a file. Errors as in data_set_open_tokenizer. */
int loader_open_tokenizer(const struct loader *loader, const struct tokenizer **tokenizer);
/* Checks that the stores' files have not been overwritten since they were opened. Collective, with the same code on all
 * ranks; errors and warnings as in data_set_recheck. */
int loader_recheck(struct loader *loader, struct comm *world);
/* Checksum of the content of all stores (loader/store_set.h), or of the settings that determine random data. A position
 * is valid only for data of the same checksum. */
uint64_t loader_checksum(const struct loader *loader);

#endif
