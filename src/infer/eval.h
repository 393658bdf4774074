/* `cistron eval`: computes the loss of a model on the records of a file, as JSON with the fields of the OpenGenome2
 * recipe's evaluate_fasta_lm_loss. `cistron score --input`: log-likelihoods of the records, as a table. */
#ifndef INFER_EVAL_H
#define INFER_EVAL_H

#include "core/device.h"
#include "deck/deck.h"
#include "infer/score.h"
#include "store/budget.h"

#define EVAL_OVERLAP INT64_MIN
#define EVAL_SEED INT64_MIN

struct eval_settings {
    const char *checkpoint, *input, *output;
    const char *input_format, *field; /* as in struct record_settings */
    bool skip_bad;                    /* skip and count records whose field is missing or null */
    int64_t overlap;      /* tokens shared with the previous window; EVAL_OVERLAP = 200, or half of a shorter context */
    int64_t context;      /* tokens per window; 0 = as in training */
    int64_t batch;        /* windows per batch; 0 = batch_tokens */
    int64_t batch_tokens; /* tokens per batch; 0 = a few thousand */
    const char *precision; /* as in inference_choose_precision */
    /* Write log-likelihoods as a table (infer/likelihoods.h). Masked models: mask each token alone, instead of those
     * that the seed selects. Every model of a text that began with the begin token in training sees it. */
    bool likelihoods;
    int64_t seed; /* seed of a masked model's masks; EVAL_SEED = that of the training */
    bool bos, no_mask;
    bool both_strands;        /* bases: score each record on both strands; its loss and tokens are those of both */
    bool replace;             /* replace an existing output */
    bool shard;               /* as in inference_shape */
    int64_t tensor;           /* number of tensor-parallel ranks; 0: no tensor parallelism */
    int64_t context_parallel; /* number of context-parallel ranks; 0: no context parallelism */
    const char *letter_case;  /* see prepare/census.h; may be NULL */
};

/* Scores the file and writes the JSON. A causal model scores each token given the tokens before it, in overlapping
 * windows (infer/sliding.h). A masked model scores the tokens that are selected as in training (loader/masking.h), with
 * the deck's data.mask_probability, in windows of the training's size with BOS and EOS; then overlap, bos and no_mask
 * are refused. The output appears under its name when it is complete. Collective; returns an agreed code, after its
 * message was printed. ERROR_USER: settings are out of range, the input is missing or has no records, or an error of
 * inference_open; ERROR_ENVIRONMENT: the output cannot be written. */
int eval_run(struct comm *world, const struct eval_settings *settings, device_make *make_executor);

/* Plans the memory of a rank in an evaluation of windows of `window` tokens, one at a time on `ranks` context-parallel
 * ranks, as inference_plan. */
int eval_plan(const struct deck *deck, int64_t window, int64_t ranks, struct executor *executor,
              int64_t memory[BUDGET_CATEGORIES]);

#endif
