/* The order in which Megatron-LM learns from the sequences of a data set, number for number (gpt_dataset.py,
 * helpers.cpp of megatron-core 0.16): the tables that it calls document index, sample index and shuffle index. All
 * epochs are planned at once for the number of samples that the run takes.
 *
 * The sequences of all epochs are shuffled together. Laid one after the other they are cut into samples of length + 1
 * tokens, each of which begins with the last token of the one before. These are shuffled once more. Where the last
 * epoch is needed for less than 0.8 of its samples it is shuffled apart, behind the others, both times. One generator
 * (data/numpy_random.h) makes all shuffles, in this order. */
#ifndef DATA_MEGATRON_ORDER_H
#define DATA_MEGATRON_ORDER_H

#include "data/megatron_part.h"

#include <stdint.h>

/* Where a sample begins: at a token of a sequence, which is named by its place in the order. */
struct megatron_place {
    int32_t sequence, token;
};

/* Samples of `length` tokens and the one behind them in so many tokens. */
int64_t megatron_samples(int64_t tokens, int64_t length);
/* ERROR_USER: the part has none. */
int megatron_too_short(const struct megatron_store *store, const struct megatron_part *part, int64_t length);

struct megatron_order {
    int64_t epochs, samples;
    uint32_t *sequences;           /* [epochs * part.count] */
    struct megatron_place *begins; /* [samples + 1] */
    uint32_t *shuffle;             /* [samples] which sample is learnt from when */
    uint64_t checksum;             /* of what tells this order from others of the same part */
};

/* samples < 2^32: how many the run takes, 0 for all of one epoch; length: tokens of a sample, less one. User errors: a
 * part too short for one sample; more than 2^31 - 2 sequences or 2^32 - 3 samples in all epochs. Takes 4 bytes of
 * memory for each sequence of each epoch and 12 for each sample. Destroy the order in any case. */
int megatron_order_create(struct megatron_order *order, const struct megatron_store *store,
                          const struct megatron_part *part, int64_t samples, int64_t length, uint32_t seed);
void megatron_order_destroy(struct megatron_order *order);

#endif
