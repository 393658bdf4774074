/* Which layers each stage of a pipeline has. */
#ifndef ARCHITECTURE_STAGES_H
#define ARCHITECTURE_STAGES_H

#include "architecture/settings.h"

/* Slices that the units are cut into, in all. */
static inline int stage_slices(const struct stage_cut *cut)
{
    return stage_count(cut) > 1 ? cut->stages * cut->chunks : 1;
}

/* Is the stage's chunk a slice that has another before it, or behind it? */
static inline bool stage_has_before(const struct stage_cut *cut, int chunk)
{
    return chunk * stage_count(cut) + cut->stage > 0;
}

static inline bool stage_has_next(const struct stage_cut *cut, int chunk)
{
    return chunk * stage_count(cut) + cut->stage + 1 < stage_slices(cut);
}

/* Slices that the model can be cut into, at most: each has a layer, or embedding or head where these cost anything. */
int stages_most_slices(const struct model_settings *settings);

/* layers: [slices], how many each slice has; at most stages_most_slices slices. The embedding is of the first slice and
 * the head of the last. Layers are dealt out such that slices cost as nearly the same as can be: the least sum of
 * squares; of equal ones, the later slices have more, since stages that come first keep more micro-batches. A layer
 * costs 1, embedding and head as settings->cut.deal says: DECK_STAGES_LAYERS nothing, DECK_STAGES_ENDS 1 each,
 * DECK_STAGES_COST nothing and what the head's products take beside a layer's. */
void stages_deal(const struct model_settings *settings, int *layers);

#endif
