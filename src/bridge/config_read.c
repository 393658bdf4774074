#include "base/error.h"
#include "deck/fields.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "bridge/config.h"
#include "bridge/json_file.h"
#include "tokenizer/end_tokens.h"
#include "tokenizer/tokenizer.h"
#include "setup/model.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct config_source {
    const char *path;
    enum checkpoint_dialect dialect;
    const json_t *root;
    const struct family *family;
    enum deck_head head;
};

/* Returns a key's value; NULL if it is absent or null, which mean the same. */
static const json_t *config_value(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

/* section: prefix of the key, such as "rope_scaling.", or "". */
static int config_refuse(const struct config_source *s, const char *section, const char *key, const json_t *value,
                         const char *what)
{
    enum { SHOWN_BYTES = 200 };
    char *text = value == NULL ? memory_string("null") : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    int code = error_user("%s: key %s%s = %.*s: %s", s->path, section, key, SHOWN_BYTES, text, what);
    free(text);
    return code;
}

static int config_not_supported(const struct config_source *s, const char *section, const char *key,
                                const json_t *value, const char *allowed)
{
    char *what = memory_format("is not supported; allowed: %s", allowed);
    int code = config_refuse(s, section, key, value, what);
    free(what);
    return code;
}

static int config_read_bool(const struct config_source *s, const char *key, bool missing, bool *out)
{
    const json_t *value = config_value(s->root, key);
    if (value != NULL && !json_is_boolean(value))
        return config_refuse(s, "", key, value, "must be true or false");
    *out = value == NULL ? missing : json_is_true(value);
    return ERROR_NONE;
}

static int config_read_real(const struct config_source *s, const char *section, const char *key, const json_t *value,
                            double *out)
{
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number > 0))
        return config_refuse(s, section, key, value, "must be a positive number");
    *out = number;
    return ERROR_NONE;
}

static int config_read_size(const struct config_source *s, const char *section, const char *key, const json_t *value,
                            int64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) <= 0)
        return config_refuse(s, section, key, value, "must be a positive whole number");
    if (json_integer_value(value) > INT32_MAX) /* so that sums and products of a few sizes do not overflow */
        return config_refuse(s, section, key, value, "must be below 2^31");
    *out = json_integer_value(value);
    return ERROR_NONE;
}

/* -- The family --------------------------------------------------------------------------------------------------- */

static bool lists(const json_t *array, const char *text)
{
    size_t i;
    const json_t *member;
    json_array_foreach((json_t *)array, i, member)
    {
        if (json_is_string(member) && strcmp(json_string_value(member), text) == 0)
            return true;
    }
    return false;
}

/* Returns the model types of the families that have the dialect: "a", "b" or "c"; freed with free(). A family with a
 * mark has the type of another one. */
static char *model_types(enum checkpoint_dialect dialect)
{
    char *text = memory_string("");
    int left = 0;
    for (int f = 0; families[f] != NULL; f++)
        left += families[f]->model_type[dialect] != NULL && families[f]->mark == NULL;
    for (int f = 0; families[f] != NULL; f++) {
        const char *type = families[f]->model_type[dialect];
        if (type == NULL || families[f]->mark != NULL)
            continue;
        const char *after = --left > 1 ? ", " : left == 1 ? " or " : "";
        char *longer = memory_format("%s\"%s\"%s", text, type, after);
        free(text);
        text = longer;
    }
    return text;
}

static bool has_mark(const struct config_source *s, const struct family *family)
{
    return family->mark != NULL && json_object_get(s->root, family->mark) != NULL;
}

