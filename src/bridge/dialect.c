#include "bridge/dialect.h"
#include "base/error.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define OF(name) offsetof(struct family_names, name)

/* TransformerEngine's names for the tensors of a block. */
static const struct family_tensor of_layer[] = {{OF(q), "self_attention.layernorm_qkv.", PART_QUERY},
                                                {OF(k), "self_attention.layernorm_qkv.", PART_KEY},
                                                {OF(v), "self_attention.layernorm_qkv.", PART_VALUE},
                                                {OF(o), "self_attention.proj.", PART_WHOLE},
                                                {OF(gate), "layernorm_mlp.fc1_", PART_GATE},
                                                {OF(up), "layernorm_mlp.fc1_", PART_UP},
                                                {OF(down), "layernorm_mlp.fc2_", PART_WHOLE},
                                                {OF(norm1), "self_attention.layernorm_qkv.layer_norm_", PART_WHOLE},
                                                {OF(norm2), "layernorm_mlp.layer_norm_", PART_WHOLE},
                                                {0}};

enum checkpoint_dialect dialect_of(const struct safetensors *st)
{
    for (int64_t i = 0; i < st->count; i++)
        if (strstr(st->entries[i].name, ".layernorm_qkv.") != NULL)
            return DIALECT_TE;
    return DIALECT_HF;
}

bool dialect_matches(const char *const *patterns, const char *name)
{
    for (; patterns != NULL && *patterns != NULL; patterns++)
        if (fnmatch(*patterns, name, 0) == 0)
            return true;
    return false;
}

bool dialect_ignores(const struct family *family, const char *name)
{
    static const char *const of_layers[] = {"*._extra_state", NULL};
    return dialect_matches(of_layers, name) || dialect_matches(family->te.ignored, name);
}

int64_t place_run(const struct dialect_place *place, int64_t element, int64_t *at)
{
    const int64_t row = element / place->width, column = element % place->width, inner = row % place->block;
    *at = (place->first + row / place->block * place->apart + inner) * place->width + column;
    return (place->block - inner) * place->width - column;
}

/* Returns the number of the layer in a parameter's name, and what follows it in *rest; -1: the parameter is not in a
 * layer. */
static int layer_of(const char *name, const struct family_names *names, const char **rest)
{
    const size_t before = (size_t)(strchr(names->layer, '%') - names->layer);
    int layer = 0;
    if (strncmp(name, names->layer, before) != 0 || !isdigit((unsigned char)name[before]))
        return -1;
    for (*rest = name + before; isdigit((unsigned char)**rest); (*rest)++)
        layer = 10 * layer + (**rest - '0');
    (*rest)++; /* the dot */
    return layer;
}

/* Returns the row for a name, and writes the kind of parameter; NULL: no row. */
static const struct family_tensor *find(const struct family_tensor *row, const struct family_names *names,
                                        const char *name, const char **kind)
{
    for (; row != NULL && row->name != NULL; row++) {
        const char *plain = *(const char *const *)((const char *)names + row->plain);
        const size_t length = plain == NULL ? 0 : strlen(plain);
        if (length == 0 || strncmp(name, plain, length) != 0)
            continue;
        *kind = name[length] == '\0' ? "bias" : name + length + 1;
        if (name[length] == '\0' || (name[length] == '.' && strchr(*kind, '.') == NULL))
            return row;
    }
    return NULL;
}

static void take_part(struct dialect_place *place, enum packed_part part, const struct model_settings *s,
                      int64_t token_rows)
{
    const int64_t queries = s->heads / s->kv_heads * s->head_dim, keys = s->head_dim;
    const bool gated = !s->family->gelu;
    if (part == PART_TOKENS)
        place->shape[0] = token_rows;
    if (part == PART_GATE || part == PART_UP) /* a gated family without a name for the gate has both in up */
        place->shape[0] = gated ? 2 * s->ffn : s->ffn;
    if (part == PART_UP)
        place->first = place->shape[0] - place->block;
    if (part != PART_QUERY && part != PART_KEY && part != PART_VALUE)
        return;
    place->shape[0] = (queries + 2 * keys) * s->kv_heads;
    place->first = part == PART_QUERY ? 0 : part == PART_KEY ? queries : queries + keys;
    place->block = part == PART_QUERY ? queries : keys;
    place->apart = queries + 2 * keys;
}

void dialect_place(struct dialect_place *place, enum checkpoint_dialect dialect, const struct model_settings *settings,
                   int64_t token_rows, const struct parameter *p)
{
    const struct family *family = settings->family;
    const struct family_names *names = &family->names;
    const bool matrix = p->storage == STORAGE_MATRIX;
    const int64_t rows = matrix ? p->rows : p->cols, width = matrix ? p->cols : 1;
    *place = (struct dialect_place){
        .dims = matrix ? 2 : 1, .shape = {rows, width}, .width = width, .block = rows, .apart = rows};
    snprintf(place->name, sizeof place->name, "%s", p->name);
    if (dialect == DIALECT_HF)
        return;
    const char *rest, *kind;
    const int layer = layer_of(p->name, names, &rest);
    const struct family_tensor *row =
        layer >= 0 ? find(of_layer, names, rest, &kind) : find(family->te.tensors, names, p->name, &kind);
    if (row == NULL)
        return;
    if (layer >= 0)
        snprintf(place->name, sizeof place->name, "%s%d.%s%s", family->te.layer, layer, row->name, kind);
    else
        snprintf(place->name, sizeof place->name, "%s%s", row->name, kind);
    take_part(place, row->part, settings, token_rows);
}
