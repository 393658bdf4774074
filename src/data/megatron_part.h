/* Chooses the sequences of a Megatron data set for training, validation or test: Megatron-LM's --split, by sequences in
 * file order (blended_megatron_dataset_config.py). */
#ifndef DATA_MEGATRON_PART_H
#define DATA_MEGATRON_PART_H

#include "data/megatron_store.h"

enum megatron_use { MEGATRON_TRAIN, MEGATRON_VALID, MEGATRON_TEST, MEGATRON_USES };

/* Sequences first .. first + count - 1 of a store, whose tokens are contiguous. */
struct megatron_part {
    int64_t first, count, tokens;
    int64_t start; /* index of the first token in the store */
};

/* Sets *part to the sequences for one use. shares: split ratios such as "949,50,1", in the order of enum megatron_use,
 * with any sum; missing ratios are 0; "": all sequences for every use. ERROR_USER: not a list of ratios, or a part
 * without tokens. */
int megatron_part_choose(struct megatron_part *part, const struct megatron_store *store, const char *shares,
                         enum megatron_use use);

#endif
