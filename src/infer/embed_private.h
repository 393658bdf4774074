/* Declarations shared by the files of `cistron embed`. */
#ifndef INFER_EMBED_PRIVATE_H
#define INFER_EMBED_PRIVATE_H

#include "data/batch.h"
#include "file/atomic_file.h"
#include "infer/contacts.h"
#include "infer/embed.h"
#include "infer/embed_choices.h"
#include "infer/inference.h"
#include "infer/sequences.h"

enum { SENT_BYTES = 4 << 20 };

/* One batch for each team. Rank 0 reads the file and sends the round to all ranks; the tokens of all batches are
 * contiguous. */
struct embed_round {
    int64_t *counts;  /* [teams]: records of each batch */
    int64_t *lengths; /* [teams * most_records] tokens of each record; batch t begins at t * most_records */
    int32_t *tokens;  /* [teams * batch_tokens] */
    char **names;     /* [teams * most_records] as lengths; rank 0 */
};

struct embed_command {
    const struct embed_settings *settings;
    struct inference *inference;
    struct comm *world;
    struct embed_choices choices;
    int64_t width;                      /* numbers of a token's vectors: hidden for each layer */
    int64_t strands;                    /* 1 or 2: sequences that are computed of a record */
    int64_t begin, end;                 /* special tokens before and after a record */
    int64_t longest;                    /* tokens of the longest record */
    int64_t short_tokens;               /* tokens of a batch of short records */
    int64_t batch_tokens, most_records; /* maxima of a batch */
    struct record_sequences sequences;  /* rank 0 */
    struct atomic_file output, table;   /* rank 0; the table is open beside an .npy file only */
    char *table_path;                   /* rank 0 */
    struct embeddings *file;            /* rank 0 */
    struct spool_record waiting;        /* rank 0: the next record, not yet in a batch */
    int more;                           /* waiting is valid */
    struct embed_round round;
    struct batch batch;       /* this team's batch */
    int32_t *tokens;          /* [batch_tokens] tokens of one record */
    float *vectors;           /* [batch_tokens][width] for this team's batch */
    float *sent;              /* [SENT_BYTES] piece of a rank's vectors */
    struct contact_maps maps; /* with settings->contacts */
};

/* Returns whether a record has one row. */
bool embed_pools(const struct embed_command *e);
/* Returns the tokens of a batch for records of this length. */
int64_t embed_batch_size(const struct embed_command *e, int64_t length);

/* Return the tokens of each record of a team's batch, of all of them, and the rows of /vectors that the batch makes. */
const int64_t *embed_lengths(const struct embed_command *e, int rank);
int64_t embed_tokens(const struct embed_command *e, int rank);
int64_t embed_rows(const struct embed_command *e, int rank);

/* Pools all records of this team's batch of `tokens` tokens (both strands counted) in place. */
void embed_pool_batch(const struct embed_command *e, int64_t tokens);
/* Returns whether all numbers of the states of the batch are finite. */
bool embed_is_finite(const struct embed_command *e, int64_t tokens);
/* Divides each layer's part of the rows by its L2 norm. */
void embed_normalize_rows(const struct embed_command *e, int64_t rows);

/* Computes and writes the vectors of all records, in rounds of one batch for each team. Collective; an agreed code. */
int embed_rounds(struct embed_command *e);

#endif
