#include "base/error.h"
#include "base/memory.h"
#include "bridge/config.h"
#include "bridge/config_table.h"
#include "bridge/json_file.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int64_t config_extra_positions(enum model_family family)
{
    return config_families[DIALECT_HF][family].extra_positions;
}

const char *config_classes(enum model_family family, const char **module)
{
    *module = config_te_classes[family].module;
    return config_te_classes[family].file;
}

/* AMPLIFY's rule: two thirds, up to the next multiple of 8. */
int64_t config_amplify_ffn(int64_t intermediate)
{
    return (2 * intermediate / 3 + 7) / 8 * 8;
}

/* An intermediate_size that has this ffn: the published four widths where they do. */
static int64_t amplify_intermediate(const struct model_settings *s)
{
    int64_t published = 4 * s->hidden;
    return config_amplify_ffn(published) == s->ffn ? published : s->ffn / 2 * 3;
}

/* -- What the classes cannot say ---------------------------------------------------------------------------------- */

static int check_size(const char *architecture, const char *key, int64_t value, int64_t wanted, const char *why)
{
    if (value == wanted)
        return ERROR_NONE;
    return error_user("key model.%s = %lld: %s %s, it can only be %lld there", key, (long long)value, architecture, why,
                      (long long)wanted);
}

int config_check(const struct model_settings *s, enum checkpoint_dialect dialect)
{
    const char *architecture = config_families[dialect][s->family].architecture;
    if (s->hidden % s->heads != 0)
        return error_user("key model.heads = %lld: transformers wants a divisor of model.hidden = %lld",
                          (long long)s->heads, (long long)s->hidden);
    if (s->norm_zero_centered)
        return error_user("key model.norm_zero_centered = true: %s keeps gains of norms themselves", architecture);
    if (s->family != FAMILY_ESM2 && s->rope.rounding != DECK_ROUNDING_NONE)
        return error_user("key model.rope_rounding: %s computes with frequencies that are not rounded", architecture);
    if (s->family == FAMILY_LLAMA && dialect == DIALECT_HF)
        return ERROR_NONE;
    int code = check_size(architecture, "head_dim", s->head_dim, s->hidden / s->heads, "has no head size of its own");
    if (s->family == FAMILY_LLAMA || code != ERROR_NONE)
        return code;
    const struct tokenizer *tokenizer = tokenizer_find(family_of(s->family)->tokenizer);
    code = check_size(architecture, "kv_heads", s->kv_heads, s->heads, "has no grouped heads");
    if (code == ERROR_NONE)
        code = check_size(architecture, "vocabulary", s->vocabulary, tokenizer->vocabulary, "has its own tokenizer");
    if (code == ERROR_NONE && s->rope.factor > 1)
        code = error_user("key model.rope_scaling.factor = %g: %s knows no rescaling", s->rope.factor, architecture);
    if (code == ERROR_NONE && (s->family == FAMILY_AMPLIFY || dialect == DIALECT_TE) && s->rope.theta != 10000)
        code = error_user("key model.rope_theta = %g: %s has 10000", s->rope.theta, architecture);
    if (code != ERROR_NONE || s->family == FAMILY_ESM2)
        return code;
    if (s->ffn % 8 != 0)
        return error_user("key model.ffn = %lld: AMPLIFY makes it a multiple of 8", (long long)s->ffn);
    if (s->tied)
        return error_user("key model.tied = \"yes\": AMPLIFY's decoder is a matrix of its own");
    return ERROR_NONE;
}

/* -- Writing ------------------------------------------------------------------------------------------------------ */

/* A deck for the tables. */
static void state(struct deck *deck, const struct model_settings *s, int64_t positions)
{
    deck_defaults(deck);
    model_settings_to_deck(s, deck);
    deck->model.positions = positions;
    if (s->family == FAMILY_AMPLIFY)
        deck->model.ffn = amplify_intermediate(s);
}

static void put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static void put_fixed(json_t *out, const struct config_fixed *row)
{
    for (; row->key != NULL; row++)
        put(out, row->key, json_loads(row->allowed, JSON_DECODE_ANY, NULL));
}

static void put_table(json_t *out, const struct config_family *family, const struct deck *deck)
{
    put_fixed(out, family->fixed);
    put_fixed(out, family->more);
    for (const struct config_number *row = family->sizes; row->key != NULL; row++)
        put(out, row->key, json_integer(*(const int64_t *)((const char *)deck + row->offset)));
    for (const struct config_number *row = family->reals; row->key != NULL; row++)
        put(out, row->key, json_real(*(const double *)((const char *)deck + row->offset)));
}

/* Llama 3's scaling, or the object that says there is none. */
static json_t *rope_object(const struct rope_settings *rope)
{
    json_t *out = json_object();
    put(out, "rope_type", json_string(rope->factor > 1 ? "llama3" : "default"));
    if (rope->factor > 1) {
        put(out, "factor", json_real(rope->factor));
        put(out, "low_freq_factor", json_real(rope->low));
        put(out, "high_freq_factor", json_real(rope->high));
        put(out, "original_max_position_embeddings", json_integer(rope->original));
    }
    return out;
}

/* An id, or null. */
static json_t *id_of(const struct tokenizer *tokenizer, int32_t id)
{
    return tokenizer == NULL || id < 0 ? json_null() : json_integer(id);
}

