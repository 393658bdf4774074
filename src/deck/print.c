#include "deck/table.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { COMMENT_WIDTH = 100 };

static const char INTRODUCTION[] =
    "A deck is a libconfig file: sections of keys, strings in double quotes, comments behind # or //. "
    "A key that is left out has the value shown here. @include \"FILE\" takes in another deck, found from the folder "
    "of the file that includes it; a key may be given only once in all. On the command line key=value "
    "(optimizer.lr=3e-5) overrides a deck.";

/* What stands in parentheses behind a row's sentences. Freed with free(). */
static char *row_notes(const struct deck_row *row)
{
    char *allowed = deck_row_allowed(row);
    char *notes = memory_format("%s%s%s%s", allowed, row->unit != NULL ? "; " : "", row->unit != NULL ? row->unit : "",
                                row->may_change ? "" : "; fixed once a run has begun");
    free(allowed);
    return notes;
}

static void print_comment(FILE *file, int indent, const char *text)
{
    int column = 0;
    while (*text != '\0') {
        int word = (int)strcspn(text, " ");
        if (column > 0 && column + 1 + word > COMMENT_WIDTH) {
            fputc('\n', file);
            column = 0;
        }
        if (column == 0)
            column = fprintf(file, "%*s#", indent, "");
        column += fprintf(file, " %.*s", word, text);
        text += word + strspn(text + word, " ");
    }
    fputc('\n', file);
}

/* Bytes of the row's section with its last dot: 6 for "model.hidden". */
static int section_bytes(const char *key)
{
    return (int)(strrchr(key, '.') + 1 - key);
}

static int depth_of(const char *section, int bytes)
{
    int depth = 0;
    for (int i = 0; i < bytes; i++)
        depth += section[i] == '.';
    return depth;
}

/* Close and open groups to get from the section `from` ("" outside all) to `to`. */
static void change_section(FILE *file, const char *from, int from_bytes, const char *to, int to_bytes)
{
    int common = 0;
    for (int i = 0; i < from_bytes && i < to_bytes && from[i] == to[i]; i++)
        if (from[i] == '.')
            common = i + 1;
    int depth = depth_of(from, from_bytes), stay = depth_of(to, common);
    while (depth > stay)
        fprintf(file, "%*s};\n", 4 * --depth, "");
    if (depth == 0 && to_bytes > 0)
        fputc('\n', file);
    for (int start = common; start < to_bytes; depth++) {
        int name = (int)strcspn(to + start, ".");
        fprintf(file, "%*s%.*s : {\n", 4 * depth, "", name, to + start);
        start += name + 1;
    }
}

static void print_deck(FILE *file, const struct deck *deck, bool comments)
{
    const char *section = "";
    int bytes = 0;
    for (int i = 0; i < deck_table_rows; i++) {
        const struct deck_row *row = &deck_table[i];
        int row_bytes = section_bytes(row->key);
        if (row_bytes != bytes || strncmp(row->key, section, (size_t)bytes) != 0)
            change_section(file, section, bytes, row->key, row_bytes);
        section = row->key;
        bytes = row_bytes;
        int indent = 4 * depth_of(section, bytes);
        if (comments) {
            char *notes = row_notes(row), *text = memory_format("%s (%s)", row->doc, notes);
            print_comment(file, indent, text);
            free(text);
            free(notes);
        }
        char *value = deck_row_value(row, deck);
        fprintf(file, "%*s%s = %s;\n", indent, "", row->key + bytes, value);
        free(value);
    }
    change_section(file, section, bytes, "", 0);
}

char *deck_print_effective(const struct deck *deck)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    if (file == NULL)
        error_fatal("out of memory: the effective deck");
    locale_t previous = deck_locale_enter();
    print_deck(file, deck, false);
    deck_locale_leave(previous);
    if (fclose(file) != 0)
        error_fatal("out of memory: the effective deck");
    return text;
}

char *deck_print_changed(const struct deck *deck)
{
    struct deck defaults;
    deck_defaults(&defaults);
    char *text = memory_string("");
    locale_t previous = deck_locale_enter();
    for (int i = 0; i < deck_table_rows; i++) {
        const struct deck_row *row = &deck_table[i];
        char *value = deck_row_value(row, deck), *usual = deck_row_value(row, &defaults);
        if (strcmp(value, usual) != 0) {
            char *longer = memory_format("%s%s = %s\n", text, row->key, value);
            free(text);
            text = longer;
        }
        free(value);
        free(usual);
    }
    deck_locale_leave(previous);
    return text;
}

void deck_print_reference(FILE *file)
{
    struct deck deck;
    deck_defaults(&deck);
    locale_t previous = deck_locale_enter();
    print_comment(file, 0, INTRODUCTION);
    print_deck(file, &deck, true);
    deck_locale_leave(previous);
}

void deck_print_markdown(FILE *file)
{
    struct deck deck;
    deck_defaults(&deck);
    locale_t previous = deck_locale_enter();
    fprintf(file, "# The deck\n\n%s `cistron deck` prints this page as a deck.\n", INTRODUCTION);
    const char *section = "";
    int bytes = 0;
    for (int i = 0; i < deck_table_rows; i++) {
        const struct deck_row *row = &deck_table[i];
        int row_bytes = section_bytes(row->key);
        if (row_bytes != bytes || strncmp(row->key, section, (size_t)bytes) != 0)
            fprintf(file, "\n## %.*s\n\n| Key | Default | Meaning |\n|---|---|---|\n", row_bytes - 1, row->key);
        section = row->key;
        bytes = row_bytes;
        char *value = deck_row_value(row, &deck), *notes = row_notes(row);
        fprintf(file, "| `%s` | `%s` | %s (%s) |\n", row->key, value, row->doc, notes);
        free(notes);
        free(value);
    }
    deck_locale_leave(previous);
}

int deck_compare_for_resume(const struct deck *old, const struct deck *new_, char **differences)
{
    int count = 0;
    *differences = NULL;
    locale_t previous = deck_locale_enter();
    for (int i = 0; i < deck_table_rows; i++) {
        const struct deck_row *row = &deck_table[i];
        char *then = deck_row_value(row, old), *now = deck_row_value(row, new_);
        if (!row->may_change && strcmp(then, now) != 0) {
            char *longer = memory_format("%s%skey %s: %s in the checkpoint, %s now", count > 0 ? *differences : "",
                                         count > 0 ? "\n" : "", row->key, then, now);
            free(*differences);
            *differences = longer;
            count++;
        }
        free(then);
        free(now);
    }
    deck_locale_leave(previous);
    return count;
}

void deck_print_keys(FILE *file, const char *ending)
{
    for (int i = 0; i < deck_table_rows; i++)
        fprintf(file, "%s%s\n", deck_table[i].key, ending);
}
