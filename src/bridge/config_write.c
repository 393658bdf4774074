#include "base/error.h"
#include "deck/fields.h"
#include "base/memory.h"
#include "bridge/config.h"
#include "bridge/json_file.h"
#include "tokenizer/tokenizer.h"
#include "setup/model.h"

#include <stdlib.h>
#include <string.h>

/* Returns a size from which config_gated_ffn computes ffn: 4 * hidden, as published, if it does. */
static int64_t size_of_gated(const struct model_settings *s, int64_t multiple)
{
    int64_t published = 4 * s->hidden;
    return config_gated_ffn(published, multiple) == s->ffn ? published : s->ffn / 2 * 3;
}

/* -- Limits of the classes ---------------------------------------------------------------------------------------- */

/* torch's epsilon of a LayerNorm, in classes that do not configure it. */
static const double DEFAULT_EPS = 1e-5;

static int check_size(const char *architecture, const char *key, int64_t value, int64_t wanted, const char *why)
{
    if (value == wanted)
        return ERROR_NONE;
    return error_user("key model.%s = %lld: %s %s; only %lld is possible", key, (long long)value, architecture, why,
                      (long long)wanted);
}

/* BioNeMo's Llama has no biases. */
static int check_biases(const struct model_settings *s, enum checkpoint_dialect dialect)
{
    if (dialect != DIALECT_TE || (!s->attention_bias && !s->mlp_bias))
        return ERROR_NONE;
    return error_user("key model.%s = true: not supported by %s of BioNeMo; export with --dialect hf",
                      s->attention_bias ? "attention_bias" : "mlp_bias", s->family->architecture[dialect]);
}

static bool has_key(const struct family *family, enum config_kind kind, enum checkpoint_dialect dialect)
{
    const struct config_key *row = family_key(family, kind);
    return row != NULL && config_key_in(row, dialect);
}

static int check_window(const struct model_settings *s, const char *architecture, enum checkpoint_dialect dialect)
{
    if (!model_has_window(s))
        return ERROR_NONE;
    if (!has_key(s->family, CONFIG_WINDOW, dialect))
        return error_user("key model.sliding_window = %lld: not supported by %s, whose tokens see all earlier ones",
                          (long long)s->sliding_window, architecture);
    if (s->max_window_layers > 0 && !has_key(s->family, CONFIG_WINDOW_LAYERS, dialect))
        return error_user("key model.max_window_layers = %lld: not supported by %s, whose layers all have the window",
                          (long long)s->max_window_layers, architecture);
    return ERROR_NONE;
}

const char *config_architecture(const struct model_settings *s, enum checkpoint_dialect dialect)
{
    if (s->task.head == DECK_HEAD_LM)
        return s->family->architecture[dialect];
    return dialect == DIALECT_HF ? s->family->task[s->task.head].architecture : NULL;
}

/* A class of transformers reads one token of a sequence. */
static int check_task(const struct model_settings *s, const char *architecture)
{
    const enum deck_pooling own = s->family->causal ? DECK_POOLING_LAST : DECK_POOLING_FIRST;
    if (s->task.head != DECK_HEAD_SEQUENCE || s->task.pooling == own)
        return ERROR_NONE;
    return error_user("key model.pooling: %s reads the %s token of a sequence, and this head another one or the mean",
                      architecture, s->family->causal ? "last" : "first");
}

