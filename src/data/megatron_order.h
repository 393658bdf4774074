/* The order in which Megatron-LM trains on the sequences of a data set, bit for bit (gpt_dataset.py, helpers.cpp of
 * megatron-core 0.16): the tables that Megatron-LM calls document index, sample index and shuffle index. All epochs are
 * planned at once, for the number of samples in the run.
 *
 * The sequences of all epochs are shuffled together and concatenated. The result is split into samples of length + 1
 * tokens, each of which begins with the last token of the previous sample. Then the samples are shuffled. If the run
 * needs less than 0.8 of the last epoch's samples, both shuffles treat the last epoch separately, after the others. One
 * generator (data/numpy_random.h) makes all shuffles, in this order. */
#ifndef DATA_MEGATRON_ORDER_H
#define DATA_MEGATRON_ORDER_H

#include "data/megatron_part.h"

#include <stdint.h>

/* The start of a sample: a token of a sequence. `sequence` is an index into megatron_order.sequences. */
struct megatron_place {
    int32_t sequence, token;
};

/* Returns the number of samples, of `length` tokens and one more, in `tokens` tokens. */
int64_t megatron_samples(int64_t tokens, int64_t length);
/* Records the error that the part has no sample, and returns ERROR_USER. */
int megatron_too_short(const struct megatron_store *store, const struct megatron_part *part, int64_t length);

struct megatron_order {
    int64_t epochs, samples;
    uint32_t *sequences;           /* [epochs * part.count] sequences of the store */
    struct megatron_place *begins; /* [samples + 1] start of each sample */
    uint32_t *shuffle;             /* [samples] sample of each place in the order */
    uint64_t checksum;             /* checksum of the settings that determine the order of a part */
};

/* Makes the order of a run. samples < 2^32: samples in the run, 0 for one epoch; length: tokens of a sample, less one.
 * ERROR_USER: a part too short for one sample; more than 2^31 - 2 sequences or 2^32 - 3 samples in all epochs. Needs 4
 * bytes of memory per sequence and epoch, and 12 per sample. Destroy the order also after an error. */
int megatron_order_create(struct megatron_order *order, const struct megatron_store *store,
                          const struct megatron_part *part, int64_t samples, int64_t length, uint32_t seed);
void megatron_order_destroy(struct megatron_order *order);

#endif
