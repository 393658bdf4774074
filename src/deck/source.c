#include "deck/source.h"
#include "deck/locate.h"
#include "deck/table.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/range.h"
#include "file/open.h"
#include "file/path.h"

#include <errno.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Limits far beyond any deck: a larger input is a mistake or an attack. */
enum { DEEPEST_INCLUDE = 10, MOST_FILES = 100, MOST_BYTES = 1 << 20, MOST_KEYS = 4000 };

static void scan(struct deck_source *source, const char *text, int file, int depth);

void deck_source_report(struct deck_source *source, int line, const char *format, ...)
{
    if (source->fault_count >= DECK_MOST_FAULTS) {
        source->fault_count++;
        return;
    }
    char *message = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&message, format, arguments) < 0)
        error_fatal("out of memory: a message about the deck");
    va_end(arguments);
    int order = source->fault_count++;
    source->faults = memory_grow(source->faults, source->fault_count * (int64_t)sizeof *source->faults);
    char *text;
    if (line == DECK_COMMAND_LINE) {
        text = memory_format("command line: %s", message);
    } else {
        struct deck_place place = source->places[line - 1];
        text = memory_format("%s:%d: %s", source->files[place.file].name, place.line, message);
    }
    source->faults[order] = (struct deck_fault){.line = line, .order = order, .text = text};
    free(message);
}

static int compare_faults(const void *a, const void *b)
{
    const struct deck_fault *x = a, *y = b;
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line) : x->order - y->order;
}

static int faults_kept(const struct deck_source *source)
{
    return MIN(source->fault_count, DECK_MOST_FAULTS);
}

int deck_source_verdict(struct deck_source *source)
{
    if (source->fault_count == 0)
        return ERROR_NONE;
    const int kept = faults_kept(source);
    qsort(source->faults, (size_t)kept, sizeof *source->faults, compare_faults);
    char *all = memory_string(source->faults[0].text);
    for (int i = 1; i < kept; i++) {
        char *longer = memory_format("%s\n%s", all, source->faults[i].text);
        free(all);
        all = longer;
    }
    int code = error_user("%s%s", all, source->fault_count > kept ? "\nand more of this kind" : "");
    free(all);
    return code;
}

void deck_source_destroy(struct deck_source *source)
{
    for (int i = 0; i < source->file_count; i++)
        free(source->files[i].name);
    for (int i = 0; i < source->setting_count; i++)
        free(source->settings[i].key);
    for (int i = 0; i < faults_kept(source); i++)
        free(source->faults[i].text);
    free(source->notes);
    free(source->files);
    free(source->settings);
    free(source->faults);
    free(source->places);
    free(source->text);
    free(source->section);
    free(source->key);
    *source = (struct deck_source){0};
}

static void fail(struct deck_source *source, int line, const char *what, const char *name, const char *why)
{
    source->broken = true;
    deck_source_report(source, line, "%s%s%s%s", what, name, name[0] != '\0' ? ": " : "", why);
}

static void append(struct deck_source *source, const char *bytes, int64_t count)
{
    if (source->length + count >= source->capacity) {
        source->capacity = 2 * (source->length + count + 1);
        source->text = memory_grow(source->text, source->capacity);
    }
    memcpy(source->text + source->length, bytes, (size_t)count);
    source->length += count;
    source->text[source->length] = '\0';
}

static void add_place(struct deck_source *source, int file, int line)
{
    if ((source->lines & (source->lines - 1)) == 0) /* capacity doubles at powers of two */
        source->places = memory_grow(source->places, (2 * source->lines + 1) * (int64_t)sizeof *source->places);
    source->places[source->lines++] = (struct deck_place){.file = file, .line = line};
}

/* Starts a flat line that comes from this line of a file. */
static void begin_line(struct deck_source *source, int file, int line)
{
    if (source->length > 0 && source->text[source->length - 1] != '\n')
        append(source, "\n", 1);
    else if (source->lines > 0)
        source->lines--; /* the last line is still empty */
    add_place(source, file, line);
}

enum deck_token { TOKEN_OTHER, TOKEN_STRING, TOKEN_COMMENT, TOKEN_NAME, TOKEN_INTEGER, TOKEN_REAL, TOKEN_INCLUDE };

/* Returns the type and bytes of the token at p, by libconfig's rules; *closed is false for a string or comment without
 * an end. */