/* eos_token_id: the model's own, or the tokenizer's. */
static json_t *ends_of(const struct end_tokens *own, const struct tokenizer *tokenizer)
{
    if (own->count == 0)
        return id_of(tokenizer, tokenizer == NULL ? 0 : tokenizer->eos);
    json_t *list = json_array();
    for (int i = 0; i < own->count; i++)
        json_array_append_new(list, json_integer(own->ids[i]));
    if (own->count > 1)
        return list;
    json_t *only = json_incref(json_array_get(list, 0));
    json_decref(list);
    return only;
}

static void put_llama(json_t *out, const struct model_settings *s, const struct tokenizer *tokenizer,
                      const struct model_ends *ends)
{
    json_t *rope = rope_object(&s->rope);
    put(out, "rope_theta", json_real(s->rope.theta)); /* as transformers 4 spells it, and then as 5 does */
    put(out, "rope_scaling", s->rope.factor > 1 ? json_copy(rope) : json_null());
    put(rope, "rope_theta", json_real(s->rope.theta));
    put(out, "rope_parameters", rope);
    put(out, "tie_word_embeddings", json_boolean(s->tied));
    put(out, "attention_dropout", json_real(0));
    put(out, "use_cache", json_true());
    put(out, "bos_token_id", id_of(tokenizer, tokenizer == NULL ? 0 : tokenizer->bos));
    put(out, "eos_token_id", ends_of(&ends->config, tokenizer));
    put(out, "pad_token_id", id_of(tokenizer, tokenizer == NULL ? 0 : tokenizer->pad));
}

static void put_esm2(json_t *out, const struct model_settings *s, enum checkpoint_dialect dialect)
{
    if (s->tanh_gelu && dialect == DIALECT_HF)
        put(out, config_gelu, json_string("tanh"));
    put(out, "token_dropout", json_boolean(s->token_dropout));
    put(out, "tie_word_embeddings", json_boolean(s->tied));
    put(out, "hidden_dropout_prob", json_real(0));
    put(out, "attention_probs_dropout_prob", json_real(0));
}

/* Its classes are no part of transformers: auto_map names where they are published. */
static void put_amplify(json_t *out, const struct model_settings *s)
{
    const struct tokenizer *tokenizer = tokenizer_find(family_of(FAMILY_AMPLIFY)->tokenizer);
    put(out, "embedding_init_range", json_real(s->init_std));
    put(out, "dropout_prob", json_integer(0));
    put(out, "bos_token_id", json_integer(tokenizer->bos));
    put(out, "eos_token_id", json_integer(tokenizer->eos));
    put(out, "mask_token_id", json_integer(tokenizer->mask));
    put(out, "unk_token_id", json_integer(tokenizer->unk));
    put(out, "auto_map",
        json_pack("{s:s, s:s}", "AutoConfig", "chandar-lab/AMPLIFY_120M--amplify.AMPLIFYConfig", "AutoModel",
                  "chandar-lab/AMPLIFY_120M--amplify.AMPLIFY"));
}

static void put_te(json_t *out, const struct model_settings *s)
{
    const struct config_classes *classes = &config_te_classes[s->family];
    const char *const names[][2] = {{"AutoConfig", classes->config},
                                    {"AutoModel", classes->model},
                                    {classes->automatic, config_families[DIALECT_TE][s->family].architecture}};
    json_t *map = json_object();
    for (int i = 0; i < 3; i++)
        put(map, names[i][0], json_sprintf("%s.%s", classes->module, names[i][1]));
    put(out, "auto_map", map);
    if (s->family != FAMILY_LLAMA)
        put(out, "padded_vocab_size", json_integer(s->vocabulary));
    if (s->family == FAMILY_ESM2)
        put(out, "add_pooling_layer", json_false());
}

static int write_generation(const struct tokenizer *tokenizer, const struct model_ends *ends, const char *folder)
{
    char *path = memory_format("%s/generation_config.json", folder);
    const struct end_tokens *own = ends->generation.count > 0 ? &ends->generation : &ends->config;
    json_t *out = json_pack("{s:o, s:o, s:o}", "bos_token_id", id_of(tokenizer, tokenizer == NULL ? 0 : tokenizer->bos),
                            "eos_token_id", ends_of(own, tokenizer), "pad_token_id",
                            id_of(tokenizer, tokenizer == NULL ? 0 : tokenizer->pad));
    int code = json_file_write(out, path);
    free(path);
    return code;
}

int config_write(const struct model_settings *s, enum checkpoint_dialect dialect, int64_t positions,
                 const struct tokenizer *tokenizer, const struct model_ends *ends, const char *dtype,
                 const char *folder)
{
    const struct config_family *family = &config_families[dialect][s->family];
    struct deck *deck = memory_allocate(sizeof *deck);
    json_t *out = json_object();
    state(deck, s, positions);
    put(out, "architectures", json_pack("[s]", family->architecture));
    put(out, "model_type", json_string(family->model_type));
    put(out, "dtype", json_string(dtype)); /* transformers 5 */
    put(out, "torch_dtype", json_string(dtype));
    put_table(out, family, deck);
    if (s->family == FAMILY_LLAMA)
        put_llama(out, s, tokenizer, ends);
    else if (s->family == FAMILY_ESM2)
        put_esm2(out, s, dialect);
    else
        put_amplify(out, s);
    if (dialect == DIALECT_TE)
        put_te(out, s);
    char *path = memory_format("%s/config.json", folder);
    int code = json_file_write(out, path);
    if (code == ERROR_NONE && s->family == FAMILY_LLAMA && (tokenizer != NULL || ends->generation.count > 0))
        code = write_generation(tokenizer, ends, folder);
    free(path);
    memory_free(deck);
    return code;
}
