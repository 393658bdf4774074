/* How often a run goes through each store of a weighted blend: a small store with a large weight is repeated. */
#ifndef LOADER_STORE_EPOCHS_H
#define LOADER_STORE_EPOCHS_H

#include <stdint.h>

enum { STORE_EPOCHS_SHOWN = 32 }; /* stores that a list for people has at most */

struct store_share {
    const char *path;        /* borrowed */
    double weight;           /* positive; of any sum */
    int64_t windows, tokens; /* in an epoch; windows: at least one */
    double epochs;           /* of the run */
};

/* Fills `epochs` for a run of `rows` rows. row_tokens: the tokens of a packed row, taken as full, so that no run has
 * more epochs; 0: each row holds one window. */
void store_epochs(struct store_share *shares, int stores, double rows, int64_t row_tokens);

/* Warns of stores that the run goes through many times, in one line. */
void store_epochs_warn(const struct store_share *shares, int stores);

#endif
