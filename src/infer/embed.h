/* `cistron embed`: writes a model's vectors of the records of a FASTA file (infer/embeddings.h). */
#ifndef INFER_EMBED_H
#define INFER_EMBED_H

#include "comm/comm.h"
#include "core/device.h"

#include <stdbool.h>

struct embed_settings {
    const char *checkpoint, *fasta, *output;
    const char *pool;        /* a name in embeddings_pool_names */
    int64_t max_length;      /* maximum tokens per record, with special tokens; 0 = no limit */
    const char *letter_case; /* see prepare/census.h; may be NULL */
    bool replace;            /* replace an existing output */
    bool shard;              /* as in inference_shape */
    int64_t tensor;          /* number of tensor-parallel ranks; 0: no tensor parallelism */
};

/* Computes and writes the vectors. The input of a masked model is BOS, record and EOS, that of a causal model BOS and
 * record; so the last token, for pool "last", is EOS or the last residue. Nothing is masked, which token dropout takes
 * into account (loader/masking.h).
 *
 * Rank 0 reads and writes. Records are put into batches in file order, independent of the number of ranks; team t
 * computes batches t, t + teams, ... The file is therefore the same on any number of ranks, up to rounding that depends
 * on the number of threads. The output appears under its name when it is complete.
 *
 * Collective; returns an agreed code, after its message was printed. ERROR_USER: settings are out of range, the input
 * is missing or not FASTA, a record needs more memory than is available, or an error of inference_open;
 * ERROR_ENVIRONMENT: the output cannot be written. */
int embed_run(struct comm *world, const struct embed_settings *settings, device_make *make_executor);

#endif
