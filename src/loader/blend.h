/* The stream of windows that a run learns from: the windows of one store (or another source of windows), or of several
 * blended by weights.
 *
 * Which store: window i of the stream (i = 0, 1, ...) comes from the store d with the largest w_d (i + 1) - n_d, the
 * first such store in a tie. w_d is the store's share of the weights, n_d the number of windows it has given so far.
 * (Megatron-LM's blended data sets have w_d max(i, 1) - n_d, which `megatron` asks for.) So n_d is never ahead of w_d i
 * by a window or more. With two stores it is never behind by a window or more either; with many it may be behind by
 * slightly more than one.
 *
 * Which window: each store has its own epochs. In an epoch it gives each of its windows once, in the order of a keyed
 * permutation (data/shuffle.h) or in the store's order. Store 0's order does not depend on the other stores.
 *
 * With `once` the stream has one store and ends after its first epoch.
 *
 * A run may go on with another blend (blend_carry): the stores that stay keep their place and order, and i and n_d
 * count from there, so that the new shares hold from the first window on. */
#ifndef LOADER_BLEND_H
#define LOADER_BLEND_H

#include "data/shuffle.h"
#include "data/window_source.h"

#include <stdbool.h>
#include <stdint.h>

enum { BLEND_STORES = 4096 }; /* at most; a checkpoint keeps numbers per store in attributes of 64 KB each */

/* A position in a stream: all that a restart needs. {0} is the start of any stream. */
struct blend_position {
    int64_t stores;  /* how many there are; 0 in {0}, the start of any stream */
    int64_t *epoch;  /* [stores] */
    int64_t *window; /* [stores] the store's next window: its number in that epoch's order */
    int64_t *before; /* [stores] windows that it had given when the present blend began */
    int64_t *key;    /* [stores] the store's number in keys of random numbers: at first, its place */
    int64_t offset;  /* tokens of the stream's next window that are already in rows */
};

/* The start of a stream of so many stores. */
struct blend_position blend_position_create(int64_t stores);
/* Copies *from to *to, which has as many stores. From {0}: *to becomes the start. */
void blend_position_set(struct blend_position *to, const struct blend_position *from);
/* Frees it and sets it to {0}. */
void blend_position_destroy(struct blend_position *position);

struct blend_settings {
    bool shuffle, once;
    bool megatron; /* shares and turns as Megatron-LM rounds them (loader/megatron_blend.h) */
    uint64_t seed; /* of the shuffle */
};

struct data_blend {
    struct blend_settings settings;
    int stores;
    struct blend_store {
        const struct window_source *windows;
        double share; /* w_d */
        struct index_shuffle order;
        int64_t hint;
    } * store; /* [stores] */
    struct blend_position position;
};

/* Begins at the stream's start. windows[stores]: borrowed, each with at least one window. weights[stores]: positive, of
 * any sum; NULL: in proportion to the number of windows. */
struct data_blend blend_create(const struct blend_settings *settings, const struct window_source *const *windows,
                               const double *weights, int stores);
/* A second, independent stream of the same windows, at the same position. */
struct data_blend blend_copy(const struct data_blend *blend);
void blend_destroy(struct data_blend *blend);
/* Is this a position that the stream can reach? For positions from files, which may hold anything. */
bool blend_has(const struct data_blend *blend, const struct blend_position *position);
/* Goes to a position that this or an equal stream was at. */
void blend_seek(struct data_blend *blend, const struct blend_position *position);

/* The place at which this stream goes on where another blend was at `old`: from[stores] says where each store was
 * there, -1 for one that begins. A window that was in rows in part begins anew. To be asked of blend_has where `old` is
 * from a file. */
struct blend_position blend_carry(const struct data_blend *blend, const struct blend_position *old,
                                  const int64_t *from);

/* A number for (store, epoch), different for each pair, for keys of random numbers; `key` is the store's. */
uint64_t blend_epoch(int64_t key, int64_t epoch);

/* Is a `once` stream past its last window? */
bool blend_ended(const struct data_blend *blend);
/* The next window and its store, without taking it. Not after the end. */
struct token_window blend_window(struct data_blend *blend, int *store);
/* Takes the next window of `store`, the one that blend_window named; position.offset becomes 0. */
void blend_advance(struct data_blend *blend, int store);

#endif
