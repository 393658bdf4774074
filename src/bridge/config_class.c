/* The model's family and head, from model_type, architectures and the keys of labels. */
#include "base/error.h"
#include "base/memory.h"
#include "bridge/config_source.h"
#include "deck/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int config_read_family(struct config_source *s)
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

int config_read_head(const struct config_source *s, struct deck *deck)
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