int config_check(const struct model_settings *s, enum checkpoint_dialect dialect)
{
    const struct family *family = s->family;
    const char *architecture = config_architecture(s, dialect);
    const bool te = dialect == DIALECT_TE, rope = family_key(family, CONFIG_ROPE) != NULL;
    const struct config_key *gated = family_key(family, CONFIG_GATED);
    if (architecture == NULL && s->task.head != DECK_HEAD_LM)
        return error_user("key model.head: BioNeMo has no class for this head; export in transformers' dialect");
    if (architecture == NULL)
        return error_user("key model.family = \"%s\": %s has no class for this family", family->name,
                          te ? "BioNeMo" : "transformers");
    if (s->hidden % s->heads != 0)
        return error_user("key model.heads = %lld: must divide model.hidden = %lld for transformers",
                          (long long)s->heads, (long long)s->hidden);
    if (s->norm_zero_centered)
        return error_user(
            "key model.norm_zero_centered = true: not supported by %s, which stores the gains of norms themselves",
            architecture);
    if (!family->loads_frequencies && s->rope.rounding != DECK_ROUNDING_NONE)
        return error_user("key model.rope_rounding: not supported by %s, which does not round rotary frequencies",
                          architecture);
    int code = check_task(s, architecture);
    if (code == ERROR_NONE)
        code = check_biases(s, dialect);
    if (code == ERROR_NONE)
        code = check_window(s, architecture, dialect);
    if (code == ERROR_NONE && (te || family_key_of(family, offsetof(struct deck, model.head_dim)) == NULL))
        code = check_size(architecture, "head_dim", s->head_dim, s->hidden / s->heads, "has no head size of its own");
    if (code == ERROR_NONE && family_key_of(family, offsetof(struct deck, model.kv_heads)) == NULL)
        code = check_size(architecture, "kv_heads", s->kv_heads, s->heads, "has no grouped heads");
    if (code == ERROR_NONE && family_key_of(family, offsetof(struct deck, model.norm_eps)) == NULL &&
        s->norm_eps != DEFAULT_EPS)
        code = error_user("key model.norm_eps = %g: not supported by %s, whose norms always have %g", s->norm_eps,
                          architecture, DEFAULT_EPS);
    if (code == ERROR_NONE && model_causal(s) != family->causal && !has_key(family, CONFIG_CAUSAL, dialect))
        code = error_user("key model.objective = \"%s\": not supported by %s", model_causal(s) ? "causal" : "masked",
                          architecture);
    if (code == ERROR_NONE && !rope && s->rope.factor > 1)
        code = error_user("key model.rope_scaling.factor = %g: not supported by %s, which has no rope scaling",
                          s->rope.factor, architecture);
    if (code == ERROR_NONE && te && s->rope.factor > 1 && s->rope.type != DECK_ROPE_LLAMA3)
        code = error_user("key model.rope_scaling.type: only \"llama3\" is supported by %s of BioNeMo", architecture);
    /* without CONFIG_ROPE, the classes of DIALECT_TE ignore rope_theta */
    if (code == ERROR_NONE && !rope && s->rope.theta != 10000 &&
        (te || family_key_of(family, offsetof(struct deck, model.rope_theta)) == NULL))
        code = error_user("key model.rope_theta = %g: not supported by %s, whose base is always 10000", s->rope.theta,
                          architecture);
    if (code == ERROR_NONE && gated != NULL && s->ffn % gated->multiple != 0)
        code = error_user("key model.ffn = %lld: not supported by %s, which rounds it to a multiple of %lld",
                          (long long)s->ffn, family->title, (long long)gated->multiple);
    if (code == ERROR_NONE && s->tied && family_key(family, CONFIG_TIED) == NULL)
        code = error_user("key model.tied = \"yes\": not supported by %s, whose decoder has a matrix of its own",
                          family->title);
    return code;
}

/* -- Writing ------------------------------------------------------------------------------------------------------ */

struct config_target {
    json_t *out;
    enum checkpoint_dialect dialect;
    const struct model_settings *settings;
    const struct deck *deck; /* a deck with the model's settings */
    const struct tokenizer *tokenizer;
    const struct model_ends *ends;
};

static void put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

/* Returns the object of a scaling, or of no scaling. */
static json_t *rope_object(const struct rope_settings *rope)
{
    static const char *const types[DECK_ROPES] = {"llama3", "linear", "yarn"};
    const bool yarn = rope->type == DECK_ROPE_YARN;
    json_t *out = json_object();
    put(out, "rope_type", json_string(rope->factor > 1 ? types[rope->type] : "default"));
    if (rope->factor <= 1)
        return out;
    put(out, "factor", json_real(rope->factor));
    if (rope->type == DECK_ROPE_LINEAR)
        return out;
    put(out, yarn ? "beta_slow" : "low_freq_factor", json_real(rope->low));
    put(out, yarn ? "beta_fast" : "high_freq_factor", json_real(rope->high));
    put(out, "original_max_position_embeddings", json_integer(rope->original));
    if (yarn && rope->attention_factor > 0)
        put(out, "attention_factor", json_real(rope->attention_factor));
    return out;
}

/* Returns an id, or null if there is none. */
static json_t *id_of(int32_t id)
{
    return id < 0 ? json_null() : json_integer(id);
}

/* Returns eos_token_id: the model's own end tokens, or else the tokenizer's. */
static json_t *ends_of(const struct end_tokens *own, const struct tokenizer *tokenizer)
{
    if (own->count == 0)
        return id_of(tokenizer == NULL ? -1 : tokenizer->eos);
    json_t *list = json_array();
    for (int i = 0; i < own->count; i++)
        json_array_append_new(list, json_integer(own->ids[i]));
    if (own->count > 1)
        return list;
    json_t *only = json_incref(json_array_get(list, 0));
    json_decref(list);
    return only;
}

/* Writes rope_theta and rope_scaling for transformers 4, and rope_parameters for transformers 5. */
static void put_rope(json_t *out, const struct rope_settings *settings)
{
    json_t *rope = rope_object(settings);
    put(out, "rope_theta", json_real(settings->theta));
    put(out, "rope_scaling", settings->factor > 1 ? json_copy(rope) : json_null());
    put(rope, "rope_theta", json_real(settings->theta));
    put(out, "rope_parameters", rope);
}

static json_t *classes_map(const struct family *family)
{
    const struct family_te *te = &family->te;
    const char *const names[][2] = {
        {"AutoConfig", te->config}, {"AutoModel", te->model}, {te->automatic, family->architecture[DIALECT_TE]}};
    json_t *map = json_object();
    for (int i = 0; i < 3; i++)
        put(map, names[i][0], json_sprintf("%s.%s", te->module, names[i][1]));
    return map;
}

