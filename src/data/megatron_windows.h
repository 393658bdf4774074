/* Windows of a Megatron data set: samples of its part (data/megatron_part.h), that is so many tokens and the one behind
 * them, which the last one predicts. Samples go on from one sequence into the next, as in Megatron-LM, and no special
 * tokens are added: what parts documents is in the data.
 *
 * In the order of the file, sample i of an epoch begins with token i * window of the part. In Megatron-LM's own order
 * (data/megatron_order.h), which shuffles sequences before it cuts them, the samples are those of all epochs of the
 * run, and number i is the one that it takes as its i-th. */
#ifndef DATA_MEGATRON_WINDOWS_H
#define DATA_MEGATRON_WINDOWS_H

#include "data/megatron_part.h"
#include "data/window_source.h"

struct megatron_windows;

/* Borrows the store and the tokenizer; window: tokens of a sample, less one. User errors: a part shorter than one
 * sample. */
int megatron_windows_create(struct megatron_windows **windows, const struct megatron_store *store,
                            const struct megatron_part *part, const struct tokenizer *tokenizer, int64_t window);
/* The same in Megatron-LM's order, for a run that takes so many samples of this store. Errors of
 * megatron_order_create. */
int megatron_windows_create_ordered(struct megatron_windows **windows, const struct megatron_store *store,
                                    const struct megatron_part *part, const struct tokenizer *tokenizer, int64_t window,
                                    int64_t samples, uint32_t seed);
void megatron_windows_destroy(struct megatron_windows *windows);

const struct window_source *megatron_windows_source(const struct megatron_windows *windows);
/* Of the store, the part and, where it has one, the order. */
uint64_t megatron_windows_checksum(const struct megatron_windows *windows);

#endif