static int config_read_family(struct config_source *s)
{
    const json_t *type = config_value(s->root, "model_type"), *architectures = config_value(s->root, "architectures");
    for (int f = 0; families[f] != NULL; f++) {
        const char *known = families[f]->model_type[s->dialect];
        const bool typed = json_is_string(type) && known != NULL && strcmp(json_string_value(type), known) == 0;
        const bool untyped = type == NULL && known != NULL && families[f]->mark != NULL;
        if ((typed || untyped) && (families[f]->mark == NULL || has_mark(s, families[f])))
            s->family = families[f];
    }
    if (s->family == NULL) {
        char *allowed = model_types(s->dialect);
        int code = config_not_supported(s, "", "model_type", type, allowed);
        free(allowed);
        return code;
    }
    const char *const *names = s->family->architecture; /* both dialects may have DIALECT_HF's name */
    if (architectures == NULL || lists(architectures, names[s->dialect]))
        return ERROR_NONE;
    for (int head = DECK_HEAD_SEQUENCE; head < DECK_HEADS && s->dialect == DIALECT_HF; head++) {
        const char *name = s->family->task[head].architecture;
        if (name != NULL && lists(architectures, name)) {
            s->head = (enum deck_head)head;
            return ERROR_NONE;
        }
    }
    if (!(s->dialect == DIALECT_TE && lists(architectures, names[DIALECT_HF]))) {
        char *allowed = memory_format("[\"%s\"]", names[s->dialect]);
        int code = config_not_supported(s, "", "architectures", architectures, allowed);
        free(allowed);
        return code;
    }
    return ERROR_NONE;
}

/* -- The head ----------------------------------------------------------------------------------------------------- */

/* Reads the number of labels: that of id2label, or num_labels of older files, or transformers' default. */
static int read_label_count(const struct config_source *s, int64_t *count)
{
    const json_t *names = config_value(s->root, "id2label"), *number = config_value(s->root, "num_labels");
    *count = 2;
    if (names != NULL && (!json_is_object(names) || json_object_size(names) == 0))
        return config_refuse(s, "", "id2label", names, "must be an object with the name of each label");
    if (names != NULL)
        *count = (int64_t)json_object_size(names);
    return names == NULL && number != NULL ? config_read_size(s, "", "num_labels", number, count) : ERROR_NONE;
}

/* Writes the names of the labels, if they fit into the deck's key and have no commas. */
static void read_label_names(const struct config_source *s, int64_t count, char to[DECK_STRING])
{
    const json_t *names = config_value(s->root, "id2label");
    size_t used = 0;
    for (int64_t i = 0; i < count && names != NULL; i++) {
        char id[24];
        snprintf(id, sizeof id, "%lld", (long long)i);
        const char *name = json_string_value(json_object_get(names, id));
        if (name == NULL || name[0] == '\0' || strchr(name, ',') != NULL || used + strlen(name) + 2 > DECK_STRING) {
            to[0] = '\0';
            return;
        }
        used += (size_t)snprintf(to + used, DECK_STRING - used, "%s%s", i > 0 ? "," : "", name);
    }
}

static int config_read_head(const struct config_source *s, struct deck *deck)
{
    const json_t *type = config_value(s->root, "problem_type");
    const char *name = type == NULL ? "" : json_string_value(type);
    deck->model.head = (int)s->head;
    deck->model.id2label[0] = '\0';
    if (s->head == DECK_HEAD_LM || s->head == DECK_HEAD_NONE)
        return ERROR_NONE;
    int code = read_label_count(s, &deck->model.num_labels);
    if (code != ERROR_NONE)
        return code;
    const bool regression =
        s->head == DECK_HEAD_SEQUENCE &&
        (type == NULL ? deck->model.num_labels == 1 : name != NULL && strcmp(name, "regression") == 0);
    if (type != NULL && !regression && (name == NULL || strcmp(name, "single_label_classification") != 0))
        return config_not_supported(s, "", "problem_type", type, "\"single_label_classification\" or \"regression\"");
    deck->model.problem_type = regression ? DECK_PROBLEM_REGRESSION : DECK_PROBLEM_CLASSIFICATION;
    read_label_names(s, deck->model.num_labels, deck->model.id2label);
    return ERROR_NONE;
}

/* -- Rows of one key ----------------------------------------------------------------------------------------------- */

static bool equals(const json_t *value, const char *text)
{
    json_t *wanted = text == NULL ? NULL : json_loads(text, JSON_DECODE_ANY, NULL);
    const bool equal = wanted != NULL && json_equal(value, wanted);
    json_decref(wanted);
    return equal;
}

static bool accepts(const struct config_key *row, const json_t *value)
{
    return equals(value, row->allowed) || equals(value, row->also);
}

