/* The section `model` of a deck from config.json, key by key. */
#include "base/error.h"
#include "deck/fields.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "bridge/config_source.h"
#include "setup/model.h"

#include <stdlib.h>
#include <string.h>

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
