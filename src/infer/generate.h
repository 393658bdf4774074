/* `cistron generate`: text that goes on from a prompt. */
#ifndef INFER_GENERATE_H
#define INFER_GENERATE_H

#include "comm/comm.h"
#include "core/device.h"
#include "infer/sample.h"

struct generate_settings {
    const char *checkpoint, *prompt;
    const char *letter_case; /* of the prompt (prepare/census.h); NULL */
    int64_t tokens;          /* to add to the prompt, at most */
    struct sampling sampling;
    bool shard;     /* as inference_shape has it */
    int64_t tensor; /* ranks that have a part of each layer; 0: each has all */
};

/* Prints the prompt and its continuation on rank 0's standard output, up to settings->tokens tokens or to the end of
 * sequence that the model gives; what was loaded and the rates go to standard error. BOS stands before the prompt,
 * nothing behind it; where the model learned without BOS (data.bos), it has none. Characters that cannot be printed are
 * shown as '?'. In a prompt of text, special tokens that are written out count as such. Every rank computes the same,
 * and rank 0 prints. Collective; an agreed code, its message printed. ERROR_USER: settings out of range;
 * inference_open's. */
int generate_run(struct comm *world, const struct generate_settings *settings, device_make *make_executor);

#endif