static int check_fixed(const struct config_source *s, const struct config_key *row)
{
    json_t *missing = json_loads(row->missing, JSON_DECODE_ANY, NULL);
    const json_t *value = json_object_get(s->root, row->key);
    const bool unset = value == NULL || (json_is_null(value) && !json_is_true(missing)); /* null does not mean true */
    const bool good = accepts(row, value) || (unset && accepts(row, missing));
    json_decref(missing);
    if (good)
        return ERROR_NONE;
    char *allowed =
        row->also == NULL ? memory_string(row->allowed) : memory_format("%s or %s", row->allowed, row->also);
    int code = config_not_supported(s, "", row->key, value, allowed);
    free(allowed);
    return code;
}

static int read_number(const struct config_source *s, const struct config_key *row, struct deck *deck)
{
    const json_t *value = config_value(s->root, row->key);
    void *to = (char *)deck + row->offset;
    if (row->kind == CONFIG_SIZE) {
        *(int64_t *)to = (int64_t)row->number;
        return value == NULL ? ERROR_NONE : config_read_size(s, "", row->key, value, to);
    }
    *(double *)to = row->number;
    return value == NULL ? ERROR_NONE : config_read_real(s, "", row->key, value, to);
}

static int read_weight(const struct config_source *s, const struct config_key *row, struct deck *deck)
{
    const json_t *value = config_value(s->root, row->key);
    double *to = (double *)((char *)deck + row->offset);
    *to = value == NULL ? row->number : json_number_value(value);
    if (value != NULL && (!json_is_number(value) || !(*to >= 0)))
        return config_refuse(s, "", row->key, value, "must be a number of at least 0");
    return ERROR_NONE;
}

static int read_gated(const struct config_source *s, const struct config_key *row, struct deck *deck)
{
    const json_t *value = config_value(s->root, row->key);
    int64_t size = (int64_t)row->number;
    int code = value == NULL ? ERROR_NONE : config_read_size(s, "", row->key, value, &size);
    deck->model.ffn = config_gated_ffn(size, row->multiple);
    return code;
}

static int read_tied(const struct config_source *s, const struct config_key *row, struct deck *deck)
{
    bool tied = false;
    int code = config_read_bool(s, row->key, s->family->tied, &tied);
    deck->model.tied = tied ? DECK_TIED_YES : DECK_TIED_NO;
    return code;
}

static int read_causal(const struct config_source *s, const struct config_key *row, struct deck *deck)
{
    bool causal = false;
    int code = config_read_bool(s, row->key, s->family->causal, &causal);
    if (causal != s->family->causal)
        deck->model.objective = causal ? DECK_OBJECTIVE_CAUSAL : DECK_OBJECTIVE_MASKED;
    return code;
}

/* Checks the id of a special token if the model has the family's tokenizer, as the size of its vocabulary says. */
static int check_token(const struct config_source *s, const struct config_key *row, const struct deck *deck)
{
    const bool own = s->family->tokenizer != NULL && deck->model.vocabulary == s->family->presets[0].vocabulary;
    const bool checks = row->allowed != NULL && own;
    return checks ? check_fixed(s, row) : ERROR_NONE;
}

/* -- Rotary frequencies -------------------------------------------------------------------------------------------- */

static bool is_one(const json_t *value)
{
    return json_is_number(value) && json_number_value(value) == 1;
}

/* Reads original_max_position_embeddings. transformers 5 prefers the key next to the rope object to the one inside;
 * transformers 4 reads only the one inside. */
static int read_original(const struct config_source *s, const char *section, const json_t *inside, int64_t *out)
{
    static const char key[] = "original_max_position_embeddings";
    const json_t *outside = config_value(s->root, key);
    int code = ERROR_NONE;
    if (inside != NULL || outside == NULL)
        code = config_read_size(s, section, key, inside, out);
    if (code == ERROR_NONE && outside != NULL && inside != NULL && !json_equal(outside, inside)) {
        char *what =
            memory_format("differs from %s%s = %lld, and transformers' versions read one or the other; make both equal",
                          section, key, (long long)*out);
        code = config_refuse(s, "", key, outside, what);
        free(what);
    } else if (code == ERROR_NONE && outside != NULL) {
        code = config_read_size(s, "", key, outside, out);
    }
    return code;
}

