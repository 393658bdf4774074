/* `cistron embed`: the vectors that a model gives the records of a FASTA file (infer/embeddings.h). */
#ifndef INFER_EMBED_H
#define INFER_EMBED_H

#include "comm/comm.h"
#include "core/device.h"

#include <stdbool.h>

struct embed_settings {
    const char *checkpoint, *fasta, *output;
    const char *pool;   /* a name of infer/embeddings.h */
    int64_t max_length; /* tokens of a record, special tokens included, beyond which it is cut short; 0 = no limit */
    const char *letter_case; /* of prepare/census.h; NULL */
    bool replace;            /* an output that is there */
    bool shard;              /* as inference_shape has it */
    int64_t tensor;          /* ranks that have a part of each layer; 0: each has all */
};

/* Masked models are given BOS, record and EOS, causal ones BOS and record: so the last token, for pool "last", is EOS
 * or the last residue. Nothing is masked, which for token dropout is a factor too (loader/masking.h).
 * Rank 0 reads and writes. Records are put into batches in the order of the file, whatever the ranks; rank r computes
 * batches r, r + size, ...: so the file is the same on any number of ranks, up to what the executor's rounding makes
 * of other numbers of threads. Collective; an agreed code, its message printed. The output appears under its name when
 * it is whole. ERROR_USER: settings out of range, no such file, no FASTA, a record that needs more memory than there
 * is; inference_open's; ERROR_ENVIRONMENT: it cannot be written. */
int embed_run(struct comm *world, const struct embed_settings *settings, device_make *make_executor);

#endif