static enum deck_token next_token(const char *p, int64_t *bytes, bool *closed)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ*0123456789_-";
    const int first_letters = 53; /* a name begins with one of the first 53 letters, and continues with any */
    *closed = true;
    *bytes = 1;
    if (*p == '#' || strncmp(p, "//", 2) == 0) {
        *bytes = (int64_t)strcspn(p, "\n");
        return TOKEN_COMMENT;
    }
    if (strncmp(p, "/*", 2) == 0) {
        const char *end = strstr(p + 2, "*/");
        *closed = end != NULL;
        *bytes = end != NULL ? end + 2 - p : (int64_t)strlen(p);
        return TOKEN_COMMENT;
    }
    if (*p == '"') {
        const char *end = p + 1;
        while (*end != '"' && *end != '\0')
            end += *end == '\\' && end[1] != '\0' ? 2 : 1;
        *closed = *end == '"';
        *bytes = end - p + *closed;
        return TOKEN_STRING;
    }
    if (strncmp(p, "@include", 8) == 0) {
        *bytes = 8;
        return TOKEN_INCLUDE;
    }
    if (memchr(letters, *p, first_letters) != NULL) {
        *bytes = (int64_t)strspn(p, letters);
        return TOKEN_NAME;
    }
    bool hexadecimal = p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    size_t sign = *p == '+' || *p == '-';
    size_t count = hexadecimal ? 2 + strspn(p + 2, "0123456789abcdefABCDEF") : sign + strspn(p + sign, "0123456789");
    if (!hexadecimal && p[count] != '\0' && strchr(".eE", p[count]) != NULL && (count > sign || p[count] == '.')) {
        *bytes = (int64_t)strspn(p, "+-.eE0123456789");
        return TOKEN_REAL;
    }
    if (count == sign)
        return TOKEN_OTHER;
    for (int i = 0; i < 2 && p[count] == 'L'; i++)
        count++;
    *bytes = (int64_t)count;
    return TOKEN_INTEGER;
}

static void scan_integer(struct deck_source *source, const char *token, int64_t bytes)
{
    bool wide = token[bytes - 1] == 'L';
    errno = 0;
    long long value = strtoll(token, NULL, strncmp(token, "0x", 2) == 0 || strncmp(token, "0X", 2) == 0 ? 16 : 10);
    if (errno == ERANGE) {
        /* More than 64 bits: becomes a real, which a real key accepts and an int key refuses. */
        char real[40];
        append(source, real, snprintf(real, sizeof real, "%.17e", strtod(token, NULL)));
        return;
    }
    append(source, token, bytes);
    if (!wide && value != (int32_t)value) {
        deck_source_report(source, source->lines,
                           "key %s = %.*s: an integer of more than 32 bits must end in L; write %.*sL",
                           source->key != NULL ? source->key : "", (int)bytes, token, (int)bytes, token);
        append(source, "L", 1);
    }
}

/* Returns whether `file` is `outer` or is included by it, at any depth. */
static bool lies_in(const struct deck_source *source, int file, int outer)
{
    while (file >= 0 && file != outer)
        file = source->files[file].from;
    return file == outer;
}

void deck_source_note(struct deck_source *source, char *line)
{
    char *longer = memory_format("%s%s\n", source->notes != NULL ? source->notes : "", line);
    free(source->notes);
    free(line);
    source->notes = longer;
}

/* Handles a repeated key: it wins if the earlier one was in an @include that has ended; otherwise it is a fault. */
static void repeat_key(struct deck_source *source, struct deck_setting *setting)
{
    const struct deck_place now = source->places[source->lines - 1], before = source->places[setting->line - 1];
    char suffix[24];
    append(source, suffix, snprintf(suffix, sizeof suffix, "*%d", ++source->repeats));
    if (lies_in(source, now.file, before.file))
        deck_source_report(source, source->lines, "key %s: is set twice, first at %s:%d; keep one", source->key,
                           source->files[before.file].name, before.line);
    else if (!deck_is_section(source->key))
        deck_source_note(source,
                         memory_format("key %s: %s:%d overrides %s:%d", source->key, source->files[now.file].name,
                                       now.line, source->files[before.file].name, before.line));
    setting->line = source->lines;
}

static void scan_key(struct deck_source *source, const char *name, int64_t bytes)
{
    if (source->setting_count + source->repeats == MOST_KEYS) {
        fail(source, source->lines, "", "", "too many keys for a deck");
        return;
    }
    append(source, name, bytes);
    free(source->key);
    source->key = memory_format("%s%.*s", source->section != NULL ? source->section : "", (int)bytes, name);
    if (memchr(name, '*', (size_t)bytes) != NULL)
        deck_source_report(source, source->lines, "key %s: a key cannot contain *", source->key);
    for (int i = 0; i < source->setting_count; i++)
        if (strcmp(source->settings[i].key, source->key) == 0) {
            repeat_key(source, &source->settings[i]);
            return;
        }
    source->settings = memory_grow(source->settings, (source->setting_count + 1) * (int64_t)sizeof *source->settings);
    source->settings[source->setting_count++] =
        (struct deck_setting){.key = memory_string(source->key), .line = source->lines};
}

