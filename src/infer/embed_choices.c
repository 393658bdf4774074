#include "infer/embed_choices.h"
#include "architecture/layer_list.h"
#include "base/error.h"
#include "base/memory.h"

#include <string.h>

/* Returns the index of a name, -1 for none. */
static int find(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* Adds layers first .. last. Returns false if one is in the list already. */
static bool add_layers(struct embed_choices *choices, int64_t first, int64_t last)
{
    for (int64_t layer = first; layer <= last; layer++) {
        for (int64_t i = 0; i < choices->layer_count; i++)
            if (choices->layers[i] == layer)
                return false;
        choices->layers[choices->layer_count++] = layer;
    }
    return true;
}

static int read_layers(struct embed_choices *choices, const char *text, int64_t most)
{
    const char *at = text;
    do {
        int64_t first, last;
        at += at > text; /* the comma */
        const bool from_end = *at == '-';
        at += from_end;
        if (!layer_range_read(&at, &first, &last) || (*at != ',' && *at != '\0') || (from_end && first != last))
            return error_user("--layers %s: must be numbers and ranges, such as 0,6-8, or -1 for the last, or all",
                              text);
        if (from_end)
            first = last = most + 1 - first;
        if (first < 0 || first > last || last > most)
            return error_user("--layers %s: must be of 0 (the embedding) to %lld (the model's last layer)", text,
                              (long long)most);
        if (!add_layers(choices, first, last))
            return error_user("--layers %s: names a layer twice", text);
    } while (*at == ',');
    return ERROR_NONE;
}

int embed_choices_read(struct embed_choices *choices, const char *pool, const char *dtype, const char *layers,
                       int64_t model_layers)
{
    const int pool_found = find(embeddings_pool_names, EMBEDDINGS_POOLS, pool);
    const int dtype_found = find(embeddings_dtype_names, EMBEDDINGS_DTYPES, dtype);
    *choices = (struct embed_choices){.pool = (enum embeddings_pool)pool_found,
                                      .dtype = (enum embeddings_dtype)dtype_found,
                                      .layers = memory_allocate((model_layers + 1) * (int64_t)sizeof(int64_t)),
                                      .listed = layers != NULL};
    if (pool_found < 0)
        return error_user("--pool %s: must be mean (over the residues), first (the begin token), last (the last token) "
                          "or none (every token)",
                          pool);
    if (dtype_found < 0)
        return error_user("--dtype %s: must be f32 or f16", dtype);
    if (layers == NULL || strcmp(layers, "all") == 0)
        add_layers(choices, layers == NULL ? model_layers : 0, model_layers);
    else
        return read_layers(choices, layers, model_layers);
    return ERROR_NONE;
}

void embed_choices_destroy(struct embed_choices *choices)
{
    memory_free(choices->layers);
    choices->layers = NULL;
}
