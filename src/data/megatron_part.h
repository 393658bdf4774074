/* Which sequences of a Megatron data set are for training, for validation and for tests: Megatron-LM's --split, by
 * sequences in the order of the file (blended_megatron_dataset_config.py). */
#ifndef DATA_MEGATRON_PART_H
#define DATA_MEGATRON_PART_H

#include "data/megatron_store.h"

enum megatron_use { MEGATRON_TRAIN, MEGATRON_VALID, MEGATRON_TEST, MEGATRON_USES };

/* Sequences first .. first + count - 1 of a store, and the tokens in them, which lie one behind the other. */
struct megatron_part {
    int64_t first, count, tokens;
    int64_t start; /* of the first token, in the store */
};

/* shares: "949,50,1", for MEGATRON_TRAIN and so on, of any sum; missing ones are 0; "": all sequences, whatever the
 * use. User errors: no such list, a part without tokens. */
int megatron_part_choose(struct megatron_part *part, const struct megatron_store *store, const char *shares,
                         enum megatron_use use);

#endif
