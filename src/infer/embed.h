/* `cistron embed`: writes a model's vectors of the records of a file (infer/embeddings.h). */
#ifndef INFER_EMBED_H
#define INFER_EMBED_H

#include "comm/comm.h"
#include "core/device.h"

#include <stdbool.h>

struct embed_settings {
    const char *checkpoint, *input;
    const char *output;               /* HDF5, or with the ending .npy NumPy's format; the table's ending is .tsv */
    const char *input_format, *field; /* as in struct record_settings */
    bool skip_bad;                    /* skip and count records whose field is missing or null */
    const char *pool, *dtype;         /* names in embeddings_pool_names and embeddings_dtype_names */
    const char *layers;               /* see infer/embed_choices.h; may be NULL */
    bool both_strands;                /* bases: the mean of the vectors of both strands; see embed_run */
    bool contacts;                    /* add the contacts of residues (infer/contacts.h); HDF5 only */
    bool normalize;                   /* divide each vector by its L2 norm; a vector of zeros stays */
    int64_t max_length;               /* maximum tokens per record, with special tokens; 0 = no limit */
    const char *letter_case;          /* see prepare/census.h; may be NULL */
    bool replace;                     /* replace an existing output */
    bool shard;                       /* as in inference_shape */
    int64_t tensor;                   /* number of tensor-parallel ranks; 0: no tensor parallelism */
    int64_t context_parallel;         /* number of context-parallel ranks; 0: no context parallelism */
};

/* Computes and writes the vectors. The input of a masked model is BOS, record and EOS, that of a causal model BOS and
 * record; so the last token, for pool "last", is EOS or the last residue. Nothing is masked, which token dropout takes
 * into account (loader/masking.h).
 *
 * Both strands: the mean of a record's vectors and those of its reverse complement; with pool "none" the states of a
 * base and of its complement are averaged.
 *
 * Rank 0 reads and writes. Records are put into batches in file order, independent of the number of ranks; team t
 * computes batches t, t + teams, ... A batch has a fixed number of tokens (padding fills it), or for longer records the
 * next power of two, so a record's vectors do not depend on other records, nor on the ranks; they may depend in their
 * last bits on the device and the number of threads. The output appears under its name when it is complete.
 *
 * Collective; returns an agreed code, after its message was printed. ERROR_USER: settings are out of range, the input
 * is missing or has no records, a record needs more memory than is available, or an error of inference_open;
 * ERROR_ENVIRONMENT: the output cannot be written. */
int embed_run(struct comm *world, const struct embed_settings *settings, device_make *make_executor);

#endif
