#include "architecture/layer_list.h"

#include <ctype.h>
#include <string.h>

bool layer_list_has(const struct layer_list *list, int layer)
{
    for (int i = 0; i < list->count; i++)
        if (layer >= list->ranges[i].first && layer <= list->ranges[i].last)
            return true;
    return false;
}

/* Reads a number with blanks around it; returns false if there is none. */
static bool read_number(const char **at, int64_t *number)
{
    const char *digit = *at + strspn(*at, " ");
    if (!isdigit((unsigned char)*digit))
        return false;
    for (*number = 0; isdigit((unsigned char)*digit); digit++)
        *number = *number < INT32_MAX ? *number * 10 + (*digit - '0') : *number;
    *at = digit + strspn(digit, " ");
    return true;
}

bool layer_range_read(const char **at, int64_t *first, int64_t *last)
{
    if (!read_number(at, first))
        return false;
    *last = *first;
    if (**at == '-') {
        ++*at;
        if (!read_number(at, last) || *last < *first)
            return false;
    }
    return true;
}
