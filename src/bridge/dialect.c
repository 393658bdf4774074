#include "bridge/dialect.h"
#include "base/error.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What a parameter is of its tensor. */
enum dialect_part { WHOLE, QUERY, KEY, VALUE, GATE, UP, TOKENS };

/* "weight" or "bias" follows both names; a name of Hugging Face's may also be a whole one, of a bias. */
struct renamed {
    size_t plain; /* offset in struct family_names */
    const char *name;
    enum dialect_part part;
};

#define OF(name) offsetof(struct family_names, name)

static const struct renamed of_layer[] = {
    {OF(q), "self_attention.layernorm_qkv.", QUERY}, {OF(k), "self_attention.layernorm_qkv.", KEY},
    {OF(v), "self_attention.layernorm_qkv.", VALUE}, {OF(o), "self_attention.proj.", WHOLE},
    {OF(gate), "layernorm_mlp.fc1_", GATE},          {OF(up), "layernorm_mlp.fc1_", UP},
    {OF(down), "layernorm_mlp.fc2_", WHOLE},         {OF(norm1), "self_attention.layernorm_qkv.layer_norm_", WHOLE},
    {OF(norm2), "layernorm_mlp.layer_norm_", WHOLE}, {0, NULL, WHOLE}};
/* A Llama's other tensors are those of Hugging Face. */
static const struct renamed of_llama[] = {{0, NULL, WHOLE}};
static const struct renamed of_esm2[] = {{OF(embedding), "model.embeddings.word_embeddings.", TOKENS},
                                         {OF(final_norm), "model.encoder.emb_layer_norm_after.", WHOLE},
                                         {OF(dense), "lm_head.dense.", WHOLE},
                                         {OF(head_norm), "lm_head.decoder.layer_norm_", WHOLE},
                                         {OF(decoder), "lm_head.decoder.", TOKENS},
                                         {OF(decoder_bias), "lm_head.decoder.", TOKENS},
                                         {0, NULL, WHOLE}};
static const struct renamed of_amplify[] = {{OF(embedding), "amplify.encoder.", TOKENS},
                                            {OF(final_norm), "decoder.layer_norm_", WHOLE},
                                            {OF(decoder), "decoder.", TOKENS},
                                            {0, NULL, WHOLE}};
static const struct {
    const char *layer; /* its number and a point follow */
    const struct renamed *rest;
} families[FAMILY_COUNT] = {
    [FAMILY_LLAMA] = {"model.layers.", of_llama},
    [FAMILY_ESM2] = {"model.encoder.layers.", of_esm2},
    [FAMILY_AMPLIFY] = {"amplify.transformer_encoder.", of_amplify},
};

enum checkpoint_dialect dialect_of(const struct safetensors *st)
{
    for (int64_t i = 0; i < st->count; i++)
        if (strstr(st->entries[i].name, ".layernorm_qkv.") != NULL)
            return DIALECT_TE;
    return DIALECT_HF;
}

bool dialect_ignores(const char *name)
{
    static const char *const ignored[] = {"*._extra_state", "model.pooler.*", "esm.pooler.*", NULL};
    for (const char *const *pattern = ignored; *pattern != NULL; pattern++)
        if (fnmatch(*pattern, name, 0) == 0)
            return true;
    return false;
}

int64_t place_run(const struct dialect_place *place, int64_t element, int64_t *at)
{
    const int64_t row = element / place->width, column = element % place->width, inner = row % place->block;
    *at = (place->first + row / place->block * place->apart + inner) * place->width + column;
    return (place->block - inner) * place->width - column;
}

/* The number of the layer that the name begins with, and what follows it; -1: it is none of a layer. */
static int layer_of(const char *name, const struct family_names *names, const char **rest)
{
    const size_t before = (size_t)(strchr(names->layer, '%') - names->layer);
    int layer = 0;
    if (strncmp(name, names->layer, before) != 0 || !isdigit((unsigned char)name[before]))
        return -1;
    for (*rest = name + before; isdigit((unsigned char)**rest); (*rest)++)
        layer = 10 * layer + (**rest - '0');
    (*rest)++; /* the point */
    return layer;
}

/* The row for a name, and which kind of parameter it is; NULL: none. */
static const struct renamed *find(const struct renamed *row, const struct family_names *names, const char *name,
                                  const char **kind)
{
    for (; row->name != NULL; row++) {
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

static void take_part(struct dialect_place *place, enum dialect_part part, const struct model_settings *s,
                      int64_t token_rows)
{
    const int64_t queries = s->heads / s->kv_heads * s->head_dim, keys = s->head_dim;
    const bool gated = !family_of(s->family)->gelu;
    if (part == TOKENS)
        place->shape[0] = token_rows;
    if (part == GATE || part == UP) /* of AMPLIFY one parameter is both */
        place->shape[0] = gated ? 2 * s->ffn : s->ffn;
    if (part == UP)
        place->first = place->shape[0] - place->block;
    if (part != QUERY && part != KEY && part != VALUE)
        return;
    place->shape[0] = (queries + 2 * keys) * s->kv_heads;
    place->first = part == QUERY ? 0 : part == KEY ? queries : queries + keys;
    place->block = part == QUERY ? queries : keys;
    place->apart = queries + 2 * keys;
}

void dialect_place(struct dialect_place *place, enum checkpoint_dialect dialect, const struct model_settings *settings,
                   int64_t token_rows, const struct parameter *p)
{
    const struct family_names *names = &family_of(settings->family)->names;
    const bool matrix = p->storage == STORAGE_MATRIX;
    const int64_t rows = matrix ? p->rows : p->cols, width = matrix ? p->cols : 1;
    *place = (struct dialect_place){
        .dims = matrix ? 2 : 1, .shape = {rows, width}, .width = width, .block = rows, .apart = rows};
    snprintf(place->name, sizeof place->name, "%s", p->name);
    if (dialect == DIALECT_HF)
        return;
    const char *rest, *kind;
    const int layer = layer_of(p->name, names, &rest);
    const struct renamed *row =
        layer >= 0 ? find(of_layer, names, rest, &kind) : find(families[settings->family].rest, names, p->name, &kind);
    if (row == NULL)
        return;
    if (layer >= 0)
        snprintf(place->name, sizeof place->name, "%s%d.%s%s", families[settings->family].layer, layer, row->name,
                 kind);
    else
        snprintf(place->name, sizeof place->name, "%s%s", row->name, kind);
    take_part(place, row->part, settings, token_rows);
}
