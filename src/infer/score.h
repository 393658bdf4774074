/* Scoring: how likely a model finds each record of a file. */
#ifndef INFER_SCORE_H
#define INFER_SCORE_H

#include "comm/comm.h"
#include "loader/masking.h"
#include "infer/sliding.h"
#include "engine/engine.h"

struct score_settings {
    const char *checkpoint; /* its path, for messages */
    struct sliding_settings windows;
    bool mask; /* causal models: score A C G T a c g t alone; else every token */
    /* For masked models, else NULL: selects and replaces tokens by this rule, with epoch 0 and the record's number
     * (from 0) as the window; selected tokens are scored. */
    const struct token_masking *masking;
    bool token_dropout;      /* of the model */
    int64_t tokens;          /* of a batch: at least the context, at most what the engine was planned for */
    int64_t windows_at_once; /* of a batch, likewise */
    int teams, team;         /* of the ranks that compute together, and this rank's (infer/inference.h) */
    bool together;           /* the engine's forward passes are collective over the world (infer/inference.h) */
};

struct score_record {
    char *name;
    int64_t length;       /* tokens */
    int64_t bytes, words; /* of text, as sliding_bytes and sliding_words have them */
    int64_t scored;       /* of them */
    double loss;          /* nats, summed over these */
};

struct fasta_score {
    struct score_record *records;
    int64_t count;             /* of records */
    int64_t windows;           /* that were computed */
    struct text_census census; /* of the records' characters */
    int64_t stops;             /* symbols '*' dropped at their ends */
    int64_t skipped;           /* records left out: their field is missing or null */
};

/* Scores the file. Windows are put into batches in the order of the file, whatever the ranks; team r computes batches
 * r, r + teams, ...; each window's sum is added to its record's in the order of the file: so records have the same sums
 * on any number of ranks, up to what the executor's rounding makes of other numbers of threads. Every rank reads the
 * file. Collective; an agreed code; on success every rank has the whole result, to be freed with score_destroy.
 * ERROR_DIVERGED: a loss is not finite. */
int score_run(struct fasta_score *score, struct comm *world, struct engine *engine,
              const struct score_settings *settings);
void score_destroy(struct fasta_score *score);

#endif
