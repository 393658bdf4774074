#include "deck/source.h"
#include "deck/table.h"
#include "base/memory.h"
#include "file/path.h"
#include "base/text.h"

#include <errno.h>
#include <libconfig.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void report_unknown(struct deck_source *source, int line, const char *key, bool section)
{
    const char *kind = section ? "section" : "key";
    const char *other = section ? NULL : deck_find_other(key);
    char *nearest = deck_nearest(key, section), name[TEXT_SHORT];
    text_short(name, key);
    if (other != NULL)
        deck_source_report(source, line, "key %s: unknown; its name here is %s%s", name, other,
                           strstr(key, "epoch") != NULL ? " (cistron plan prints the steps of an epoch)" : "");
    else if (nearest != NULL)
        deck_source_report(source, line, "key %s: unknown; the nearest known %s is %s", name, kind, nearest);
    else
        deck_source_report(source, line, "key %s: unknown %s; cistron deck prints all", name, kind);
    free(nearest);
}

static void report_section(struct deck_source *source, int line, const char *key)
{
    deck_source_report(source, line, "key %s: is a section of keys, not a key; set its keys one by one", key);
}

static void set_value(struct deck *deck, struct deck_source *source, int line, const struct deck_row *row,
                      const struct deck_value *value, const char *shown)
{
    char text[TEXT_SHORT];
    const bool own =
        line == DECK_COMMAND_LINE || source->files[0].identity.st_ino != 0; /* false for a checkpoint's deck */
    char *unset = own ? deck_unset_variable(row, value) : NULL;
    if (unset != NULL) {
        deck_source_report(source, line, "key %s = %s: the environment has no variable %s ($$ stands for a $)",
                           row->key, text_short(text, shown), unset);
        free(unset);
        return;
    }
    if (deck_set(deck, row, value))
        return;
    char *allowed = deck_row_allowed(row);
    deck_source_report(source, line, "key %s = %s: must be %s", row->key, text_short(text, shown), allowed);
    free(allowed);
}

/* Notes that a deck calls a key by its old name. */
static void note_old_name(struct deck_source *source, const struct deck_row *row, const char *key)
{
    if (strcmp(row->key, key) != 0)
        deck_source_note(
            source,
            memory_format("key %s: is now named %s; the old name will be refused from release 0.4 on", key, row->key));
}

/* Returns a setting of the file as a value, and as text for a message (freed with free()). */
static struct deck_value setting_value(const config_setting_t *setting, char **shown)
{
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_BOOL: {
        bool truth = config_setting_get_bool(setting) != 0;
        *shown = memory_string(truth ? "true" : "false");
        return (struct deck_value){.kind = DECK_VALUE_BOOL, .truth = truth};
    }
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64: {
        long long integer = config_setting_get_int64(setting);
        *shown = memory_format("%lld", integer);
        return (struct deck_value){.kind = DECK_VALUE_INTEGER, .integer = integer};
    }
    case CONFIG_TYPE_FLOAT: {
        double real = config_setting_get_float(setting);
        *shown = deck_real(real);
        return (struct deck_value){.kind = DECK_VALUE_REAL, .real = real};
    }
    case CONFIG_TYPE_STRING: {
        const char *string = config_setting_get_string(setting);
        *shown = deck_quote(string);
        return (struct deck_value){.kind = DECK_VALUE_STRING, .string = string};
    }
    case CONFIG_TYPE_GROUP:
        *shown = memory_string("{ ... }");
        break;
    case CONFIG_TYPE_ARRAY:
        *shown = memory_string("[ ... ]");
        break;
    default:
        *shown = memory_string("( ... )");
        break;
    }
    return (struct deck_value){.kind = DECK_VALUE_OTHER};
}

/* Returns a list of strings as the single string that lists of paths are stored in, freed with free(); NULL if it is
 * not a list of strings. */
static char *join_paths(const config_setting_t *list)
{
    if (config_setting_is_list(list) == CONFIG_FALSE && config_setting_is_array(list) == CONFIG_FALSE)
        return NULL;
    char *all = memory_string("");
    for (int i = 0; i < config_setting_length(list); i++) {
        const char *path = config_setting_get_string_elem(list, i);
        if (path == NULL) {
            free(all);
            return NULL;
        }
        char *quoted = path_list_quote(path), *longer = memory_format("%s%s%s", all, i > 0 ? "," : "", quoted);
        free(quoted);
        free(all);
        all = longer;
    }
    return all;
}

