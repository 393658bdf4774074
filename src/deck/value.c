/* Functions on the table and its rows. */
#include "deck/table.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "file/path.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct deck_row *deck_find(const char *key)
{
    for (int i = 0; i < deck_table_rows; i++) {
        const struct deck_row *row = &deck_table[i];
        if (strcmp(row->key, key) == 0 || (row->was != NULL && strcmp(row->was, key) == 0))
            return row;
    }
    return NULL;
}

bool deck_is_section(const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; i < deck_table_rows; i++)
        if (strncmp(deck_table[i].key, name, length) == 0 && deck_table[i].key[length] == '.')
            return true;
    return false;
}

static int last_part(const char *key, int length)
{
    while (length > 0 && key[length - 1] != '.')
        length--;
    return length;
}

char *deck_nearest(const char *wrong, bool section)
{
    enum { LONGEST = 200 }; /* the first bytes decide for longer keys */
    int length = (int)strnlen(wrong, LONGEST), part = last_part(wrong, length), best = -1;
    const char *nearest = NULL;
    int nearest_length = 0;
    for (int i = 0; i < deck_table_rows; i++) {
        const char *key = deck_table[i].key;
        int key_length = (int)strlen(key), key_part = last_part(key, key_length);
        if (section) {
            key_length = key_part - 1;
            key_part = last_part(key, key_length);
        }
        int distance = nearest_distance(wrong, length, key, key_length);
        /* The right name in a wrong section counts as near. */
        int parts = 1 + nearest_distance(wrong + part, length - part, key + key_part, key_length - key_part);
        if (parts < distance)
            distance = parts;
        if (best < 0 || distance < best) {
            best = distance;
            nearest = key;
            nearest_length = key_length;
        }
    }
    /* a more distant key is more likely a different word than a typing error */
    return best > 1 + (length - part) / 2 ? NULL : memory_format("%.*s", nearest_length, nearest);
}

static bool in_range(const struct deck_row *row, double value)
{
    bool above = row->above_minimum ? value > row->minimum : value >= row->minimum;
    bool below = row->below_maximum ? value < row->maximum : value <= row->maximum;
    return isfinite(value) && above && below;
}

/* Returns a list of paths, each expanded; blanks around an item stay. Freed with free(). */
static char *expand_each(const char *list, char **unset)
{
    char *all = memory_string("");
    for (const char *item = list; item != NULL;) {
        const char *first = item + strspn(item, " \t\n"), *comma = path_list_comma(item);
        char *own = comma != NULL ? memory_format("%.*s", (int)(comma - first), first) : memory_string(first);
        char *path = path_expand(own, *unset == NULL ? unset : NULL);
        char *longer = memory_format("%s%.*s%s%s", all, (int)(first - item), item, path, comma != NULL ? "," : "");
        free(own);
        free(path);
        free(all);
        all = longer;
        item = comma != NULL ? comma + 1 : NULL;
    }
    return all;
}

/* Returns a value as it is stored. Freed with free(). */
static char *expand(const struct deck_row *row, const char *string, char **unset)
{
    *unset = NULL;
    return row->paths == DECK_PATHS_LIST  ? expand_each(string, unset)
           : row->paths == DECK_PATHS_ONE ? path_expand(string, unset)
                                          : memory_string(string);
}

char *deck_unset_variable(const struct deck_row *row, const struct deck_value *value)
{
    char *unset = NULL;
    if (value->kind == DECK_VALUE_STRING)
        free(expand(row, value->string, &unset));
    return unset;
}

static bool set_string(char *field, const struct deck_row *row, const char *string)
{
    char *unset, *text = expand(row, string, &unset);
    bool fits = in_range(row, (double)strlen(text));
    if (fits) /* strncpy clears the rest of an earlier, longer value: equal decks are equal bytes. */
        strncpy(field, text, DECK_STRING);
    free(unset);
    free(text);
    return fits;
}

bool deck_set(struct deck *deck, const struct deck_row *row, const struct deck_value *value)
{
    void *field = (char *)deck + row->offset;
    switch (row->type) {
    case DECK_TYPE_BOOL:
        if (value->kind != DECK_VALUE_BOOL)
            return false;
        *(bool *)field = value->truth;
        break;
    case DECK_TYPE_INT:
        if (value->kind != DECK_VALUE_INTEGER || !in_range(row, (double)value->integer))
            return false;
        *(int64_t *)field = value->integer;
        break;
    case DECK_TYPE_REAL: {
        double real = value->kind == DECK_VALUE_INTEGER ? (double)value->integer : value->real;
        if ((value->kind != DECK_VALUE_INTEGER && value->kind != DECK_VALUE_REAL) || !in_range(row, real))
            return false;
        *(double *)field = real;
        break;
    }
    case DECK_TYPE_STRING:
        if (value->kind != DECK_VALUE_STRING || !set_string(field, row, value->string))
            return false;
        break;
    case DECK_TYPE_CHOICE: {
        if (value->kind != DECK_VALUE_STRING)
            return false;
        int choice = 0;
        while (row->choices[choice] != NULL && strcmp(row->choices[choice], value->string) != 0)
            choice++;
        if (row->choices[choice] == NULL)
            return false;
        *(int *)field = choice;
        break;
    }
    }
    deck->given[row - deck_table] = true;
    return true;
}

void deck_defaults(struct deck *deck)
{
    memset(deck, 0, sizeof *deck);
    for (int i = 0; i < deck_table_rows; i++) {
        const struct deck_row *row = &deck_table[i];
        void *field = (char *)deck + row->offset;
        switch (row->type) {
        case DECK_TYPE_BOOL:
            *(bool *)field = row->number != 0;
            break;
        case DECK_TYPE_INT:
            *(int64_t *)field = (int64_t)row->number;
            break;
        case DECK_TYPE_REAL:
            *(double *)field = row->number;
            break;
        case DECK_TYPE_STRING:
            strncpy(field, row->string, DECK_STRING - 1);
            break;
        case DECK_TYPE_CHOICE:
            *(int *)field = (int)row->number;
            break;
        }
    }
}

