/* Assigns layers to the stages of a pipeline. */
#ifndef ARCHITECTURE_STAGES_H
#define ARCHITECTURE_STAGES_H

#include "architecture/settings.h"

/* Returns the number of slices of the model, over all stages. */
static inline int stage_slices(const struct pipeline_parallel *pipeline)
{
    return stage_count(pipeline) > 1 ? pipeline->stages * pipeline->chunks : 1;
}

/* Return whether the slice of the stage's chunk has another slice before it; after it. */
static inline bool stage_has_before(const struct pipeline_parallel *pipeline, int chunk)
{
    return chunk * stage_count(pipeline) + pipeline->stage > 0;
}

static inline bool stage_has_next(const struct pipeline_parallel *pipeline, int chunk)
{
    return chunk * stage_count(pipeline) + pipeline->stage + 1 < stage_slices(pipeline);
}

/* Returns the maximum number of slices: each has a layer, or the embedding or head if these have a cost. */
int stages_most_slices(const struct model_settings *settings);

/* Writes the number of layers of each slice to layers [slices]; at most stages_most_slices slices. The first slice also
 * has the embedding, and the last the head. Layers are assigned so that slices cost as nearly the same as possible: the
 * smallest sum of squares, and among equal ones more layers in later slices, since earlier stages keep more
 * micro-batches. A layer costs 1. settings->pipeline.balance sets the cost of embedding and head: DECK_STAGES_LAYERS 0,
 * DECK_STAGES_ENDS 1 each, DECK_STAGES_COST 0 for the embedding, and for the head that of its GEMMs relative to a
 * layer's. */
void stages_balance(const struct model_settings *settings, int *layers);

#endif
