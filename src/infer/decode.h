/* Continuous batching: generates many sequences at once. Each has a place of the engine's key-value cache; when a
 * sequence ends, the next one gets its place. A call takes one token of each sequence that is being generated, and as
 * many tokens of prompts as still fit.
 *
 * After n tokens, the model sees those from decode_first(n) on, counted as positions from 0. While n is at most the
 * context, these are all tokens. When the context is full, only its last half is kept, and new tokens fill it again. */
#ifndef INFER_DECODE_H
#define INFER_DECODE_H

#include "comm/comm.h"
#include "infer/sample.h"
#include "engine/engine.h"

enum decode_end { DECODE_LENGTH, DECODE_END_TOKEN };

struct decode_sequence {
    uint64_t number;        /* key of the sequence's random numbers */
    int32_t *tokens;        /* [most]: the prompt, then the added tokens, without the end token */
    int64_t prompt, count;  /* tokens of the prompt, at least 1, and of the sequence so far */
    int64_t most;           /* maximum number of tokens, prompt included */
    double log_probability; /* nats: of the added tokens, and of the end token if it came */
    enum decode_end end;
};

struct decode_settings {
    struct engine *engine;          /* for `sequences` sequences; positions: at least min(context, largest `most`) */
    int64_t sequences, call_tokens; /* call_tokens: maximum tokens of a call, at least one per sequence */
    int64_t context;                /* maximum number of tokens that the model sees, at least 2 */
    struct sampling sampling;
    const bool *ends;   /* [vocabulary] tokens that end a sequence */
    int threads;        /* CPU threads that sample tokens */
    struct comm *agree; /* ranks that do the same work and use rank 0's choices; NULL: none */
    /* Called for each token that is added; may be NULL. */
    void (*added)(void *self, const struct decode_sequence *sequence, int32_t token);
    void *self;
};

/* Counts and times of calls. A call that adds a token to each sequence and reads nothing else is a step. */
struct decode_rates {
    int64_t read;                      /* tokens in other calls */
    int64_t added, steps;              /* tokens added by steps, and number of steps */
    double read_seconds, step_seconds; /* total time of each kind */
};

/* Returns the first of n tokens that the model sees: 0, or the least multiple of context / 2 with at most `context`
 * tokens from there on. */
int64_t decode_first(int64_t n, int64_t context);

/* Generates each sequence to its end, and adds to *rates. Collective over the engine's tensor-parallel ranks and over
 * `agree`. Returns false if a logit is not finite. */
bool decode(const struct decode_settings *settings, struct decode_sequence *sequences, int64_t count,
            struct decode_rates *rates);

#endif