struct deck *deck_create(void)
{
    struct deck *deck = memory_allocate(sizeof *deck);
    deck_defaults(deck);
    return deck;
}

struct deck *deck_copy(const struct deck *deck)
{
    return memcpy(memory_allocate(sizeof *deck), deck, sizeof *deck);
}

static size_t field_bytes(enum deck_type type)
{
    static const size_t bytes[] = {[DECK_TYPE_BOOL] = sizeof(bool),
                                   [DECK_TYPE_INT] = sizeof(int64_t),
                                   [DECK_TYPE_REAL] = sizeof(double),
                                   [DECK_TYPE_STRING] = DECK_STRING,
                                   [DECK_TYPE_CHOICE] = sizeof(int)};
    return bytes[type];
}

void deck_inherit(struct deck *deck, const struct deck *from, const char *section)
{
    size_t length = strlen(section);
    for (int i = 0; i < deck_table_rows; i++) {
        const struct deck_row *row = &deck_table[i];
        if (strncmp(row->key, section, length) == 0 && row->key[length] == '.' && !deck->given[i])
            memcpy((char *)deck + row->offset, (const char *)from + row->offset, field_bytes(row->type));
    }
}

static const struct deck_row *row_of(const char *key)
{
    const struct deck_row *row = deck_find(key);
    if (row == NULL)
        error_fatal("bug: the deck has no key %s", key);
    return row;
}

bool deck_given(const struct deck *deck, const char *key)
{
    return deck->given[row_of(key) - deck_table];
}

char *deck_key_text(const struct deck *deck, const char *key)
{
    return deck_row_value(row_of(key), deck);
}

char *deck_keys_text(const struct deck *deck, const char *const keys[], int count, const char *between)
{
    char *text = memory_string("");
    for (int i = 0; i < count; i++) {
        char *value = deck_key_text(deck, keys[i]);
        char *longer = memory_format("%s%s%s = %s", text, i > 0 ? between : "", keys[i], value);
        free(value);
        free(text);
        text = longer;
    }
    return text;
}

/* "from 1 to 64", "above 0", "of 0 or more", "from 0 to below 1" */
static char *range_text(const struct deck_row *row)
{
    if (isinf(row->maximum))
        return memory_format(row->above_minimum ? "above %.17g" : "of %.17g or more", row->minimum);
    return memory_format("%s %.17g to %s%.17g", row->above_minimum ? "above" : "from", row->minimum,
                         row->below_maximum ? "below " : "", row->maximum);
}

char *deck_row_allowed(const struct deck_row *row)
{
    char *text = NULL;
    if (row->type == DECK_TYPE_BOOL)
        return memory_string("true or false");
    if (row->type == DECK_TYPE_STRING)
        return row->minimum > 0 ? memory_format("a string of %g to %g bytes", row->minimum, row->maximum)
                                : memory_format("a string of at most %g bytes", row->maximum);
    if (row->type == DECK_TYPE_CHOICE) {
        for (int i = 0; row->choices[i] != NULL; i++) {
            char *longer = memory_format("%s%s\"%s\"", i == 0 ? "one of " : text, i == 0 ? "" : ", ", row->choices[i]);
            free(text);
            text = longer;
        }
        return text;
    }
    char *range = range_text(row);
    text = memory_format("%s %s", row->type == DECK_TYPE_INT ? "an integer" : "a number", range);
    free(range);
    return text;
}

char *deck_quote(const char *string)
{
    char *text = memory_grow(NULL, 4 * (int64_t)strlen(string) + 3), *end = text;
    *end++ = '"';
    for (const unsigned char *p = (const unsigned char *)string; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            *end++ = '\\';
        if (*p < ' ' || *p == 127)
            end += sprintf(end, "\\x%02X", *p);
        else
            *end++ = (char)*p;
    }
    *end++ = '"';
    *end = '\0';
    return text;
}

char *deck_real(double value)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    bool real = strpbrk(text, ".e") != NULL || !isfinite(value);
    return memory_format("%s%s", text, real ? "" : ".0");
}

static char *quote_path(const struct deck_row *row, const char *string)
{
    char *literal = row->paths == DECK_PATHS_NONE ? memory_string(string) : path_literal(string);
    char *quoted = deck_quote(literal);
    free(literal);
    return quoted;
}

char *deck_row_value(const struct deck_row *row, const struct deck *deck)
{
    const void *field = (const char *)deck + row->offset;
    switch (row->type) {
    case DECK_TYPE_BOOL:
        return memory_string(*(const bool *)field ? "true" : "false");
    case DECK_TYPE_INT: {
        int64_t value = *(const int64_t *)field;
        /* libconfig reads integers of more than 32 bits only with a final L. */
        return memory_format("%lld%s", (long long)value, value == (int32_t)value ? "" : "L");
    }
    case DECK_TYPE_REAL:
        return deck_real(*(const double *)field);
    case DECK_TYPE_STRING:
        return quote_path(row, field);
    case DECK_TYPE_CHOICE:
        break;
    }
    return deck_quote(row->choices[*(const int *)field]);
}

locale_t deck_locale_enter(void)
{
    locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (c == (locale_t)0)
        error_fatal("out of memory: no locale");
    return uselocale(c);
}

void deck_locale_leave(locale_t previous)
{
    freelocale(uselocale(previous));
}
