/* Computes how often a run repeats each store of a weighted blend: a small store with a large weight is repeated
 * often. */
#ifndef LOADER_STORE_EPOCHS_H
#define LOADER_STORE_EPOCHS_H

#include <stdint.h>

enum { STORE_EPOCHS_SHOWN = 32 }; /* the most stores that a list for users shows */

struct store_share {
    const char *path;        /* borrowed */
    double weight;           /* positive, with any sum */
    int64_t windows, tokens; /* of one epoch; windows: at least 1 */
    double epochs;           /* epochs of this store in the run */
};

/* Sets `epochs` for a run of `rows` rows. row_tokens: tokens of a packed row; rows are assumed full, so the result is
 * an upper bound. 0: each row has one window. */
void store_epochs(struct store_share *shares, int stores, double rows, int64_t row_tokens);

/* Logs one warning line if the run repeats stores many times. */
void store_epochs_warn(const struct store_share *shares, int stores);

#endif
