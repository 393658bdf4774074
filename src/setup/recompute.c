#include "setup/recompute.h"
#include "deck/fields.h"
#include "base/error.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { POLICIES = DECK_RECOMPUTE_FULL + 1 };

static const char *const names[] = {DECK_RECOMPUTE_NAMES};
_Static_assert(sizeof names / sizeof names[0] == POLICIES, "each policy has a name");

/* If a policy and its colon stand at *at, moves *at past them and sets *policy; otherwise changes neither. */
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

/* A key of the deck that names layers, to be read into lists[count]: one list for each policy, or one list if the key
 * names no policies. */
struct key {
    const char *name, *list, *allowed;
    int64_t layers; /* layers of the model */
    struct layer_list *lists;
    int count;
};

static int add_range(const struct key *key, int policy, int64_t first, int64_t last)
{
    struct layer_list *own = &key->lists[policy];
    if (first < 1 || last > key->layers)
        return error_user("key %s = \"%s\": layers are 1 to %lld, by model.layers", key->name, key->list,
                          (long long)key->layers);
    if (own->count == LAYER_RANGES)
        return error_user("key %s = \"%s\": more than %d ranges of layers; name fewer", key->name, key->list,
                          LAYER_RANGES);
    for (int64_t layer = first - 1; layer < last; layer++)
        for (int p = 0; p < key->count; p++)
            if (layer_list_has(&key->lists[p], (int)layer))
                return error_user("key %s = \"%s\": layer %lld is named twice", key->name, key->list,
                                  (long long)layer + 1);
    own->ranges[own->count].first = (int)first - 1;
    own->ranges[own->count++].last = (int)last - 1;
    return ERROR_NONE;
}

static int read_list(const struct key *key)
{
    const char *at = key->list + strspn(key->list, " ");
    int policy = key->count > 1 ? -1 : 0, code = ERROR_NONE;
    while (*at != '\0' && code == ERROR_NONE) {
        int64_t first, last;
        if (key->count > 1)
            read_policy(&at, &policy);
        if (policy < 0 || !layer_range_read(&at, &first, &last) || (*at != ',' && *at != '\0') ||
            (*at == ',' && at[1] == '\0'))
            return error_user("key %s = \"%s\": must be %s; \"\" for none", key->name, key->list, key->allowed);
        code = add_range(key, policy, first, last);
        at += *at == ',';
    }
    return code;
}

static int64_t named_layers(const struct recompute *r)
{
    int64_t count = 0;
    for (int p = 0; p < POLICIES; p++)
        for (int i = 0; i < r->layers[p].count; i++)
            count += r->layers[p].ranges[i].last - r->layers[p].ranges[i].first + 1;
    return count;
}

static bool named(const char *list)
{
    return list[strspn(list, " ")] != '\0';
}

int recompute_from_deck(struct recompute *r, const struct deck *deck, int64_t layers)
{
    const bool fit = deck->memory.recompute == DECK_RECOMPUTE_FIT;
    const char *own = deck->memory.recompute_layers, *list = fit ? deck->memory.fitted_layers : own;
    const struct key policies = {
        fit ? "memory.fitted_layers" : "memory.recompute_layers",
        list,
        "policies of memory.recompute with their layers, counted from 1, such as \"full:1-8,qkv:9-12,20\"",
        layers,
        r->layers,
        POLICIES};
    const bool chosen = fit && !named(deck->memory.offload_layers);
    const struct key offloaded = {
        chosen ? "memory.fitted_offload" : "memory.offload_layers",
        chosen ? deck->memory.fitted_offload : deck->memory.offload_layers,
        "layers and ranges of layers, counted from 1 and separated by commas, such as \"1-8,20\"",
        layers,
        &r->offloaded,
        1};
    *r = (struct recompute){.others = fit ? DECK_RECOMPUTE_NORMS : (enum deck_recompute)deck->memory.recompute};
    if (fit && named(own))
        return error_user("key memory.recompute_layers = \"%s\": memory.recompute = \"fit\" chooses a policy for every "
                          "layer; to use this list, set memory.recompute to a policy",
                          own);
    int code = read_list(&policies);
    if (code == ERROR_NONE && fit && named(list) && named_layers(r) < layers)
        code =
            error_user("key memory.fitted_layers = \"%s\": must name all %lld layers, as a run writes it, or be \"\"",
                       list, (long long)layers);
    return code == ERROR_NONE ? read_list(&offloaded) : code;
}

void recompute_print_offloaded(char *list, size_t bytes, int64_t count, int64_t every)
{
    list[0] = '\0';
    if (every == 1 && count > 1) {
        snprintf(list, bytes, "1-%lld", (long long)count);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const size_t at = strlen(list);
        snprintf(list + at, bytes - at, "%s%lld", i > 0 ? "," : "", (long long)(1 + i * every));
    }
}

/* Appends "full:1-8", or "full:8" for one layer, to a list; nothing if last < first. */
static void append(char *list, size_t bytes, int policy, int64_t first, int64_t last)
{
    const size_t at = strlen(list);
    if (first <= last)
        snprintf(list + at, bytes - at, "%s%s:%lld", at > 0 ? "," : "", names[policy], (long long)first);
    const size_t end = strlen(list);
    if (first < last)
        snprintf(list + end, bytes - end, "-%lld", (long long)last);
}

void recompute_print(char *list, size_t bytes, enum deck_recompute policy, int64_t count, enum deck_recompute milder,
                     int64_t layers)
{
    list[0] = '\0';
    append(list, bytes, (int)policy, 1, count);
    append(list, bytes, (int)milder, count + 1, layers);
}