/* Types of scaling, as deck_rope numbers them; the type without scaling is "default". */
static const char *const rope_types[DECK_ROPES] = {"llama3", "linear", "yarn"};
enum { OF_LLAMA3 = 1 << DECK_ROPE_LLAMA3, OF_LINEAR = 1 << DECK_ROPE_LINEAR, OF_YARN = 1 << DECK_ROPE_YARN };

/* Numbers of the object, in struct deck. types: the types that have one, as a set. */
static const struct {
    const char *key;
    size_t offset;
    unsigned types;
    bool required;
} rope_numbers[] = {
    {"factor", offsetof(struct deck, model.rope_scaling.factor), OF_LLAMA3 | OF_LINEAR | OF_YARN, true},
    {"low_freq_factor", offsetof(struct deck, model.rope_scaling.low), OF_LLAMA3, true},
    {"high_freq_factor", offsetof(struct deck, model.rope_scaling.high), OF_LLAMA3, true},
    {"beta_slow", offsetof(struct deck, model.rope_scaling.low), OF_YARN, false},
    {"beta_fast", offsetof(struct deck, model.rope_scaling.high), OF_YARN, false},
    {"attention_factor", offsetof(struct deck, model.rope_scaling.attention_factor), OF_YARN, false},
};

/* Reads the type and writes it, or -1 without scaling. */
static int read_rope_type(const struct config_source *s, const char *section, const json_t *object, int *out)
{
    const json_t *type = config_value(object, "rope_type");
    if (type == NULL)
        type = config_value(object, "type");
    const char *name = type == NULL ? "default" : json_is_string(type) ? json_string_value(type) : "";
    *out = -1;
    if (strcmp(name, "default") == 0)
        return ERROR_NONE;
    for (int i = 0; i < DECK_ROPES; i++)
        if (strcmp(name, rope_types[i]) == 0)
            *out = i;
    if (*out >= 0)
        return ERROR_NONE;
    return config_not_supported(s, section, "rope_type", type, "\"default\", \"llama3\", \"linear\" or \"yarn\"");
}

/* Reads the numbers of a type, and counts the members that belong to it. Without a type they have no meaning. */
static int read_rope_numbers(const struct config_source *s, const char *section, const json_t *object, int type,
                             struct deck *deck, size_t *known)
{
    int code = ERROR_NONE;
    for (size_t i = 0; i < sizeof rope_numbers / sizeof *rope_numbers && code == ERROR_NONE; i++) {
        const json_t *value = config_value(object, rope_numbers[i].key);
        const bool has = type < 0 || (rope_numbers[i].types >> type & 1u) != 0;
        *known += has && value != NULL;
        if (type >= 0 && has && (value != NULL || rope_numbers[i].required))
            code = config_read_real(s, section, rope_numbers[i].key, value,
                                    (double *)((char *)deck + rope_numbers[i].offset));
    }
    const json_t *original = config_value(object, "original_max_position_embeddings");
    *known += original != NULL;
    if (code == ERROR_NONE && type >= 0 && type != DECK_ROPE_LINEAR)
        code = read_original(s, section, original, &deck->model.rope_scaling.original);
    if (code == ERROR_NONE && type >= 0 && deck->model.rope_scaling.factor < 1) /* in a deck: no scaling */
        code = config_refuse(s, section, "factor", config_value(object, "factor"), "must be at least 1");
    return code;
}

/* Counts a member that may only have one value; refuses others. */
static int check_rope_member(const struct config_source *s, const char *section, const json_t *object, const char *key,
                             bool good, const char *allowed, size_t *known)
{
    const json_t *value = config_value(object, key);
    *known += value != NULL;
    return value == NULL || good ? ERROR_NONE : config_not_supported(s, section, key, value, allowed);
}

