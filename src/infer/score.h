/* Scores the records of a file: how likely a model finds each. */
#ifndef INFER_SCORE_H
#define INFER_SCORE_H

#include "comm/comm.h"
#include "loader/masking.h"
#include "infer/sliding.h"
#include "engine/engine.h"

struct score_settings {
    const char *checkpoint; /* path, for messages */
    struct sliding_settings windows;
    bool mask; /* score only A C G T a c g t, for bases; false: every token */
    /* Masked models: the rule that selects and replaces tokens, with epoch 0 and the number of the record (from 0) as
     * the window; the selected tokens are scored. label_of is not used. NULL for causal models, and with windows.each,
     * where the scored token of each window is masked. */
    const struct token_masking *masking;
    bool token_dropout;   /* the model uses token dropout */
    int64_t tokens;       /* maximum tokens per batch: at least the context, at most as planned for the engine */
    int64_t short_tokens; /* tokens of a batch of windows that are no longer, at most `tokens`; longer ones: doubled */
    int64_t windows_at_once; /* maximum windows per batch, at most as planned for the engine */
    int teams, team;         /* number of teams, and this rank's (infer/inference.h) */
    bool together;           /* the engine's forward passes are collective over the world (inference.shares) */
};

struct score_record {
    char *name;
    int64_t length;       /* tokens */
    int64_t bytes, words; /* of text, as defined by sliding_bytes and sliding_words */
    int64_t scored;       /* scored tokens */
    double loss;          /* nats, summed over the scored tokens */
};

struct fasta_score {
    struct score_record *records;
    int64_t count;
    int64_t windows;           /* computed windows */
    struct text_census census; /* characters of the records */
    int64_t stops;             /* symbols '*' dropped at the ends of records */
    int64_t skipped;           /* records whose field is missing or null */
};

/* Scores the file. Windows are put into batches in file order, independent of the number of ranks; team t computes
 * batches t, t + teams, ...; each window's sum is added to its record's in file order. Padding fills a batch to a
 * number of tokens that depends on the length of its windows alone, so that all GEMMs of a window have the same shapes
 * in every file. A record's sum is therefore the same whatever other records the file has, on any number of ranks, up
 * to rounding that depends on the number of threads. Every rank reads the file. Collective; an agreed code. On success
 * every rank has the whole result, freed with score_destroy. ERROR_DIVERGED: a loss is not finite. */
int score_run(struct fasta_score *score, struct comm *world, struct engine *engine,
              const struct score_settings *settings);
void score_destroy(struct fasta_score *score);

#endif