/* Reads all settings of a group; `section` is "" at the top, else its name and a dot. */
static void read_group(struct deck *deck, struct deck_source *source, const config_setting_t *group,
                       const char *section)
{
    for (int i = 0; i < config_setting_length(group) && source->fault_count <= DECK_MOST_FAULTS; i++) {
        const config_setting_t *setting = config_setting_get_elem(group, (unsigned int)i);
        const char *name = config_setting_name(setting);
        int line = (int)config_setting_source_line(setting);
        /* The scan renamed a repeated key to NAME*N; the later value is used. */
        char *key = memory_format("%s%.*s", section, (int)strcspn(name, "*"), name);
        const struct deck_row *row = deck_find(key);
        if (row != NULL) {
            note_old_name(source, row, key);
            char *shown, *paths = row->paths == DECK_PATHS_LIST ? join_paths(setting) : NULL;
            struct deck_value value = setting_value(setting, &shown);
            if (paths != NULL)
                value = (struct deck_value){.kind = DECK_VALUE_STRING, .string = paths};
            set_value(deck, source, line, row, &value, shown);
            free(paths);
            free(shown);
        } else if (!deck_is_section(key)) {
            report_unknown(source, line, key, config_setting_is_group(setting));
        } else if (!config_setting_is_group(setting)) {
            report_section(source, line, key);
        } else {
            char *inner = memory_format("%s.", key);
            read_group(deck, source, setting, inner);
            free(inner);
        }
        free(key);
    }
}

static void read_source(struct deck *deck, struct deck_source *source)
{
    if (source->broken)
        return;
    config_t config;
    config_init(&config);
    locale_t c = uselocale((locale_t)0);
    bool parsed = config_read_string(&config, source->text) == CONFIG_TRUE;
    uselocale(c); /* libconfig 1.5 leaves the thread with the global locale instead of the previous one */
    if (parsed) {
        read_group(deck, source, config_root_setting(&config), "");
    } else {
        int line = config_error_line(&config);
        deck_source_report(
            source,
            line < 1               ? 1
            : line > source->lines ? source->lines
                                   : line,
            "%s here or just before; the form is optimizer : { lr = 1e-3; }; with strings in double quotes",
            config_error_text(&config));
    }
    config_destroy(&config);
}

/* Returns an override's text as a value of the row's type; DECK_VALUE_OTHER if it is not of that type. `scratch`
 * receives a string without its quotes. */
static struct deck_value override_value(const struct deck_row *row, const char *text, char **scratch)
{
    struct deck_value other = {.kind = DECK_VALUE_OTHER};
    char *end;
    size_t length = strlen(text);
    switch (row->type) {
    case DECK_TYPE_BOOL:
        if (strcasecmp(text, "true") != 0 && strcasecmp(text, "false") != 0)
            return other;
        return (struct deck_value){.kind = DECK_VALUE_BOOL, .truth = strcasecmp(text, "true") == 0};
    case DECK_TYPE_INT: {
        errno = 0;
        int base = strncasecmp(text, "0x", 2) == 0 ? 16 : 10;
        struct deck_value value = {.kind = DECK_VALUE_INTEGER, .integer = strtoll(text, &end, base)};
        bool some = end != text && errno == 0;
        end += *end == 'L';
        return some && *end == '\0' ? value : other;
    }
    case DECK_TYPE_REAL: {
        struct deck_value value = {.kind = DECK_VALUE_REAL, .real = strtod(text, &end)};
        return end != text && *end == '\0' ? value : other;
    }
    case DECK_TYPE_STRING:
    case DECK_TYPE_CHOICE:
        break;
    }
    bool quoted = length >= 2 && text[0] == '"' && text[length - 1] == '"';
    *scratch = quoted ? memory_format("%.*s", (int)length - 2, text + 1) : memory_string(text);
    return (struct deck_value){.kind = DECK_VALUE_STRING, .string = *scratch};
}

