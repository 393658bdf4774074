/* `cistron eval`: the loss of a model on the records of a file, as JSON with the fields of the OpenGenome2
 * recipe's evaluate_fasta_lm_loss. */
#ifndef INFER_EVAL_H
#define INFER_EVAL_H

#include "core/device.h"
#include "infer/score.h"

#define EVAL_OVERLAP INT64_MIN
#define EVAL_SEED INT64_MIN

struct eval_settings {
    const char *checkpoint, *input, *output;
    const char *input_format, *field; /* of the records, as struct record_settings has them */
    bool skip_bad;                    /* leave out records whose field is missing or null, and count them */
    int64_t
        overlap; /* tokens of a window that the one before has scored; EVAL_OVERLAP = 200, or half a shorter context */
    int64_t context; /* tokens of a window; 0 = as many as the model was trained on */
    int64_t batch;   /* windows of that size computed at once; 0 = a few thousand tokens */
    int64_t seed;    /* of a masked model's masks; EVAL_SEED = the training's */
    bool bos, no_mask;
    bool replace;            /* a file that is there */
    bool shard;              /* as inference_shape has it */
    int64_t tensor;          /* ranks that have a part of each layer; 0: each has all */
    const char *letter_case; /* of prepare/census.h; NULL */
};

/* A causal model scores each token by those before it, in windows that overlap (infer/sliding.h). A masked model scores
 * the tokens that are selected as in training (loader/masking.h), with the deck's data.mask_probability, in windows as
 * it was trained on, BOS and EOS around each: overlap, bos and no_mask are then the user's mistakes. Collective; an
 * agreed code, its message printed. The output appears under its name when it is whole. ERROR_USER: settings out of
 * range, no such file, none of records; inference_open's; ERROR_ENVIRONMENT: it cannot be written. */
int eval_run(struct comm *world, const struct eval_settings *settings, device_make *make_executor);

#endif