/* Reads the object of a scaling, or of no scaling (rope_theta only). */
static int read_rope_object(const struct config_source *s, const char *section, const json_t *object, struct deck *deck)
{
    const json_t *theta = config_value(object, "rope_theta");
    size_t known =
        (config_value(object, "rope_type") != NULL) + (config_value(object, "type") != NULL) + (theta != NULL);
    int type, code = read_rope_type(s, section, object, &type);
    if (code == ERROR_NONE)
        code = check_rope_member(s, section, object, "partial_rotary_factor",
                                 is_one(config_value(object, "partial_rotary_factor")), "1", &known);
    if (code == ERROR_NONE && type == DECK_ROPE_YARN)
        code = check_rope_member(s, section, object, "truncate", json_is_true(config_value(object, "truncate")), "true",
                                 &known);
    if (code == ERROR_NONE && theta != NULL)
        code = config_read_real(s, section, "rope_theta", theta, &deck->model.rope_theta);
    if (code == ERROR_NONE)
        code = read_rope_numbers(s, section, object, type, deck, &known);
    if (code != ERROR_NONE)
        return code;
    if (type >= 0)
        deck->model.rope_scaling.type = type;
    const char *key;
    json_t *value;
    size_t members = 0;
    json_object_foreach((json_t *)object, key, value) members += !json_is_null(value);
    if (members != known)
        return config_not_supported(s, section, "*", object, "a type, rope_theta and the type's own numbers");
    return ERROR_NONE;
}

/* Reads the rotary settings. transformers prefers rope_scaling to rope_parameters, and the rope_theta inside of that
 * object to the one next to it. */
static int config_read_rope(const struct config_source *s, const struct config_key *row, struct deck *deck)
{
    const json_t *theta = config_value(s->root, row->key), *partial = config_value(s->root, "partial_rotary_factor");
    const char *key = config_value(s->root, "rope_scaling") != NULL ? "rope_scaling" : "rope_parameters";
    const json_t *object = config_value(s->root, key);
    deck->model.rope_theta = row->number;
    int code = theta == NULL ? ERROR_NONE : config_read_real(s, "", row->key, theta, &deck->model.rope_theta);
    if (code == ERROR_NONE && partial != NULL && !is_one(partial))
        code = config_not_supported(s, "", "partial_rotary_factor", partial, "1");
    if (code != ERROR_NONE || object == NULL)
        return code;
    if (!json_is_object(object))
        return config_refuse(s, "", key, object, "must be an object");
    char *section = memory_format("%s.", key);
    code = read_rope_object(s, section, object, deck);
    free(section);
    return code;
}

/* -- GELU ---------------------------------------------------------------------------------------------------------- */

/* Reads the form of GELU. transformers' class of a family with this row computes GELU by erf, whatever hidden_act says,
 * so a key of this program selects tanh. TransformerEngine's layers compute the tanh form. */
static int read_gelu(const struct config_source *s, const struct config_key *row, struct deck *deck)
{
    deck->model.gelu = DECK_GELU_TANH;
    if (s->dialect == DIALECT_TE)
        return ERROR_NONE;
    const json_t *own = config_value(s->root, row->key), *value = config_value(s->root, "hidden_act");
    const char *name = own == NULL ? "erf" : json_is_string(own) ? json_string_value(own) : "";
    const bool tanh = strcmp(name, "tanh") == 0;
    if (!tanh && strcmp(name, "erf") != 0)
        return config_not_supported(s, "", row->key, own, "\"erf\" or \"tanh\"");
    deck->model.gelu = tanh ? DECK_GELU_TANH : DECK_GELU_ERF;
    if (own == NULL && value != NULL && !(json_is_string(value) && strcmp(json_string_value(value), "gelu") == 0)) {
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        log_warn("%s: key hidden_act = %.60s: ignored, as by transformers' %s; GELU is computed by erf. If the model "
                 "was trained with GELU's tanh form, add \"%s\": \"tanh\" to this file",
                 s->path, text, s->family->title, row->key);
        free(text);
    }
    return ERROR_NONE;
}

/* -- Sliding window ------------------------------------------------------------------------------------------------ */

/* Refuses types of layers that differ from what the window's keys say. */
static int check_layer_types(const struct config_source *s, const struct deck *deck)
{
    const json_t *types = config_value(s->root, "layer_types");
    bool good = types == NULL || json_array_size(types) == (size_t)deck->model.layers;
    for (int64_t i = 0; types != NULL && good && i < deck->model.layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        const bool windowed = deck->model.sliding_window > 0 && i >= deck->model.max_window_layers;
        good = type != NULL && strcmp(type, windowed ? "sliding_attention" : "full_attention") == 0;
    }
    return good ? ERROR_NONE
                : config_refuse(
                      s, "", "layer_types", types,
                      "must have \"full_attention\" for each layer, with use_sliding_window \"sliding_attention\" for "
                      "those from max_window_layers on");
}

