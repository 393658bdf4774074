/* `cistron score`: scores of variants (infer/variant_score.h). */
#ifndef INFER_VARIANT_RUN_H
#define INFER_VARIANT_RUN_H

#include "comm/comm.h"
#include "core/device.h"

#include <stdbool.h>

struct variant_settings {
    const char *checkpoint, *fasta;
    const char *mutations; /* table or VCF (infer/variants.h); NULL: none */
    bool scan;             /* all changes of one letter; not with mutations */
    const char *methods;   /* names of score_method_names, separated by commas; NULL: the default of the model */
    const char *output;    /* infer/score_file.h; NULL: only positions are written */
    const char *positions; /* as output; NULL: none */
    const char *measured;  /* as in variants_read; may be NULL */
    bool both_strands;
    int64_t context;          /* tokens of a window, special tokens included; 0: as in training */
    int64_t batch;            /* tokens computed at once; 0: 32768 on a GPU, 4096 on a CPU */
    const char *precision;    /* "fp32" or "bf16"; NULL: as in training */
    const char *letter_case;  /* see prepare/census.h; may be NULL */
    bool replace;             /* replace existing outputs */
    bool shard;               /* as in inference_shape */
    int64_t tensor;           /* number of tensor-parallel ranks; 0: no tensor parallelism */
    int64_t context_parallel; /* number of context-parallel ranks; 0: no context parallelism */
};

/* Computes and writes the scores, and logs Spearman's correlation and the AUC with measured values, if there are any.
 * Rank 0 reads and writes; teams of ranks divide the batches, and the results do not depend on their number. The
 * outputs appear under their names when they are complete.
 *
 * Collective; returns an agreed code, after its message was printed. ERROR_USER: settings are out of range, a method is
 * unknown or not one of the model's, or an error of references_read, variants_read, variant_score_check, output_check
 * or inference_open; ERROR_ENVIRONMENT: an output cannot be written. */
int variant_run(struct comm *world, const struct variant_settings *settings, device_make *make_executor);

#endif
