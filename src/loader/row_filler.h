/* Fills rows of batches: tokens of the segments that the packer has put into a row, labels, masks, and factors of token
 * dropout. */
#ifndef LOADER_ROW_FILLER_H
#define LOADER_ROW_FILLER_H

#include "architecture/settings.h"
#include "data/batch.h"
#include "loader/packer.h"

#include <stdbool.h>
#include <stdint.h>

/* Settings as in struct loader_settings (loader/loader.h). All sources share the tokenizer, which is borrowed. */
struct row_filler_settings {
    const struct tokenizer *tokenizer;
    uint64_t seed;
    int64_t row_tokens;
    double mask_probability, reverse_complement;
    bool token_dropout, dropout_keys, mask_degenerate, uppercase_labels;
    struct task_settings task;
};

struct row_filler {
    struct row_filler_settings settings;
    int32_t *window_tokens; /* [row_tokens + 1] tokens of the current segment and the token after it */
    int32_t *label_of;      /* [vocabulary] label of each token; NULL: labels equal tokens */
};

/* row_filler_destroy also accepts a zero-initialised filler. */
void row_filler_create(struct row_filler *filler, const struct row_filler_settings *settings);
void row_filler_destroy(struct row_filler *filler);

/* Makes all rows empty. */
void row_filler_clear(const struct row_filler *filler, struct batch *batch);

/* Writes segments[count] into an empty row. sources and keys are indexed by store: the source of the windows, and the
 * store's key for blend_epoch (struct blend_position). */
void row_filler_fill(struct row_filler *filler, const struct window_source *const *sources, const int64_t *keys,
                     const struct packer_segment *segments, int64_t count, struct batch *batch, int64_t row);

#endif