/* Reads the sliding window, and with it the keys that say which layers have it. */
static int read_window(const struct config_source *s, const struct config_key *row, struct deck *deck)
{
    const struct config_key *uses = family_key(s->family, CONFIG_USES_WINDOW);
    const struct config_key *layers = family_key(s->family, CONFIG_WINDOW_LAYERS);
    const json_t *value = json_object_get(s->root, row->key);
    bool used = true;
    int code = uses != NULL ? config_read_bool(s, uses->key, false, &used) : ERROR_NONE;
    used = used && !json_is_null(value);
    deck->model.sliding_window = used ? (int64_t)row->number : 0;
    deck->model.max_window_layers = 0;
    if (code == ERROR_NONE && used && value != NULL)
        code = config_read_size(s, "", row->key, value, &deck->model.sliding_window);
    if (code != ERROR_NONE || layers == NULL)
        return code;
    const json_t *first = config_value(s->root, layers->key);
    const bool zero = json_is_integer(first) && json_integer_value(first) == 0;
    if (used)
        deck->model.max_window_layers = zero ? 0 : (int64_t)layers->number;
    if (used && first != NULL && !zero)
        code = config_read_size(s, "", layers->key, first, &deck->model.max_window_layers);
    return code == ERROR_NONE ? check_layer_types(s, deck) : code;
}

/* -- All rows ------------------------------------------------------------------------------------------------------ */

static int read_key(const struct config_source *s, const struct config_key *row, struct deck *deck)
{
    switch (row->kind) {
    case CONFIG_FIXED:
    case CONFIG_CHECKED:
        return check_fixed(s, row);
    case CONFIG_SIZE:
    case CONFIG_REAL:
        return read_number(s, row, deck);
    case CONFIG_WEIGHT:
        return read_weight(s, row, deck);
    case CONFIG_FLAG:
        return config_read_bool(s, row->key, row->number != 0, (bool *)((char *)deck + row->offset));
    case CONFIG_GATED:
        return read_gated(s, row, deck);
    case CONFIG_TIED:
        return read_tied(s, row, deck);
    case CONFIG_ROPE:
        return config_read_rope(s, row, deck);
    case CONFIG_GELU:
        return read_gelu(s, row, deck);
    case CONFIG_CAUSAL:
        return read_causal(s, row, deck);
    case CONFIG_WINDOW:
        return read_window(s, row, deck);
    case CONFIG_TOKEN:
        return check_token(s, row, deck);
    case CONFIG_USES_WINDOW: /* read with CONFIG_WINDOW */
    case CONFIG_WINDOW_LAYERS:
    case CONFIG_CONSTANT: /* written by exports only */
    case CONFIG_COPY:
    case CONFIG_CLASSES:
    case CONFIG_ENDS:       /* read by config_ends */
    case CONFIG_TOKEN_ROWS: /* read by config_token_rows */
        break;
    }
    return ERROR_NONE;
}

static int read_keys(const struct config_source *s, struct deck *deck)
{
    const json_t *quantization = config_value(s->root, "quantization_config");
    int code = ERROR_NONE;
    if (quantization != NULL)
        code = config_not_supported(s, "", "quantization_config", quantization, "null");
    deck->model.tied = DECK_TIED_NO;
    for (const struct config_key *row = s->family->keys; row->key != NULL && code == ERROR_NONE; row++)
        if (config_key_in(row, s->dialect))
            code = read_key(s, row, deck);
    return code;
}

/* -- The deck ----------------------------------------------------------------------------------------------------- */

static void set_window(const struct family *family, struct deck *deck)
{
    enum { LONGEST = 8192, MULTIPLE = 16 /* a row's tokens are a multiple of this */ };
    int64_t tokens = deck->model.positions - family->extra_positions;
    tokens = tokens > LONGEST ? LONGEST : tokens / MULTIPLE * MULTIPLE;
    deck->data.row_tokens = deck->data.window = MAX(MULTIPLE, tokens);
}

