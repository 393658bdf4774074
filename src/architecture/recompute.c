#include "architecture/recompute.h"

enum deck_recompute recompute_of(const struct recompute *r, int layer)
{
    for (int p = 0; p <= DECK_RECOMPUTE_FULL; p++)
        if (layer_list_has(&r->layers[p], layer))
            return (enum deck_recompute)p;
    return r->others;
}

enum deck_recompute recompute_next(enum deck_recompute policy, bool gelu)
{
    const int left_out = gelu ? DECK_RECOMPUTE_ONLY_NORMS : DECK_RECOMPUTE_ACTIVATION; /* "norms" is both */
    const int next = (int)policy + 1;
    return (enum deck_recompute)(next == left_out ? next + 1 : next);
}
