/* One micro-batch in host memory, always as packed rows; a padded row is a row with one segment, and padding after it.
 * Segment s of the micro-batch covers segment_length[s] tokens from token segment_start[s] of the flattened rows. Row r
 * owns the segment slots r * max_segments .. (r + 1) * max_segments - 1, which are filled from the first one, in order
 * of position; unused slots have length 0. If max_segments is 1, the segment begins at the row's start. */
#ifndef DATA_BATCH_H
#define DATA_BATCH_H

#include <stdbool.h>
#include <stdint.h>

enum { BATCH_IGNORED = -100 }; /* label of a token without a target */

struct batch {
    int64_t rows;         /* rows of this micro-batch */
    int64_t row_tokens;   /* tokens per row */
    int64_t max_segments; /* segment slots per row */
    int32_t *tokens;      /* [rows * row_tokens]; the tokenizer's pad id on padding */
    /* [rows * row_tokens]; next token, or the original of a masked token; or BATCH_IGNORED. For a fine-tuning head: a
     * class, or with targets the slot of the segment (model/task_head.h). */
    int32_t *labels;
    int32_t *positions;     /* [rows * row_tokens]; restart at 0 in each segment; 0 on padding */
    int32_t *segment_start; /* [rows * max_segments] */
    int32_t *segment_length;
    int64_t numbers;       /* numbers of a segment's target; 0: no targets */
    float *targets;        /* [rows * max_segments, numbers]; 0 in unused slots */
    float *scale;          /* [rows * row_tokens]; factor of each token's embedding; 1 unless token dropout sets it */
    int32_t *dropout_keys; /* [rows * row_tokens]; each token's key of dropout masks (core/dropout.h); 0 unless set */
    int64_t number;        /* key of the micro-batch's random numbers, unique in the training */
    int64_t valid;         /* number of labels that are not BATCH_IGNORED */
    int64_t real;          /* tokens inside segments */
    bool full;             /* each row is one segment of full length, in all ranks' micro-batches of this round */
};

/* Allocates all arrays in one allocation that begins at `tokens`. Every row is empty (token 0, no segment, no label,
 * scale 1). */
void batch_create(struct batch *batch, int64_t rows, int64_t row_tokens, int64_t max_segments);
/* As batch_create, with targets of `numbers` numbers each. */
void batch_create_targets(struct batch *batch, int64_t rows, int64_t row_tokens, int64_t max_segments, int64_t numbers);
/* Returns the bytes of the allocation of a batch with these rows, row_tokens, max_segments and numbers. */
int64_t batch_bytes(const struct batch *batch);
/* Makes all rows empty; pad is the token id of padding. */
void batch_clear(struct batch *batch, int32_t pad);
/* For a batch of one row that grows as needed. batch_restart sets row_tokens and max_segments to 0; batch_append adds a
 * segment of `count` tokens without labels and returns the index of its first token. The sizes given to batch_create
 * must not be exceeded. */
void batch_restart(struct batch *batch);
int64_t batch_append(struct batch *batch, const int32_t *tokens, int64_t count);
/* Adds padding, token `pad` outside of segments, up to row_tokens = `tokens`, which must not be exceeded before. */
void batch_pad(struct batch *batch, int32_t pad, int64_t tokens);
void batch_destroy(struct batch *batch);

#endif
