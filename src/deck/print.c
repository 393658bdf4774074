#include "deck/table.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { COMMENT_WIDTH = 100 };

static const char INTRODUCTION[] =
    "A deck is a libconfig file: sections of keys, strings in double quotes, comments after # or //. A missing key has "
    "the default shown here. @include \"FILE\" includes another deck, by its path from the folder of the including "
    "file "
    "or by the name of a deck that comes with Cistron; keys after that line override the included ones. Otherwise a "
    "key "
    "may be set once. key=value on the command line (optimizer.lr=3e-5) overrides the deck. In paths ~ is the home "
    "folder, $NAME and ${NAME} are replaced from the environment, and $$ is a $.";

static bool is_refused(const struct deck_row *row)
{
    return row->restart >= RESTART_TENSORS;
}

/* Returns the text in parentheses after a row's sentences. Freed with free(). */
static char *row_notes(const struct deck_row *row)
{
    char *allowed = deck_row_allowed(row);
    char *notes = memory_format("%s%s%s%s", allowed, row->unit != NULL ? "; " : "", row->unit != NULL ? row->unit : "",
                                is_refused(row) ? "; cannot change in a resumed run" : "");
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

/* The section of a key: its bytes up to the last dot, 6 for "model.hidden"; 0 bytes outside all sections. */
struct section {
    const char *key;
    int bytes;
};

static struct section section_of(const char *key)
{
    return (struct section){key, (int)(strrchr(key, '.') + 1 - key)};
}

static bool same_section(struct section a, struct section b)
{
    return a.bytes == b.bytes && strncmp(a.key, b.key, (size_t)a.bytes) == 0;
}

static int depth_of(struct section section)
{
    int depth = 0;
    for (int i = 0; i < section.bytes; i++)
        depth += section.key[i] == '.';
    return depth;
}

/* Closes and opens groups to get from one section to another. */
static void change_section(FILE *file, struct section from, struct section to)
{
    struct section common = {to.key, 0};
    for (int i = 0; i < from.bytes && i < to.bytes && from.key[i] == to.key[i]; i++)
        if (from.key[i] == '.')
            common.bytes = i + 1;
    int depth = depth_of(from), stay = depth_of(common);
    while (depth > stay)
        fprintf(file, "%*s};\n", 4 * --depth, "");
    if (depth == 0 && to.bytes > 0)
        fputc('\n', file);
    for (int start = common.bytes; start < to.bytes; depth++) {
        int name = (int)strcspn(to.key + start, ".");
        fprintf(file, "%*s%.*s : {\n", 4 * depth, "", name, to.key + start);
        start += name + 1;
    }
}

static void print_deck(FILE *file, const struct deck *deck, bool comments)
{
    struct section section = {"", 0};
    for (int i = 0; i < deck_table_rows; i++) {
        const struct deck_row *row = &deck_table[i];
        const struct section own = section_of(row->key);
        if (!same_section(own, section))
            change_section(file, section, own);
        section = own;
        int indent = 4 * depth_of(section);
        if (comments) {
            char *notes = row_notes(row), *text = memory_format("%s (%s)", row->doc, notes);
            print_comment(file, indent, text);
            free(text);
            free(notes);
        }
        char *value = deck_row_value(row, deck);
        fprintf(file, "%*s%s = %s;\n", indent, "", row->key + section.bytes, value);
        free(value);
    }
    change_section(file, section, (struct section){"", 0});
}

char *deck_print_effective(const struct deck *deck)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = memory_stream(&text, &bytes);
    locale_t previous = deck_locale_enter();
    print_deck(file, deck, false);
    deck_locale_leave(previous);
    memory_stream_end(file);
    return text;
}

char *deck_print_changed(const struct deck *deck)
{
    struct deck *defaults = deck_create();
    char *text = memory_string("");
    locale_t previous = deck_locale_enter();
    for (int i = 0; i < deck_table_rows; i++) {
        const struct deck_row *row = &deck_table[i];
        char *value = deck_row_value(row, deck), *usual = deck_row_value(row, defaults);
        if (strcmp(value, usual) != 0) {
            char *longer = memory_format("%s%s = %s\n", text, row->key, value);
            free(text);
            text = longer;
        }
        free(value);
        free(usual);
    }
    deck_locale_leave(previous);
    memory_free(defaults);
    return text;
}

void deck_print_reference(FILE *file)
{
    struct deck *deck = deck_create();
    locale_t previous = deck_locale_enter();
    print_comment(file, 0, INTRODUCTION);
    print_deck(file, deck, true);
    deck_locale_leave(previous);
    memory_free(deck);
}

static bool share_rule(const struct deck_row *a, const struct deck_row *b)
{
    return a->restart == b->restart && same_section(section_of(a->key), section_of(b->key));
}

