/* Splits the spooled records into parts (train, valid, ...). Records longer than SPLIT_WHOLE tokens are divided into
 * blocks of SPLIT_BLOCK tokens, others are one block. Each block has a keyed hash of (record name, block number). Every
 * part but the first takes blocks in order of hash until it has its fraction of all tokens, which it exceeds by less
 * than one block (or cluster, see below). The first part has the rest. Adjacent blocks of a record in the same part
 * stay one piece, so context is lost only between parts.
 *
 * A split by a column gives each record, whole, the part that a field of it names, instead.
 *
 * With clusters (prepare/clusters.h) the hash is that of the record's cluster, and no record is divided: all records of
 * a cluster go to one part. */
#ifndef PREPARE_SPLIT_H
#define PREPARE_SPLIT_H

#include "file/spool.h"
#include "prepare/clusters.h"

#include <stdbool.h>
#include <stdint.h>

enum { SPLIT_PARTS = 8, SPLIT_NAME_BYTES = 32, SPLIT_WHOLE = 1000000, SPLIT_BLOCK = 20000 };

/* A block's place in the order of hashes; the number of the record tells records of equal names apart. */
struct split_place {
    uint64_t hash;
    int64_t record, block;
};

struct data_split {
    int parts;
    uint64_t seed;
    const struct clusters *clusters; /* borrowed; NULL: none */
    bool by_column;
    uint8_t *given; /* by_column: [given_count] part of each record of the spool; freed with split_destroy */
    int64_t given_count, given_capacity;
    struct {
        char name[SPLIT_NAME_BYTES]; /* "" if there is no split */
        double fraction;
        struct split_place last; /* the part's last block in the order; not used for part 0 */
    } part[SPLIT_PARTS];
};

/* A range of one record that goes to one part. */
struct split_piece {
    int part;
    int64_t start, length; /* in tokens, relative to the record */
};

/* Parses a text such as "train:0.95,valid:0.05"; text NULL: one part with everything. Without clusters. ERROR_USER: a
 * bad form, fractions that do not sum to 1, equal names, more than SPLIT_PARTS parts. */
int split_parse(struct data_split *split, const char *text, uint64_t seed);
/* Makes a split by a column, of parts train, valid and test. */
void split_by_column(struct data_split *split);
void split_destroy(struct data_split *split);
/* Returns the part that a text names: train, valid (or validation, val), test; -1: none of them. */
int split_named(const char *text, int64_t length);
/* Gives the next record of the spool its part. */
void split_give(struct data_split *split, int part);
/* Removes the parts without records from a split by a column; sequences: [parts] number of records of each. */
void split_drop_empty(struct data_split *split, const int64_t *sequences);

/* Reads the spool's index and determines the blocks of each part. ERROR_USER: a part without tokens. */
int split_choose(struct data_split *split, struct spool *spool);
/* Returns the piece of a record that begins at token `start`, which must be 0 or the end of the previous piece. */
struct split_piece split_piece(const struct data_split *split, const struct spool_record *record, int64_t start);

#endif
