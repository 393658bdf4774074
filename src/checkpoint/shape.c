#include "checkpoint/shape.h"

#include <stdio.h>

const char *shape_text(char out[SHAPE_TEXT], const int64_t *shape, int dims)
{
    int used = snprintf(out, SHAPE_TEXT, "[");
    for (int i = 0; i < dims; i++)
        used += snprintf(out + used, (size_t)(SHAPE_TEXT - used), "%s%lld", i > 0 ? ", " : "", (long long)shape[i]);
    snprintf(out + used, (size_t)(SHAPE_TEXT - used), "]");
    return out;
}
