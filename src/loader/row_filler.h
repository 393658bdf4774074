/* Fills rows of batches: the tokens of the segments that the packer puts into a row, with their labels, masks and the
 * factors of token dropout. */
#ifndef LOADER_ROW_FILLER_H
#define LOADER_ROW_FILLER_H

#include "data/batch.h"
#include "loader/packer.h"

#include <stdbool.h>
#include <stdint.h>

/* Of struct loader_settings (loader/loader.h), and the one tokenizer of all sources, borrowed. */
struct row_filler_settings {
    const struct tokenizer *tokenizer;
    uint64_t seed;
    int64_t row_tokens;
    double mask_probability;
    bool token_dropout, mask_degenerate, uppercase_labels;
};

struct row_filler {
    struct row_filler_settings settings;
    int32_t *window_tokens; /* [row_tokens + 1], of the segment being read and one more */
    int32_t *label_of;      /* [vocabulary]: what a base is as a label; NULL where all tokens stay */
};

/* row_filler_destroy also takes one that is all zero. */
void row_filler_create(struct row_filler *filler, const struct row_filler_settings *settings);
void row_filler_destroy(struct row_filler *filler);

/* Back to empty rows. */
void row_filler_clear(const struct row_filler *filler, struct batch *batch);

/* Writes segments[count] into an empty row. Of the windows' stores: sources that read them, and keys of their epochs
 * (struct blend_position). */
void row_filler_fill(struct row_filler *filler, const struct window_source *const *sources, const int64_t *keys,
                     const struct packer_segment *segments, int64_t count, struct batch *batch, int64_t row);

#endif
