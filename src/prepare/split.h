/* Which part of a split (train, valid, ...) each stretch of the spooled records goes to.
 * Records longer than SPLIT_WHOLE tokens are cut into blocks of SPLIT_BLOCK, others are one block. Each block has a
 * keyed hash of (record name, block number); every part but the first takes, in order of hash, blocks until its
 * fraction of all tokens is reached, so it misses its fraction by less than one block. The first part has the rest.
 * Neighbouring blocks of one record that fall in one part stay one piece, so context is lost at real cuts alone. */
#ifndef PREPARE_SPLIT_H
#define PREPARE_SPLIT_H

#include "file/spool.h"

#include <stdint.h>

enum { SPLIT_PARTS = 8, SPLIT_NAME_BYTES = 32, SPLIT_WHOLE = 1000000, SPLIT_BLOCK = 20000 };

/* A block's place in the order of hashes; records with equal names are told apart by their number. */
struct split_place {
    uint64_t hash;
    int64_t record, block;
};

struct data_split {
    int parts;
    uint64_t seed;
    struct {
        char name[SPLIT_NAME_BYTES]; /* "" for the one part of no split */
        double fraction;
        struct split_place last; /* the part's last block in the order; not used for part 0 */
    } part[SPLIT_PARTS];
};

/* A stretch of one record that goes to one part. */
struct split_piece {
    int part;
    int64_t start, length; /* tokens, within the record */
};

/* "train:0.95,valid:0.05"; text NULL: one part that takes everything. User errors: form, fractions that do not sum to
 * 1, equal names, more than SPLIT_PARTS parts. */
int split_parse(struct data_split *split, const char *text, uint64_t seed);
/* Reads the spool's index and settles what each part takes. User errors: a part that gets nothing. */
int split_choose(struct data_split *split, struct spool *spool);
/* The piece of a record that begins at token `start`, which must be 0 or the end of the piece before. */
struct split_piece split_piece(const struct data_split *split, const struct spool_record *record, int64_t start);

#endif