/* Checks the deck by printing it, reading it again and making the model, so that the deck's own rules find remaining
 * errors. */
static int check_deck(const char *path, enum checkpoint_dialect dialect, const struct deck *deck)
{
    struct deck *again = deck_create();
    struct model_settings settings;
    char *text = deck_print_effective(deck);
    int code = deck_read_text(again, text, "its deck", NULL, 0);
    free(text);
    if (code == ERROR_NONE)
        code = model_settings_from_deck(&settings, again, 0);
    if (code == ERROR_NONE)
        code = config_check(&settings, dialect);
    memory_free(again);
    if (code != ERROR_NONE) {
        char *message = memory_string(error_message());
        error_clear();
        code = error_user("%s: %s", path, message);
        free(message);
    }
    return code;
}

static int read_object(struct deck *deck, const char *path, enum checkpoint_dialect dialect, const json_t *root)
{
    struct config_source source = {.path = path, .dialect = dialect, .root = root};
    int code = config_read_family(&source);
    if (code == ERROR_NONE)
        code = read_keys(&source, deck);
    if (code != ERROR_NONE)
        return code;
    code = config_read_head(&source, deck);
    if (code != ERROR_NONE)
        return code;
    deck->model.family = family_choice(source.family);
    if (source.family->token_dropout && deck->model.token_dropout && model_causal_from_deck(deck))
        return error_user("%s: key token_dropout = true: is supported in masked models only, but %s is true", path,
                          family_key(source.family, CONFIG_CAUSAL)->key);
    set_window(source.family, deck);
    return check_deck(path, dialect, deck);
}

int config_read(struct deck *deck, const char *folder, enum checkpoint_dialect dialect)
{
    char *path = memory_format("%s/config.json", folder);
    json_t *root;
    int code = json_file_read(&root, path);
    if (code == ERROR_NONE)
        code = read_object(deck, path, dialect, root);
    json_decref(root);
    free(path);
    return code;
}

int config_token_rows(int64_t *rows, const char *folder, int64_t vocabulary)
{
    static const char key[] = "padded_vocab_size";
    char *path = memory_format("%s/config.json", folder);
    json_t *root;
    int code = json_file_read(&root, path);
    const struct config_source source = {.path = path, .dialect = DIALECT_TE, .root = root};
    *rows = -1;
    if (code == ERROR_NONE && json_object_get(root, key) != NULL) {
        const json_t *value = config_value(root, key);
        *rows = vocabulary;
        if (value != NULL)
            code = config_read_size(&source, "", key, value, rows);
        if (code == ERROR_NONE && *rows < vocabulary)
            code = config_refuse(&source, "", key, value, "must be at least vocab_size");
    }
    json_decref(root);
    free(path);
    return code;
}

static int read_ends(struct end_tokens *ends, const char *path, int64_t vocabulary)
{
    json_t *root;
    int outside = 0, code = json_file_read(&root, path);
    if (code == ERROR_NONE)
        code = end_tokens_read(ends, root, path, vocabulary, &outside);
    if (code == ERROR_NONE && outside > 0)
        log_warn("%s: key eos_token_id: ids not below vocab_size = %lld are ignored: %d", path, (long long)vocabulary,
                 outside);
    json_decref(root);
    return code;
}

int config_ends(struct model_ends *ends, const char *folder, int64_t vocabulary)
{
    char *config = memory_format("%s/config.json", folder);
    char *generation = memory_format("%s/generation_config.json", folder);
    struct stat status;
    *ends = (struct model_ends){0};
    int code = read_ends(&ends->config, config, vocabulary);
    if (code == ERROR_NONE && stat(generation, &status) == 0)
        code = read_ends(&ends->generation, generation, vocabulary);
    free(config);
    free(generation);
    return code;
}

int64_t config_padding(const char *folder)
{
    char *path = memory_format("%s/config.json", folder);
    json_t *root;
    int64_t padding = -1;
    if (json_file_read(&root, path) == ERROR_NONE && json_is_integer(config_value(root, "pad_token_id")))
        padding = json_integer_value(config_value(root, "pad_token_id"));
    json_decref(root);
    free(path);
    return padding;
}
