/* One micro-batch in host memory, in the only form there is: packed rows. A padded row is a row with one segment and
 * padding outside it. Segment s of the micro-batch covers tokens segment_start[s] .. + segment_length[s] - 1 of the
 * flattened rows; slots that are not used have length 0. Row r owns slots r * max_segments .. (r + 1) * max_segments -
 * 1, filled from its first on, in order of position. Where it has one slot alone, the segment begins where the row
 * does. */
#ifndef DATA_BATCH_H
#define DATA_BATCH_H

#include <stdbool.h>
#include <stdint.h>

enum { BATCH_IGNORED = -100 }; /* a label without a target */

struct batch {
    int64_t rows;         /* rows of this micro-batch */
    int64_t row_tokens;   /* tokens per row */
    int64_t max_segments; /* segment slots per row */
    int32_t *tokens;      /* [rows * row_tokens]; padding holds the tokenizer's pad id */
    int32_t *labels;      /* [rows * row_tokens]; what is to be predicted at the token: the one that follows it, or the
                             token itself where it was masked; or -100 */
    int32_t *positions;   /* [rows * row_tokens]; restart at 0 in each segment; 0 on padding */
    int32_t *segment_start; /* [rows * max_segments] */
    int32_t *segment_length;
    float *scale;   /* [rows * row_tokens]; factor of each token's embedding; 1 unless token dropout sets it */
    int64_t number; /* keys random numbers of the micro-batch: no other of the training has it */
    int64_t valid;  /* labels that are not -100 */
    int64_t real;   /* tokens inside segments */
    bool full;      /* each row has one slot, and its segment is the whole row: of this micro-batch, and of those that
                       other ranks compute at the same time */
};

/* All arrays in one allocation that begins at `tokens`; every row empty (token 0, no segment, no label, scale 1). */
void batch_create(struct batch *batch, int64_t rows, int64_t row_tokens, int64_t max_segments);
/* Bytes of that allocation. */
int64_t batch_bytes(const struct batch *batch);
/* Back to empty rows; pad is the token id of padding. */
void batch_clear(struct batch *batch, int32_t pad);
/* For a batch of one row that is filled from its front, with no more tokens and segments than it needs: restart makes
 * row_tokens and max_segments 0, append adds a segment of `count` tokens without labels and returns the place of its
 * first. The room of batch_create must not be exceeded. */
void batch_restart(struct batch *batch);
int64_t batch_append(struct batch *batch, const int32_t *tokens, int64_t count);
void batch_destroy(struct batch *batch);

#endif
