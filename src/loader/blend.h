/* A blend: the stream of windows that a run trains on, from one source of windows (a token store, for example) or from
 * several, mixed by weights.
 *
 * Choice of the store: window i of the stream (i = 0, 1, ...) comes from the store d with the largest
 * w_d (i + 1) - n_d, or the first one in a tie. w_d is the store's normalised weight, n_d the number of windows that it
 * has given so far. (With `megatron`, w_d max(i, 1) - n_d, as in Megatron-LM's blended data sets.) So n_d exceeds w_d i
 * by less than one window. With two stores it also falls short of w_d i by less than one window, with many by at most
 * slightly more than one.
 *
 * Choice of the window: each store has its own epochs. In an epoch it gives each of its windows once, in the order of a
 * keyed permutation (data/shuffle.h) or in store order. Store 0's order does not depend on the other stores.
 *
 * With `once` the stream has one store and ends after its first epoch.
 *
 * A run may continue with another blend (blend_carry): stores that remain keep their position and order; i and n_d
 * restart at 0, so that the new weights apply from the first window on. */
#ifndef LOADER_BLEND_H
#define LOADER_BLEND_H

#include "data/shuffle.h"
#include "data/window_source.h"

#include <stdbool.h>
#include <stdint.h>

enum { BLEND_AHEAD = 64 /* windows of a store that are located together */ };
enum { BLEND_STORES = 4096 }; /* limit; a checkpoint stores numbers per store in attributes of at most 64 KB */

/* A position in a stream, sufficient to resume from. {0} is the start of any stream. */
struct blend_position {
    int64_t stores;  /* number of stores; 0 in {0} */
    int64_t *epoch;  /* [stores] */
    int64_t *window; /* [stores] index of the store's next window in the order of its epoch */
    int64_t *before; /* [stores] windows that the store had given when the current blend began */
    int64_t *key;    /* [stores] the store's number in keys of random numbers; initially its index */
    int64_t offset;  /* tokens of the stream's next window that are already in rows */
};

/* Returns the start of a stream of `stores` stores. */
struct blend_position blend_position_create(int64_t stores);
/* Copies *from to *to, which has the same number of stores. If *from is {0}, *to becomes the start. */
void blend_position_set(struct blend_position *to, const struct blend_position *from);
/* Frees the position and sets it to {0}. */
void blend_position_destroy(struct blend_position *position);

struct blend_settings {
    bool shuffle, once;
    bool megatron; /* shares and order as Megatron-LM rounds them (loader/megatron_blend.h) */
    uint64_t seed; /* seed of the shuffle */
};

struct data_blend {
    struct blend_settings settings;
    int stores;
    struct blend_store {
        const struct window_source *windows;
        double share; /* w_d */
        struct index_shuffle order;
        /* windows first_ahead .. stop_ahead - 1 of the epoch, already located */
        struct token_window ahead[BLEND_AHEAD];
        int64_t first_ahead, stop_ahead;
    } * store; /* [stores] */
    struct blend_position position;
};

/* Makes a stream at its start. windows[stores]: borrowed, each with at least one window. weights[stores]: positive,
 * with any sum; NULL: in proportion to the number of windows. */
struct data_blend blend_create(const struct blend_settings *settings, const struct window_source *const *windows,
                               const double *weights, int stores);
/* Returns a second, independent stream of the same windows at the same position. */
struct data_blend blend_copy(const struct data_blend *blend);
void blend_destroy(struct data_blend *blend);
/* Returns whether the stream can reach this position. For positions from files, which may contain anything. */
bool blend_has(const struct data_blend *blend, const struct blend_position *position);
/* Moves to a position of this stream or of an equal one. */
void blend_seek(struct data_blend *blend, const struct blend_position *position);

/* Translates position `old` of another blend to this blend. from[stores] is the index of each store in the old blend,
 * -1 for a new store. A window that was partly in rows is started again. If `old` comes from a file, check the result
 * with blend_has. */
struct blend_position blend_carry(const struct data_blend *blend, const struct blend_position *old,
                                  const int64_t *from);

/* Returns a number that is unique to (key, epoch), for keys of random numbers. `key` is the store's entry of
 * blend_position.key. */
uint64_t blend_epoch(int64_t key, int64_t epoch);

/* Returns whether a `once` stream is past its last window. */
bool blend_ended(const struct data_blend *blend);
/* Returns the next window and its store without consuming it. Not allowed after the end. */
struct token_window blend_window(struct data_blend *blend, int *store);
/* Consumes the next window, which is of `store` (from blend_window); sets position.offset to 0. */
void blend_advance(struct data_blend *blend, int store);

#endif