/* Tracks sections: where a name is a key, and of which section. */
static void scan_mark(struct deck_source *source, char mark)
{
    if (mark == '=' || mark == ':') {
        source->in_value = true;
    } else if (mark == '[' || mark == '(' || (mark == '{' && source->list_depth > 0)) {
        source->list_depth++;
    } else if (source->list_depth > 0 && (mark == ']' || mark == ')' || mark == '}')) {
        source->list_depth--;
        source->in_value = false;
    } else if (mark == '{') {
        free(source->section);
        source->section = memory_format("%s.", source->key != NULL ? source->key : "");
        source->in_value = false;
    } else if (mark == '}' && source->section != NULL && source->section[0] != '\0') {
        char *dot = source->section + strlen(source->section) - 1;
        while (dot > source->section && dot[-1] != '.')
            dot--;
        *dot = '\0';
        source->in_value = false;
    }
}

/* Returns why a text is not a deck, NULL if it may be one; clearer than a syntax error. */
static const char *foreign(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < ' ' && memchr("\t\n\r\f", text[i], 4) == NULL)
            return "it is a binary file, not a deck";
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
        return "it begins with a byte order mark; save it as UTF-8 without one";
    const char *first = text + strspn(text, " \t\r\n");
    if (*first == '>')
        return "it looks like FASTA, not like a deck; cistron prepare, eval --fasta and embed --fasta read it";
    if (*first == '{')
        return "it looks like JSON, not like a deck; cistron prepare reads JSON lines";
    if (strncmp(first, "#!", 2) == 0)
        return "it is a script, not a deck";
    return NULL;
}

/* Returns all text of an open file, ended by '\0', or NULL with *why. */
static char *read_open(FILE *file, int64_t most, const char **why)
{
    char *text = memory_grow(NULL, most + 2);
    size_t bytes = fread(text, 1, (size_t)most + 1, file);
    text[bytes] = '\0';
    *why = ferror(file) ? strerror(errno) : foreign(text, bytes);
    if (*why == NULL && (int64_t)bytes > most)
        *why = "it is larger than 1 MiB with its included files, too large for a deck";
    if (*why == NULL)
        return text;
    free(text);
    return NULL;
}

/* Returns the text of a file, freed with free(), or NULL with *why (static or strerror's). Large and binary files, such
 * as a checkpoint given instead of a deck, are refused with a clear reason instead of a syntax error. */
static char *read_text(const char *path, int64_t most, struct stat *identity, const char **why)
{
    FILE *file = open_stream(path);
    if (file == NULL) {
        *why = errno == EISDIR ? "it is a folder, not a deck" : open_failure();
        return NULL;
    }
    char *text = NULL;
    if (fstat(fileno(file), identity) != 0)
        *why = strerror(errno);
    else
        text = read_open(file, most, why);
    fclose(file);
    return text;
}

static int add_name(struct deck_source *source, const char *name, int from, const struct stat *identity)
{
    source->files = memory_grow(source->files, (source->file_count + 1) * (int64_t)sizeof *source->files);
    source->files[source->file_count] = (struct deck_file){memory_string(name), from, *identity};
    return source->file_count++;
}

/* Returns a message that names the files of an include cycle if the file called `name` includes itself; else NULL.
 * Freed with free(). */
static char *circle(const struct deck_source *source, int from, const char *name, const struct stat *identity)
{
    char *names = memory_string(name);
    for (int file = from; file >= 0; file = source->files[file].from) {
        const struct stat *other = &source->files[file].identity;
        char *longer = memory_format("%s, %s", source->files[file].name, names);
        free(names);
        names = longer;
        if (other->st_ino == identity->st_ino && other->st_dev == identity->st_dev) {
            char *message = memory_format("circular @include: %s", names);
            free(names);
            return message;
        }
    }
    free(names);
    return NULL;
}

/* Includes the file that an @include of `file` names. */
static void include(struct deck_source *source, const char *name, int file, int depth)
{
    struct stat identity;
    const char *why = NULL;
    char *path = deck_locate(source->files[file].name, name), *text = NULL;
    if (depth == DEEPEST_INCLUDE)
        why = "files include each other too deep";
    else if (source->file_count == MOST_FILES)
        why = "too many files are included in all";
    else
        text = read_text(path, MOST_BYTES - source->bytes, &identity, &why);
    char *names = text != NULL ? circle(source, file, path, &identity) : NULL;
    if (text == NULL || names != NULL) {
        fail(source, source->lines, "@include ", path, names != NULL ? names : why);
    } else {
        source->bytes += (int64_t)strlen(text);
        scan(source, text, add_name(source, path, file, &identity), depth + 1);
    }
    free(names);
    free(text);
    free(path);
}