/* Prints the table of restart rules. Consecutive keys of a section with the same rule share a row. */
static void print_restarts(FILE *file)
{
    fprintf(
        file,
        "\n## At a restart\n\nWhich keys may differ between a checkpoint and the run that resumes from it. A logged "
        "change is printed when the run resumes; log.jsonl has all changes (event `start`).\n\n"
        "| Keys | A change is | because |\n|---|---|---|\n");
    for (int i = 0; i < deck_table_rows; i++) {
        const struct deck_row *row = &deck_table[i];
        fprintf(file, "%s `%s`", i == 0 || !share_rule(row - 1, row) ? "|" : "", row->key);
        if (i + 1 == deck_table_rows || !share_rule(row, row + 1))
            fprintf(file, " | %s | %s |\n",
                    is_refused(row)                  ? "refused"
                    : row->restart == RESTART_LOGGED ? "logged"
                                                     : "allowed",
                    deck_restarts[row->restart]);
    }
}

void deck_print_markdown(FILE *file)
{
    struct deck *deck = deck_create();
    locale_t previous = deck_locale_enter();
    fprintf(file, "# The deck\n\n%s `cistron deck` prints this page as a deck.\n", INTRODUCTION);
    struct section section = {"", 0};
    for (int i = 0; i < deck_table_rows; i++) {
        const struct deck_row *row = &deck_table[i];
        const struct section own = section_of(row->key);
        if (!same_section(own, section))
            fprintf(file, "\n## %.*s\n\n| Key | Default | Meaning |\n|---|---|---|\n", own.bytes - 1, own.key);
        section = own;
        char *value = deck_row_value(row, deck), *notes = row_notes(row);
        fprintf(file, "| `%s` | `%s` | %s (%s) |\n", row->key, value, row->doc, notes);
        free(notes);
        free(value);
    }
    deck_locale_leave(previous);
    memory_free(deck);
    print_restarts(file);
}

/* Returns a text without quotes; other values as deck_row_value. Freed with free(). */
static char *bare_value(const struct deck_row *row, const struct deck *deck)
{
    const void *field = (const char *)deck + row->offset;
    if (row->type == DECK_TYPE_STRING)
        return memory_string(field);
    if (row->type == DECK_TYPE_CHOICE)
        return memory_string(row->choices[*(const int *)field]);
    return deck_row_value(row, deck);
}

struct deck_changes deck_compare(const struct deck *old, const struct deck *new_)
{
    struct deck_changes found = {memory_allocate(deck_table_rows * (int64_t)sizeof *found.changes), 0};
    locale_t previous = deck_locale_enter();
    for (int i = 0; i < deck_table_rows; i++) {
        const struct deck_row *row = &deck_table[i];
        struct deck_change change = {.key = row->key,
                                     .refused = is_refused(row) ? deck_restarts[row->restart] : NULL,
                                     .logged = row->restart == RESTART_LOGGED,
                                     .is_text = row->type == DECK_TYPE_STRING || row->type == DECK_TYPE_CHOICE,
                                     .old = bare_value(row, old),
                                     .new_ = bare_value(row, new_)};
        if (strcmp(change.old, change.new_) != 0) {
            found.changes[found.count++] = change;
        } else {
            free(change.old);
            free(change.new_);
        }
    }
    deck_locale_leave(previous);
    return found;
}

void deck_changes_destroy(struct deck_changes *changes)
{
    for (int i = 0; i < changes->count; i++) {
        free(changes->changes[i].old);
        free(changes->changes[i].new_);
    }
    memory_free(changes->changes);
    *changes = (struct deck_changes){NULL};
}

char *deck_change_value(const struct deck_change *change, bool new_)
{
    const char *value = new_ ? change->new_ : change->old;
    return change->is_text ? deck_quote(value) : memory_string(value);
}

char *deck_change_text(const struct deck_change *change)
{
    char *old = deck_change_value(change, false), *new_ = deck_change_value(change, true);
    char *text = memory_format("%s = %s (was %s)", change->key, new_, old);
    free(old);
    free(new_);
    return text;
}

int deck_compare_for_resume(const struct deck *old, const struct deck *new_, char **differences)
{
    struct deck_changes all = deck_compare(old, new_);
    int count = 0;
    *differences = NULL;
    for (int i = 0; i < all.count; i++) {
        if (all.changes[i].refused == NULL)
            continue;
        char *then = deck_change_value(&all.changes[i], false), *now = deck_change_value(&all.changes[i], true);
        char *longer = memory_format("%s%skey %s: %s in the checkpoint, %s now (%s)", count > 0 ? *differences : "",
                                     count > 0 ? "\n" : "", all.changes[i].key, then, now, all.changes[i].refused);
        free(*differences);
        *differences = longer;
        count++;
        free(then);
        free(now);
    }
    deck_changes_destroy(&all);
    return count;
}

void deck_print_keys(FILE *file, const char *ending)
{
    for (int i = 0; i < deck_table_rows; i++)
        fprintf(file, "%s%s\n", deck_table[i].key, ending);
}
