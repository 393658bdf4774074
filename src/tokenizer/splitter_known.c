#include "tokenizer/splitter_known.h"
#include "tokenizer/classes.h"
#include "tokenizer/utf8.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct splitter_known {
    const char *pattern;
    bool newer; /* true (Llama 3, Qwen 2): contractions in either case, letters may follow one other character, newlines
                   belong to what precedes them; false (GPT-2): a space may precede letters and numbers */
    int digits; /* maximum digits of a number */
};

const char splitter_gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

#define NEWER(digits)                                                                                                  \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits                                         \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const char splitter_llama3[] = NEWER("{1,3}"), splitter_qwen2[] = NEWER("");

#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"
const char splitter_words[] = "[" WORD "]+|[^" WORD "\\s]+";

static const struct splitter_known knowns[] = {
    {splitter_gpt2, false, INT_MAX}, {splitter_llama3, true, 3}, {splitter_qwen2, true, 1}};

const struct splitter_known *splitter_known_find(const char *pattern)
{
    for (size_t i = 0; i < sizeof knowns / sizeof *knowns; i++)
        if (strcmp(knowns[i].pattern, pattern) == 0)
            return &knowns[i];
    return NULL;
}

/* Returns the class bits of the character at `text`, and sets its length in bytes. */
static inline unsigned class_at(const uint8_t *of, const unsigned char *text, int *length)
{
    return of[utf8_read(text, length)];
}

/* Returns the end of the run, at most `most` characters, of characters that are (`wanted`) or are not in one of the
 * classes. */
static inline const unsigned char *run_end(const uint8_t *of, unsigned classes, bool wanted, int64_t most,
                                           const unsigned char *text, const unsigned char *end)
{
    int length;
    for (; text < end && most > 0 && ((class_at(of, text, &length) & classes) != 0) == wanted; most--)
        text += length;
    return text;
}

/* Returns the bytes of a contraction 's 't 're 've 'm 'll 'd at an apostrophe; 0: none. With either_case, a long s
 * (U+017F) counts as an s. */
static int contraction(const unsigned char *text, const unsigned char *end, bool either_case)
{
    unsigned char fold = either_case ? 0x20 : 0;
    ptrdiff_t rest = end - text;
    if (rest < 2)
        return 0;
    switch (text[1] | fold) {
    case 's':
    case 't':
    case 'm':
    case 'd':
        return 2;
    case 'r':
    case 'v':
        return rest > 2 && (text[2] | fold) == 'e' ? 3 : 0;
    case 'l':
        return rest > 2 && (text[2] | fold) == 'l' ? 3 : 0;
    default:
        return either_case && rest > 2 && memcmp(text + 1, "\xc5\xbf", 2) == 0 ? 3 : 0;
    }
}

static const unsigned char *space_end(const struct splitter_known *known, const uint8_t *of, const unsigned char *text,
                                      const unsigned char *end)
{
    const unsigned char *at = text, *last = text, *behind_newline = NULL;
    int length;
    while (at < end && (class_at(of, at, &length) & CLASS_SPACE)) {
        last = at;
        at += length;
        if (*last == '\r' || *last == '\n')
            behind_newline = at;
    }
    if (known->newer && behind_newline != NULL)
        return behind_newline;
    return at < end && last > text ? last : at; /* the last one may belong to the next piece */
}

const unsigned char *splitter_known_next(const struct splitter_known *known, const struct character_classes *classes,
                                         const unsigned char *text, const unsigned char *end)
{
    enum { ALPHANUMERIC = CLASS_LETTER | CLASS_NUMBER, NO_OTHER = ALPHANUMERIC | CLASS_SPACE };
    const uint8_t *of = classes->of;
    int length, next_length;
    unsigned first = class_at(of, text, &length), second = 0;
    bool space = *text == ' ';
    if (*text == '\'') {
        int bytes = contraction(text, end, known->newer);
        if (bytes > 0)
            return text + bytes;
    }
    if (first & CLASS_LETTER)
        return run_end(of, CLASS_LETTER, true, INT64_MAX, text + length, end);
    if (first & CLASS_NUMBER)
        return run_end(of, CLASS_NUMBER, true, known->digits - 1, text + length, end);
    const unsigned char *next = text + length;
    if (next < end) {
        bool before = known->newer ? *text != '\r' && *text != '\n' : space;
        second = class_at(of, next, &next_length);
        if (before && (second & CLASS_LETTER))
            return run_end(of, CLASS_LETTER, true, INT64_MAX, next, end);
        if (space && !known->newer && (second & CLASS_NUMBER))
            return run_end(of, CLASS_NUMBER, true, INT64_MAX, next, end);
    }
    if (!(first & CLASS_SPACE) || (space && next < end && !(second & NO_OTHER))) {
        next = run_end(of, NO_OTHER, false, INT64_MAX, next, end);
        while (known->newer && next < end && (*next == '\r' || *next == '\n'))
            next++;
        return next;
    }
    return space_end(known, of, text, end);
}