/* Expands the @include at p into the last flat line; returns the bytes of its text. */
static int64_t scan_include(struct deck_source *source, const char *p, int file, int depth)
{
    const char *name = p + 8 + strspn(p + 8, " \t");
    int64_t bytes;
    bool closed;
    if (*name != '"' || next_token(name, &bytes, &closed) != TOKEN_STRING || !closed ||
        memchr(name, '\n', (size_t)bytes) != NULL) {
        fail(source, source->lines, "", "", "syntax error: write @include \"FILE\" on one line");
        return 8;
    }
    char *wanted = memory_format("%.*s", (int)bytes - 2, name + 1);
    if (source->files[0].identity.st_ino == 0)
        fail(source, source->lines, "@include ", wanted, "a deck that is not a file cannot include files");
    else
        include(source, wanted, file, depth);
    free(wanted);
    return name + bytes - p;
}

static void scan(struct deck_source *source, const char *text, int file, int depth)
{
    int line = 1;
    begin_line(source, file, line);
    for (const char *p = text; *p != '\0' && !source->broken;) {
        int64_t bytes;
        bool closed;
        enum deck_token token = next_token(p, &bytes, &closed);
        if (!closed) {
            fail(source, source->lines, "", "",
                 token == TOKEN_STRING ? "syntax error: this string does not end"
                                       : "syntax error: this comment does not end");
            return;
        }
        if (token == TOKEN_INCLUDE) {
            p += scan_include(source, p, file, depth);
            begin_line(source, file, line);
            continue;
        }
        if (token == TOKEN_INTEGER)
            scan_integer(source, p, bytes);
        else if (token == TOKEN_NAME && !source->in_value && source->list_depth == 0)
            scan_key(source, p, bytes);
        else
            for (int64_t i = 0; i < bytes; i++) {
                append(source, p + i, 1);
                if (p[i] == '\n')
                    add_place(source, file, ++line);
            }
        if (token == TOKEN_OTHER)
            scan_mark(source, *p);
        else if (token != TOKEN_COMMENT && source->list_depth == 0)
            source->in_value = false;
        p += bytes;
    }
}

static void add(struct deck_source *source, const char *text, const char *origin, const struct stat *identity)
{
    append(source, "", 0); /* an empty deck needs a text too */
    source->bytes = (int64_t)strlen(text);
    scan(source, text, add_name(source, origin, -1, identity), 0);
}

/* Returns the deck of a folder whose name is nearest to a wrong one, freed with free(); NULL if none is near. */
static char *nearest_deck(const char *folder, const char *name)
{
    glob_t found;
    char *pattern = memory_format("%s/*.cfg", folder), *wrong = path_stem(name), *best = NULL;
    struct nearest_name nearest = {.wrong = wrong};
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            char *stem = path_stem(found.gl_pathv[i]);
            nearest_look(&nearest, stem);
            if (nearest.name == stem) {
                free(best);
                best = memory_string(stem);
                nearest.name = best;
            }
            free(stem);
        }
        globfree(&found);
    }
    free(wrong);
    free(pattern);
    return best;
}

/* Returns advice for a message that a deck's file does not exist. */
static char *advice(const char *name)
{
    if (strchr(name, '=') != NULL)
        return memory_string("; the deck must come before KEY=VALUE");
    if (strchr(name, '/') != NULL)
        return memory_string("");
    char *folder = deck_folder(), *nearest = nearest_deck(folder, name);
    char *text = memory_format("; %s has no deck of that name%s%s", folder, nearest != NULL ? "; the nearest is " : "",
                               nearest != NULL ? nearest : "");
    free(nearest);
    free(folder);
    return text;
}

int deck_source_add_file(struct deck_source *source, const char *name)
{
    struct stat identity;
    const char *why;
    char *path = deck_locate("", name), *text = read_text(path, MOST_BYTES, &identity, &why);
    int code = ERROR_NONE;
    if (text == NULL) {
        char *more = access(path, F_OK) != 0 ? advice(name) : memory_string("");
        code = error_user("deck %s: %s%s", path, why, more);
        free(more);
    } else {
        if (strcmp(path, name) != 0)
            deck_source_note(source, memory_format("deck %s is %s", name, path));
        add(source, text, path, &identity);
    }
    free(text);
    free(path);
    return code;
}

void deck_source_add_text(struct deck_source *source, const char *text, const char *origin)
{
    add(source, text, origin, &(struct stat){0});
}