static void trim_blanks(char *text)
{
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\n", text[length - 1]) != NULL)
        text[--length] = '\0';
}

static void read_override(struct deck *deck, struct deck_source *source, const char *text)
{
    static const char blanks[] = " \t\n";
    const char *equals = strchr(text, '=');
    char shown[TEXT_SHORT];
    text += strspn(text, blanks);
    if (equals == NULL || equals == text) {
        deck_source_report(source, DECK_COMMAND_LINE, "%s: is not an override; write key=value",
                           text_short(shown, text));
        return;
    }
    char *key = memory_format("%.*s", (int)(equals - text), text), *scratch = NULL;
    char *given = memory_string(equals + 1 + strspn(equals + 1, blanks));
    trim_blanks(key);
    trim_blanks(given);
    const struct deck_row *row = deck_find(key);
    if (row != NULL) {
        note_old_name(source, row, key);
        struct deck_value value = override_value(row, given, &scratch);
        set_value(deck, source, DECK_COMMAND_LINE, row, &value, given);
    } else if (deck_is_section(key)) {
        report_section(source, DECK_COMMAND_LINE, key);
    } else {
        report_unknown(source, DECK_COMMAND_LINE, key, false);
    }
    free(scratch);
    free(given);
    free(key);
}

/* Returns the number of arguments that a shell made of one override with blanks around its '='. */
static int count_pieces(char *const overrides[], int count)
{
    int pieces = 1;
    bool ends = strchr(overrides[0], '=') != NULL; /* the '=' has been found */
    if (!ends && count > 1 && overrides[1][0] == '=') {
        pieces = 2;
        ends = true;
    }
    const char *last = overrides[pieces - 1];
    if (ends && last[strlen(last) - 1] == '=' && count > pieces && strchr(overrides[pieces], '=') == NULL)
        pieces++;
    return pieces;
}

static void refuse_pieces(struct deck_source *source, char *const overrides[], int pieces)
{
    char *whole = memory_string(""), *spaced = memory_string("");
    for (int i = 0; i < pieces; i++) {
        char *longer = memory_format("%s%s", whole, overrides[i]);
        free(whole);
        whole = longer;
        longer = memory_format("%s%s%s", spaced, i > 0 ? " " : "", overrides[i]);
        free(spaced);
        spaced = longer;
    }
    deck_source_report(source, DECK_COMMAND_LINE,
                       "%s: an override is one argument; write %s without blanks, or quotes "
                       "around all of it",
                       spaced, whole);
    free(spaced);
    free(whole);
}

/* Parses what `source` holds, applies the overrides, returns the verdict, and frees the source. *notes (notes may be
 * NULL) gets its notes, freed with free(). */
static int finish(struct deck *deck, struct deck_source *source, char *const overrides[], int override_count,
                  char **notes)
{
    read_source(deck, source);
    for (int i = 0, pieces; i < override_count; i += pieces) {
        pieces = count_pieces(overrides + i, override_count - i);
        if (pieces == 1)
            read_override(deck, source, overrides[i]);
        else
            refuse_pieces(source, overrides + i, pieces);
    }
    int code = deck_source_verdict(source);
    if (notes != NULL)
        *notes = memory_string(source->notes != NULL ? source->notes : "");
    deck_source_destroy(source);
    return code;
}

int deck_read(struct deck *deck, const char *name, char *const overrides[], int override_count, char **notes)
{
    struct deck_source source = {0};
    locale_t previous = deck_locale_enter();
    deck_defaults(deck);
    int code = deck_source_add_file(&source, name);
    if (code == ERROR_NONE)
        code = finish(deck, &source, overrides, override_count, notes);
    else if (notes != NULL)
        *notes = memory_string(source.notes != NULL ? source.notes : "");
    deck_locale_leave(previous);
    return code;
}

int deck_read_text(struct deck *deck, const char *text, const char *origin, char *const overrides[], int override_count)
{
    struct deck_source source = {0};
    locale_t previous = deck_locale_enter();
    deck_defaults(deck);
    deck_source_add_text(&source, text, origin);
    int code = finish(deck, &source, overrides, override_count, NULL);
    deck_locale_leave(previous);
    return code;
}
