/* `cistron generate`: texts that go on from prompts. */
#ifndef INFER_GENERATE_H
#define INFER_GENERATE_H

#include "comm/comm.h"
#include "core/device.h"
#include "infer/sample.h"

struct generate_settings {
    const char *checkpoint, *prompt;
    const char *input, *input_format, *field; /* prompts of a file, as struct prompts_settings has them; NULL: prompt */
    bool skip_bad;
    const char *output, *output_format; /* NULL, or "-": standard output; as results_choose has it */
    const char *letter_case;            /* of the prompts (prepare/census.h); NULL */
    const char *alphabet;               /* characters that may be added; NULL: any */
    int64_t tokens;                     /* to add to a prompt, at most */
    int64_t samples;                    /* of a prompt */
    int64_t batch;                      /* sequences that are computed at once; 0 = chosen */
    int64_t context;                    /* as in decode_settings; 0 = as many tokens as the model was trained on */
    struct sampling sampling;           /* `allowed` follows from the alphabet */
    bool shard;                         /* as inference_shape has it */
    int64_t tensor;                     /* ranks that have a part of each layer; 0: each has all */
    bool replace;                       /* an output that is there */
};

/* Goes on with each prompt, settings->samples times, up to settings->tokens tokens or to the end of sequence that the
 * model gives. BOS stands before a prompt, nothing behind it; where the model learned without BOS (data.bos), it has
 * none. In prompts of text, special tokens that are written out count as such.
 *
 * Of one prompt and one sample, with no word about an output, rank 0 prints the prompt and what is added as it comes,
 * characters that cannot be printed as '?'. Else the results (infer/results.h) are written in the order of the prompts:
 * to standard output as they are there, to a file that appears under its name when it is whole. A sample's tokens hang
 * on the seed, its number and its prompt's, not on what is computed beside it, but for the rounding of products. Teams
 * of ranks share the work. What was loaded and the rates go to standard error.
 *
 * Collective; an agreed code, its message printed. ERROR_USER: settings out of range; errors of prompts_read,
 * alphabet_allow, results_choose, output_check and inference_open. */
int generate_run(struct comm *world, const struct generate_settings *settings, device_make *make_executor);

#endif
