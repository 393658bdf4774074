#include "model/precision.h"

static bool has(const struct layer_list *list, int layer)
{
    for (int i = 0; i < list->count; i++)
        if (layer >= list->ranges[i].first && layer <= list->ranges[i].last)
            return true;
    return false;
}

const struct linear_precision *precision_of(const struct precision *precision, int layer, int linear)
{
    enum precision_kind kind = PRECISION_COMPUTE;
    if (precision->linears[linear])
        kind = has(&precision->four, layer)    ? PRECISION_FOUR
               : has(&precision->eight, layer) ? PRECISION_EIGHT
                                               : PRECISION_COMPUTE;
    return &precision->kinds[kind];
}

bool precision_quantizes(const struct precision *precision)
{
    return precision->eight.count > 0 || precision->four.count > 0;
}

bool precision_delays(const struct precision *precision)
{
    return precision->kinds[PRECISION_EIGHT].delayed && precision->eight.count > 0;
}
