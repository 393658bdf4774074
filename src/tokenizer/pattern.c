#include "tokenizer/pattern.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "tokenizer/classes.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_BYTES = 1 << 16,
    GROWTH = 32 /* limit of output bytes per input byte */
};

struct translation {
    const char *whole, *at, *where;
    char *out;
    bool in_set;
};

static void put(struct translation *t, const char *text, size_t bytes)
{
    memcpy(t->out, text, bytes);
    t->out += bytes;
}

static void put_text(struct translation *t, const char *text)
{
    put(t, text, strlen(text));
}

static int refuse(const struct translation *t, const char *what)
{
    char shown[TEXT_SHORT];
    return error_user("%s: \"%s\", byte %td: %s", t->where, text_short(shown, t->whole), t->at - t->whole + 1, what);
}

/* Copies `bytes` bytes of the pattern. */
static int copy(struct translation *t, size_t bytes)
{
    put(t, t->at, bytes);
    t->at += bytes;
    return ERROR_NONE;
}

/* Copies a letter and a name in braces: \p{Lu}, \P{Han}, \x{85}. */
static int copy_braced(struct translation *t)
{
    size_t length =
        t->at[2] == '{' ? strspn(t->at + 3, "^_ ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") : 0;
    if (length == 0 || t->at[3 + length] != '}')
        return refuse(t, "must be followed by a name or a number in braces, as in \\p{L} or \\x{85}");
    return copy(t, 4 + length);
}

static int escape(struct translation *t)
{
    char letter = t->at[1];
    switch (letter) {
    case 's':
    case 'S':
        if (letter == 'S' && t->in_set)
            return refuse(t, "\\S inside [] is not supported");
        put_text(t, t->in_set ? "" : letter == 's' ? "[" : "[^");
        put_text(t, CLASSES_SPACE);
        put_text(t, t->in_set ? "" : "]");
        t->at += 2;
        return ERROR_NONE;
    case 'p':
    case 'P':
    case 'x':
        return copy_braced(t);
    case 'u':
        for (int i = 2; i < 6; i++)
            if (!isxdigit((unsigned char)t->at[i]))
                return refuse(t, "\\u must be followed by four hexadecimal digits");
        put_text(t, "\\x{");
        put(t, t->at + 2, 4);
        put_text(t, "}");
        t->at += 6;
        return ERROR_NONE;
    case 'd':
    case 'D':
    case 'r':
    case 'n':
    case 't':
    case 'f':
        return copy(t, 2);
    default:
        if (ispunct((unsigned char)letter))
            return copy(t, 2);
        return refuse(t, "the escapes that are supported are \\s \\S \\d \\D \\p{} \\P{} \\x{} \\u \\r \\n \\t \\f and "
                         "those of punctuation");
    }
}

/* Copies a repetition {n,m}. Rejects {n}? and {n,m}+, which have another meaning in Oniguruma. */
static int repeat(struct translation *t)
{
    const char *digits = "0123456789";
    size_t least = strspn(t->at + 1, digits), length = 1 + least;
    bool range = t->at[length] == ',';
    if (range)
        length += 1 + strspn(t->at + length + 1, digits);
    if (least == 0 || t->at[length] != '}')
        return refuse(t, "{ must begin {n}, {n,} or {n,m}, or be written \\{");
    char next = t->at[length + 1];
    if (next == '+' || (next == '?' && !range))
        return refuse(t, "{n}?, {n}+ and {n,m}+ are not supported");
    return copy(t, length + 1);
}

static int group(struct translation *t)
{
    static const char *const kinds[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    if (t->at[1] != '?') {
        put_text(t, "(?:");
        t->at++;
        return ERROR_NONE;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(t->at, kinds[i], strlen(kinds[i])) == 0)
            return copy(t, strlen(kinds[i]));
    return refuse(t, "the groups that are supported are ( (?: (?i: (?= (?! (?<= (?<! (?>");
}

static int set_begin(struct translation *t)
{
    copy(t, t->at[1] == '^' ? 2 : 1);
    t->in_set = true;
    return *t->at == ']' ? refuse(t, "] as the first of a set must be written \\]") : ERROR_NONE;
}

static int in_set(struct translation *t)
{
    if (*t->at == '[')
        return refuse(t, "[ inside [] must be written \\[: sets in sets are not supported");
    if (*t->at == '&' && t->at[1] == '&')
        return refuse(t, "&& inside [] is not supported");
    t->in_set = *t->at != ']';
    return copy(t, 1);
}

static int step(struct translation *t)
{
    if (*t->at == '\\')
        return escape(t);
    if (t->in_set)
        return in_set(t);
    switch (*t->at) {
    case '[':
        return set_begin(t);
    case ']':
        return refuse(t, "] outside [] must be written \\]");
    case '(':
        return group(t);
    case '{':
        return repeat(t);
    case '^':
    case '$': /* match at line ends, as always in Oniguruma */
        put_text(t, "(?m:");
        copy(t, 1);
        put_text(t, ")");
        return ERROR_NONE;
    default:
        return copy(t, 1);
    }
}

int pattern_translate(char **out, const char *pattern, const char *where)
{
    size_t bytes = strlen(pattern);
    *out = NULL;
    if (bytes > MOST_BYTES)
        return error_user("%s: has %zu bytes; at most %d are allowed", where, bytes, MOST_BYTES);
    char *text = memory_grow(NULL, (int64_t)bytes * GROWTH + 1);
    struct translation t = {.whole = pattern, .at = pattern, .where = where, .out = text};
    int code = ERROR_NONE;
    while (code == ERROR_NONE && *t.at != '\0')
        code = step(&t);
    if (code != ERROR_NONE) {
        free(text);
        return code;
    }
    *t.out = '\0';
    *out = text;
    return ERROR_NONE;
}
