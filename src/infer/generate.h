/* `cistron generate`: continues prompts. */
#ifndef INFER_GENERATE_H
#define INFER_GENERATE_H

#include "comm/comm.h"
#include "core/device.h"
#include "infer/sample.h"

struct generate_settings {
    const char *checkpoint, *prompt;
    const char *input, *input_format, *field; /* a file of prompts, as in struct prompts_settings; NULL: use prompt */
    bool skip_bad;
    const char *output, *output_format; /* NULL or "-": standard output; formats as in results_choose */
    const char *letter_case;            /* for the prompts (prepare/census.h); may be NULL */
    const char *alphabet;               /* characters that may be generated; NULL: any */
    int64_t tokens;                     /* maximum number of tokens to add to a prompt */
    int64_t samples;
    int64_t batch;            /* sequences computed at once; 0 = automatic */
    int64_t context;          /* as in decode_settings, at most inference.longest; 0 = that of the training */
    struct sampling sampling; /* `allowed` follows from the alphabet */
    bool shard;               /* as in inference_shape */
    int64_t tensor;           /* number of tensor-parallel ranks; 0: no tensor parallelism */
    int64_t context_parallel; /* number of ranks that share the key-value cache; 0: none */
    bool replace;             /* replace an existing output */
};

/* Continues each prompt settings->samples times, by up to settings->tokens tokens or to the model's end token. BOS
 * precedes each prompt, unless the model was trained without it (data.bos). Special tokens that are spelled out in text
 * prompts are encoded as such.
 *
 * With one prompt, one sample and no output option, rank 0 prints the prompt and each token as it is generated,
 * unprintable characters as '?'. Otherwise the results (infer/results.h) are written in prompt order: to standard
 * output as soon as they are known, or to a file that appears under its name when it is complete. The tokens of a
 * sample depend only on the seed and the numbers of the sample and its prompt, except for rounding in GEMMs, which may
 * depend on the batch. Teams of ranks divide the work. What was loaded, and the rates, go to standard error.
 *
 * Collective; returns an agreed code, after its message was printed. ERROR_USER: settings are out of range, or an error
 * of prompts_read, alphabet_allow, results_choose, output_check or inference_open. */
int generate_run(struct comm *world, const struct generate_settings *settings, device_make *make_executor);

#endif
