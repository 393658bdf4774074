#include "model/recompute.h"
#include "base/error.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { POLICIES = DECK_RECOMPUTE_FULL + 1 };

static const char *const names[] = {DECK_RECOMPUTE_NAMES};
_Static_assert(sizeof names / sizeof names[0] == POLICIES, "each policy has a name");

/* Where a policy and its colon stand, moves *at behind them and sets *policy; otherwise leaves both. */
static void read_policy(const char **at, int *policy)
{
    const char *word = *at + strspn(*at, " "), *end = word;
    while (isalpha((unsigned char)*end) || *end == '_')
        end++;
    const char *colon = end + strspn(end, " ");
    for (int p = 0; p < POLICIES && *colon == ':'; p++) {
        if (strlen(names[p]) == (size_t)(end - word) && strncmp(word, names[p], (size_t)(end - word)) == 0) {
            *policy = p;
            *at = colon + 1;
        }
    }
}

/* Adds a range to a policy's layers. */
static int add_range(struct recompute *r, int policy, int64_t first, int64_t last, int64_t layers, const char *list)
{
    if (first < 1 || last > layers)
        return error_user("key memory.recompute_layers = \"%s\": layers are 1 to %lld, by model.layers", list,
                          (long long)layers);
    struct layer_list *own = &r->layers[policy];
    if (own->count == LAYER_RANGES)
        return error_user("key memory.recompute_layers = \"%s\": the layers of %s are more than %d ranges; name fewer",
                          list, names[policy], LAYER_RANGES);
    for (int64_t layer = first - 1; layer < last; layer++)
        for (int p = 0; p < POLICIES; p++)
            if (layer_list_has(&r->layers[p], (int)layer))
                return error_user("key memory.recompute_layers = \"%s\": layer %lld is named twice", list,
                                  (long long)layer + 1);
    own->ranges[own->count].first = (int)first - 1;
    own->ranges[own->count++].last = (int)last - 1;
    return ERROR_NONE;
}

static int64_t named_layers(const struct recompute *r)
{
    int64_t count = 0;
    for (int p = 0; p < POLICIES; p++)
        for (int i = 0; i < r->layers[p].count; i++)
            count += r->layers[p].ranges[i].last - r->layers[p].ranges[i].first + 1;
    return count;
}

int recompute_from_deck(struct recompute *r, const struct deck *deck, int64_t layers)
{
    const char *list = deck->memory.recompute_layers, *at = list + strspn(list, " ");
    const bool fit = deck->memory.recompute == DECK_RECOMPUTE_FIT, named = *at != '\0';
    int policy = -1, code = ERROR_NONE;
    *r = (struct recompute){.others = fit ? DECK_RECOMPUTE_NORMS : (enum deck_recompute)deck->memory.recompute};
    while (*at != '\0' && code == ERROR_NONE) {
        int64_t first, last;
        read_policy(&at, &policy);
        if (policy < 0 || !layer_range_read(&at, &first, &last) || (*at != ',' && *at != '\0') ||
            (*at == ',' && at[1] == '\0'))
            return error_user("key memory.recompute_layers = \"%s\": must be policies of memory.recompute and their "
                              "layers, counted from 1, such as \"full:1-8,qkv:9-12,20\"; \"\" for none",
                              list);
        code = add_range(r, policy, first, last, layers, list);
        at += *at == ',';
    }
    if (code == ERROR_NONE && fit && named && named_layers(r) < layers)
        return error_user("key memory.recompute_layers = \"%s\": with memory.recompute = \"fit\" it names all %lld "
                          "layers, as such a run writes it, or is \"\"",
                          list, (long long)layers);
    return code;
}

enum deck_recompute recompute_of(const struct recompute *r, int layer)
{
    for (int p = 0; p < POLICIES; p++)
        if (layer_list_has(&r->layers[p], layer))
            return (enum deck_recompute)p;
    return r->others;
}

/* Appends "full:1-8" or "full:8" to a list, unless last < first. */
static void append(char *list, size_t bytes, int policy, int64_t first, int64_t last)
{
    const size_t at = strlen(list);
    if (first <= last)
        snprintf(list + at, bytes - at, "%s%s:%lld", at > 0 ? "," : "", names[policy], (long long)first);
    const size_t end = strlen(list);
    if (first < last)
        snprintf(list + end, bytes - end, "-%lld", (long long)last);
}

void recompute_print(char *list, size_t bytes, enum deck_recompute policy, int64_t count, int64_t layers)
{
    list[0] = '\0';
    append(list, bytes, (int)policy, 1, count);
    append(list, bytes, (int)policy - 1, count + 1, layers);
}
