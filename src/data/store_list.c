#include "data/store_list.h"
#include "base/error.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\n";

/* The item of a list with commas that begins at *text, without the blanks around it, freed with free(); *text becomes
 * the next item's start, NULL behind the last. */
static char *take_item(const char **text)
{
    const char *first = *text + strspn(*text, blanks), *stop = *text + strcspn(*text, ",");
    *text = *stop == ',' ? stop + 1 : NULL;
    while (stop > first && strchr(blanks, stop[-1]) != NULL)
        stop--;
    return memory_format("%.*s", stop > first ? (int)(stop - first) : 0, first);
}

static int parse_paths(struct store_list *list, const char *paths)
{
    for (const char *rest = paths; rest != NULL;) {
        if (list->count == BLEND_STORES)
            return error_user("key data.train = \"%s\": more than %d stores; prepare some of them as one", paths,
                              BLEND_STORES);
        char *path = list->paths[list->count++] = take_item(&rest);
        if (path[0] == '\0')
            return error_user("key data.train = \"%s\": store %d of the list has an empty name", paths, list->count);
    }
    return ERROR_NONE;
}

static int parse_weights(struct store_list *list, const char *weights)
{
    int count = 0;
    for (const char *rest = weights; rest != NULL; count++) {
        char *item = take_item(&rest), *end;
        double weight = strtod(item, &end);
        bool good = end != item && *end == '\0' && isfinite(weight) && weight > 0;
        int code =
            good ? ERROR_NONE : error_user("key data.weights = \"%s\": \"%s\" is no positive number", weights, item);
        free(item);
        if (code != ERROR_NONE)
            return code;
        if (count < list->count)
            list->weights[count] = weight;
    }
    if (count != list->count)
        return error_user(
            "key data.weights = \"%s\": %d weights for the %d stores of data.train; give one for each, or "
            "\"\"",
            weights, count, list->count);
    list->weighted = true;
    return ERROR_NONE;
}

int store_list_parse(struct store_list *list, const char *paths, const char *weights)
{
    *list = (struct store_list){0};
    if (weights == NULL) {
        list->paths[list->count++] = memory_string(paths);
        return ERROR_NONE;
    }
    int code = parse_paths(list, paths);
    if (code == ERROR_NONE && weights[0] != '\0')
        code = parse_weights(list, weights);
    return code;
}

void store_list_destroy(struct store_list *list)
{
    for (int d = 0; d < list->count; d++)
        free(list->paths[d]);
    list->count = 0;
}
