/* Sequences that go on, many at once: a place of the engine's cache for each, and the next one takes a place that is
 * free again. A call takes one token of each sequence that is under way, and of prompts as much as there is room for.
 *
 * Of a sequence of n tokens the model sees those from decode_first(n) on, counted from position 0: all as long as they
 * are no more than the context; then the last half of the context, and what is added, until that is full again. */
#ifndef INFER_DECODE_H
#define INFER_DECODE_H

#include "comm/comm.h"
#include "infer/sample.h"
#include "engine/engine.h"

enum decode_end { DECODE_LENGTH, DECODE_END_TOKEN };

struct decode_sequence {
    uint64_t number;        /* keys its random numbers */
    int32_t *tokens;        /* [most]: the prompt, then what is added; without the end token */
    int64_t prompt, count;  /* tokens: of the prompt, at least 1; of all so far */
    int64_t most;           /* of all */
    double log_probability; /* nats, of what was added, and of the end token where it came */
    enum decode_end end;
};

struct decode_settings {
    struct engine
        *engine; /* of `sequences` sequences at once; positions: at least the least of context and all `most` */
    int64_t sequences, chunk; /* tokens of a call, at least one for each sequence */
    int64_t context;          /* tokens that the model sees at most, at least 2 */
    struct sampling sampling;
    const bool *ends;   /* [vocabulary] tokens that end a sequence */
    int threads;        /* that choose tokens */
    struct comm *agree; /* ranks that do the same, and must end together, take rank 0's choices; NULL: there are none */
    /* Called for each token that is added; NULL: nobody wants to know. */
    void (*added)(void *self, const struct decode_sequence *sequence, int32_t token);
    void *self;
};

/* Of calls that took parts of prompts, or of a context that was begun anew, and of the others. */
struct decode_rates {
    int64_t read;                      /* tokens that the model was given of these */
    int64_t added, steps;              /* tokens, calls, of the others */
    double read_seconds, step_seconds; /* of all of a kind */
};

/* The first of n tokens that the model sees: 0, or the least multiple of context / 2 that leaves `context` of them. */
int64_t decode_first(int64_t n, int64_t context);

/* Goes on with each sequence up to its end. *rates is added to. Collective over the engine's ranks that share layers,
 * and over `agree`. False: the model gives no finite numbers. */
bool decode(const struct decode_settings *settings, struct decode_sequence *sequences, int64_t count,
            struct decode_rates *rates);

#endif