/* Returns the value of a row's key; NULL: the export does not have the key. */
static json_t *value_for(const struct config_target *t, const struct config_key *row)
{
    const struct model_settings *s = t->settings;
    const char *field = (const char *)t->deck + row->offset;
    switch (row->kind) {
    case CONFIG_FIXED:
    case CONFIG_CONSTANT:
        return json_loads(row->allowed, JSON_DECODE_ANY, NULL);
    case CONFIG_SIZE:
        return json_integer(*(const int64_t *)field);
    case CONFIG_REAL:
    case CONFIG_WEIGHT:
    case CONFIG_COPY:
        return json_real(*(const double *)field);
    case CONFIG_FLAG:
        return json_boolean(*(const bool *)field);
    case CONFIG_GATED:
        return json_integer(size_of_gated(s, row->multiple));
    case CONFIG_TIED:
        return json_boolean(s->tied);
    case CONFIG_GELU:
        return s->tanh_gelu && t->dialect == DIALECT_HF ? json_string("tanh") : NULL;
    case CONFIG_TOKEN:
        return t->tokenizer == NULL ? json_null() : id_of(*(const int32_t *)((const char *)t->tokenizer + row->offset));
    case CONFIG_ENDS:
        return ends_of(&t->ends->config, t->tokenizer);
    case CONFIG_CAUSAL:
        return json_boolean(model_causal(s));
    case CONFIG_WINDOW:
        return model_has_window(s) ? json_integer(s->sliding_window) : json_null();
    case CONFIG_USES_WINDOW:
        return json_boolean(model_has_window(s));
    case CONFIG_WINDOW_LAYERS:
        return model_has_window(s) ? json_integer(s->max_window_layers) : NULL;
    case CONFIG_CLASSES:
        return classes_map(s->family);
    case CONFIG_TOKEN_ROWS:
        return json_integer(s->vocabulary);
    case CONFIG_CHECKED:
    case CONFIG_ROPE: /* several keys, by put_rope */
        break;
    }
    return NULL;
}

static void put_keys(const struct config_target *t)
{
    for (const struct config_key *row = t->settings->family->keys; row->key != NULL; row++) {
        json_t *value = config_key_in(row, t->dialect) ? value_for(t, row) : NULL;
        if (value != NULL)
            put(t->out, row->key, value);
        if (row->kind == CONFIG_ROPE)
            put_rope(t->out, &t->settings->rope);
    }
}

static int write_generation(const struct tokenizer *tokenizer, const struct model_ends *ends, const char *folder)
{
    char *path = memory_format("%s/generation_config.json", folder);
    const struct end_tokens *own = ends->generation.count > 0 ? &ends->generation : &ends->config;
    json_t *out =
        json_pack("{s:o, s:o, s:o}", "bos_token_id", id_of(tokenizer == NULL ? -1 : tokenizer->bos), "eos_token_id",
                  ends_of(own, tokenizer), "pad_token_id", id_of(tokenizer == NULL ? -1 : tokenizer->pad));
    int code = json_file_write(out, path);
    free(path);
    return code;
}

/* Writes the labels of a fine-tuning head; transformers takes their number from id2label. */
static void put_labels(json_t *out, const struct task_settings *task, const char *names)
{
    json_t *names_of = json_object(), *ids_of = json_object();
    for (int64_t i = 0; i < task->labels; i++) {
        char id[24];
        const size_t length = strcspn(names, ",");
        char *name = length > 0 ? memory_format("%.*s", (int)length, names) : memory_format("LABEL_%lld", (long long)i);
        snprintf(id, sizeof id, "%lld", (long long)i);
        put(names_of, id, json_string(name));
        put(ids_of, name, json_integer(i));
        names += length + (names[length] == ',');
        free(name);
    }
    put(out, "id2label", names_of);
    put(out, "label2id", ids_of);
    put(out, "problem_type",
        json_string(task->problem == DECK_PROBLEM_REGRESSION ? "regression" : "single_label_classification"));
}

int config_write(const struct model_settings *s, enum checkpoint_dialect dialect, int64_t positions,
                 const struct tokenizer *tokenizer, const struct model_ends *ends, const char *labels,
                 const char *dtype, const char *folder)
{
    struct deck *deck = deck_create();
    const struct config_target target = {json_object(), dialect, s, deck, tokenizer, ends};
    json_t *out = target.out;
    model_settings_to_deck(s, deck);
    deck->model.positions = positions;
    put(out, "architectures", json_pack("[s]", config_architecture(s, dialect)));
    put(out, "model_type", json_string(s->family->model_type[dialect]));
    put(out, "dtype", json_string(dtype)); /* for transformers 5 */
    put(out, "torch_dtype", json_string(dtype));
    put_keys(&target);
    if (s->task.labels > 0)
        put_labels(out, &s->task, labels);
    char *path = memory_format("%s/config.json", folder);
    int code = json_file_write(out, path);
    const bool ended = family_key(s->family, CONFIG_ENDS) != NULL;
    if (code == ERROR_NONE && ended && (tokenizer != NULL || ends->generation.count > 0))
        code = write_generation(tokenizer, ends, folder);
    free(path);
    memory_free(deck);
    return code;
}
