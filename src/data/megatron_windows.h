/* Windows of a Megatron data set: samples of its part (data/megatron_part.h), of `window` tokens and the next token,
 * which is the last label. Samples continue from one sequence into the next, as in Megatron-LM. No special tokens are
 * added, because the data already contains the tokens that separate documents.
 *
 * In file order, sample i of an epoch begins at token i * window of the part. In Megatron-LM's own order
 * (data/megatron_order.h), where sequences are shuffled before they are split, one epoch has the samples of all epochs
 * of the run, and window i is the i-th sample that Megatron-LM would use. */
#ifndef DATA_MEGATRON_WINDOWS_H
#define DATA_MEGATRON_WINDOWS_H

#include "data/megatron_part.h"
#include "data/window_source.h"

struct megatron_windows;

/* Makes windows in file order. Borrows the store and the tokenizer. window: tokens of a sample, less one. ERROR_USER:
 * the part is shorter than one sample. */
int megatron_windows_create(struct megatron_windows **windows, const struct megatron_store *store,
                            const struct megatron_part *part, const struct tokenizer *tokenizer, int64_t window);
/* Makes windows in Megatron-LM's order, for a run of `samples` samples of this store. Errors: as in
 * megatron_order_create. */
int megatron_windows_create_ordered(struct megatron_windows **windows, const struct megatron_store *store,
                                    const struct megatron_part *part, const struct tokenizer *tokenizer, int64_t window,
                                    int64_t samples, uint32_t seed);
void megatron_windows_destroy(struct megatron_windows *windows);

const struct window_source *megatron_windows_source(const struct megatron_windows *windows);
/* Returns a checksum of the store, the part and the order, if any. */
uint64_t megatron_windows_checksum(const struct megatron_windows *windows);

#endif
