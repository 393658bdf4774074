/* Rotary frequencies in config.json: theta, and the types of scaling. */
#include "base/error.h"
#include "base/memory.h"
#include "bridge/config_source.h"
#include "deck/fields.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
int config_read_rope(const struct config_source *s, const struct config_key *row, struct deck *deck)
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
