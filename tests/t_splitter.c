/* Texts are split into words before BPE: split patterns and behaviors of tokenizer.json, Unicode's white space, and
 * hand-written matchers of known patterns against PCRE2 on all characters in use. */
#include "base/error.h"
#include "check.h"
#include "tokenizer/classes.h"
#include "tokenizer/splitter.h"
#include "tokenizer/splitter_known.h"
#include "tokenizer/utf8.h"
#include "tokenizers.h"

#include <string.h>

static void check_patterns(void)
{
    static const struct {
        const char *pattern, *says; /* NULL: taken */
    } cases[] = {{"\\p{Lu}+|\\P{^L}|[^\\s\\p{N}\\u00e9]*?x", NULL},
                 {"a++b*+c?+(?>d)(e){2}(?<!f)(?<=g)(?!h)", NULL},
                 {"^a|b$", NULL},
                 {"\\d{1,3}?\\x{85}[\\]\\-\\[]", NULL},
                 {"a{1,3}+", "byte 2: {n}?"},
                 {"a{2}?", "byte 2: {n}?"},
                 {"a{,3}", "byte 2: {"},
                 {"a{", "byte 2: {"},
                 {"\\w+", "byte 1: the escapes"},
                 {"\\bx", "byte 1: the escapes"},
                 {"(a)\\1", "byte 4: the escapes"},
                 {"\\h", "byte 1: the escapes"},
                 {"a\\", "byte 2: the escapes"},
                 {"\\pL", "byte 1: must be followed"},
                 {"\\x41", "byte 1: must be followed"},
                 {"\\u12", "byte 1: \\u must"},
                 {"[\\S]", "byte 2: \\S inside"},
                 {"[a[b]]", "byte 3: [ inside"},
                 {"[a&&b]", "byte 3: && inside"},
                 {"[]a]", "byte 2: ] as the first"},
                 {"a]", "byte 2: ] outside"},
                 {"(?i)a", "byte 1: the groups"},
                 {"(?<n>a)", "byte 1: the groups"},
                 {"(?P<n>a)", "byte 1: the groups"},
                 {"(?m:a)", "byte 1: the groups"},
                 {"(a", "PCRE2 rejects it"},
                 {"[a", "PCRE2 rejects it"},
                 {"\\p{Odd}", "PCRE2 rejects it"},
                 {"a*", "must not match the empty string"},
                 {"(?=a)", "must not match the empty string"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text_splitter *split;
        error_clear();
        int code = splitter_open(&split, &(struct splitter_settings){.pattern = cases[i].pattern, .where = "P"});
        CHECK(code == (cases[i].says == NULL ? ERROR_NONE : ERROR_USER));
        if (!CHECK(strstr(error_message(), cases[i].says == NULL ? "" : cases[i].says) != NULL))
            fprintf(stderr, "    %s says \"%s\"\n", cases[i].pattern, error_message());
        splitter_close(split);
    }

    /* the reason is seen whatever the pattern's length */
    enum { LONG = 16000 };
    char pattern[LONG + 2];
    memset(pattern, 'a', LONG);
    strcpy(pattern + LONG, "]");
    struct text_splitter *split;
    error_clear();
    CHECK(splitter_open(&split, &(struct splitter_settings){.pattern = pattern, .where = "P"}) == ERROR_USER);
    CHECK(strlen(error_message()) < 300 && strstr(error_message(), "aaa...\", byte 16001: ] outside") != NULL);
    pattern[0] = '(';
    pattern[LONG] = '\0';
    error_clear();
    CHECK(splitter_open(&split, &(struct splitter_settings){.pattern = pattern, .where = "P"}) == ERROR_USER);
    CHECK(strlen(error_message()) < 300 && strstr(error_message(), "aaa...\": PCRE2 rejects it: ") != NULL);
}

/* -- Behaviors -------------------------------------------------------------------------------------------------------
 */

static int take_text(void *context, const unsigned char *piece, int64_t bytes)
{
    put(context, "%.*s|", (int)bytes, (const char *)piece);
    return ERROR_NONE;
}

static void check_behaviors(void)
{
    static const struct {
        enum splitter_behavior behavior;
        bool invert;
        const char *pieces;
    } cases[] = {{SPLIT_REMOVED, false, "ab|c|"},
                 {SPLIT_REMOVED, true, "!|!|!|!|"},
                 {SPLIT_ISOLATED, false, "!|ab|!|!|c|!|"},
                 {SPLIT_ISOLATED, true, "!|ab|!|!|c|!|"},
                 {SPLIT_MERGED_WITH_PREVIOUS, false, "!|ab!|!|c!|"},
                 {SPLIT_MERGED_WITH_PREVIOUS, true, "!ab|!|!c|!|"},
                 {SPLIT_MERGED_WITH_NEXT, false, "!ab|!|!c|!|"},
                 {SPLIT_MERGED_WITH_NEXT, true, "!|ab!|!|c!|"},
                 {SPLIT_CONTIGUOUS, false, "!|ab|!!|c|!|"},
                 {SPLIT_CONTIGUOUS, true, "!|ab|!!|c|!|"}};
    struct splitter_scratch *scratch = splitter_scratch_open();
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        char out[64], *end = out;
        struct text_splitter *split;
        struct splitter_settings settings = {"!", i % 2 > 0, cases[i / 2].behavior, cases[i / 2].invert, false, "P"};
        CHECK(splitter_open(&split, &settings) == ERROR_NONE);
        CHECK(splitter_run(split, scratch, (const unsigned char *)"!ab!!c!", 7, take_text, &end) == ERROR_NONE);
        CHECK_STRING(out, cases[i / 2].pieces);
        splitter_close(split);
    }
    splitter_scratch_close(scratch);
}

/* Unicode's White_Space. Source: PropList.txt */
static void check_spaces(void)
{
    static const uint32_t spaces[] = {0x9,    0xa,    0xb,    0xc,    0xd,    0x20,   0x85,   0xa0,   0x1680,
                                      0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                      0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000};
    const struct character_classes *classes = classes_get();
    int64_t all = 0;
    for (uint32_t code = 0; code < UTF8_CODE_POINTS; code++)
        all += (classes->of[code] & CLASS_SPACE) != 0;
    CHECK(all == sizeof spaces / sizeof *spaces);
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        CHECK(classes->of[spaces[i]] == CLASS_SPACE);
}

/* -- Patterns by hand ------------------------------------------------------------------------------------------------
 */

enum { MOST_PIECES = 1 << 12 };

struct pieces {
    const unsigned char *ends[MOST_PIECES];
    int count;
};

static int take(void *context, const unsigned char *piece, int64_t bytes)
{
    struct pieces *pieces = context;
    if (pieces->count == MOST_PIECES)
        error_fatal("too many pieces");
    pieces->ends[pieces->count++] = piece + bytes;
    return ERROR_NONE;
}

struct both {
    struct text_splitter *by_hand, *by_pcre2;
    struct splitter_scratch *scratch;
};

static bool same(const struct both *both, const unsigned char *text, int64_t bytes)
{
    static struct pieces one, other;
    one.count = other.count = 0;
    int code = splitter_run(both->by_hand, both->scratch, text, bytes, take, &one);
    return code == ERROR_NONE && splitter_run(both->by_pcre2, both->scratch, text, bytes, take, &other) == ERROR_NONE &&
           one.count == other.count && memcmp(one.ends, other.ends, (size_t)one.count * sizeof *one.ends) == 0;
}

/* A character among what patterns tell apart: bytes written. */
static int64_t put_among(unsigned char *out, uint32_t code)
{
    static const char *const between[] = {"a", "", "1", " ", "\n", "'", "!", "  "};
    int64_t used = 0;
    for (size_t i = 0; i < sizeof between / sizeof *between; i++) {
        used += utf8_write(out + used, code);
        memcpy(out + used, between[i], strlen(between[i]));
        used += (int64_t)strlen(between[i]);
    }
    return used;
}

/* Characters of the planes in use and some of the others, 50 a text. */
static int64_t differing_characters(const struct both *both)
{
    enum { IN_USE = 0x323b0 };
    unsigned char text[4096];
    int64_t used = 0, wrong = 0;
    for (uint32_t code = 1; code < UTF8_CODE_POINTS; code += code < IN_USE || code >> 9 == 0xe0000 >> 9 ? 1 : 63) {
        if (code >= 0xd800 && code < 0xe000)
            continue;
        used += put_among(text + used, code);
        if (used < 2048)
            continue;
        wrong += !same(both, text, used);
        used = 0;
    }
    return wrong + !same(both, text, used);
}

static int64_t differing_mixtures(const struct both *both)
{
    static const char *const atoms[] = {" ",
                                        " ",
                                        "\n",
                                        "\r",
                                        "\t",
                                        "\xc2\xa0",
                                        "\xe2\x80\xa8",
                                        "a",
                                        "Z",
                                        "s",
                                        "'",
                                        "'S",
                                        "'\xc5\xbf",
                                        "ll",
                                        "rE",
                                        "v",
                                        "1",
                                        "22",
                                        ".",
                                        "\xc2\xb2",
                                        "\xcc\x81",
                                        "\xe4\xb8\xad",
                                        "\xe1\xa0\x8e",
                                        "_",
                                        "'m",
                                        "'d",
                                        "'t",
                                        "\xd9\xa3",
                                        "\xe3\x80\x80",
                                        "\xf0\x9f\x98\x80"};
    enum { ATOMS = sizeof atoms / sizeof *atoms, TEXTS = 30000 };
    int64_t wrong = 0;
    for (int i = 0; i < TEXTS; i++) {
        unsigned char text[128];
        int64_t used = 0;
        for (int n = 0; n < 1 + i % 20; n++) {
            const char *atom = atoms[draw(ATOMS)];
            memcpy(text + used, atom, strlen(atom));
            used += (int64_t)strlen(atom);
        }
        wrong += !same(both, text, used);
    }
    return wrong;
}

static void check_by_hand(void)
{
    const char *const patterns[] = {splitter_gpt2, splitter_llama3, splitter_qwen2};
    for (int i = 0; i < 3; i++) {
        struct splitter_settings settings = {.pattern = patterns[i], .behavior = SPLIT_ISOLATED, .where = "P"};
        struct both both = {.scratch = splitter_scratch_open()};
        CHECK(splitter_open(&both.by_hand, &settings) == ERROR_NONE);
        settings.by_pcre2 = true;
        CHECK(splitter_open(&both.by_pcre2, &settings) == ERROR_NONE);
        CHECK(differing_characters(&both) == 0);
        CHECK(differing_mixtures(&both) == 0);
        splitter_close(both.by_hand);
        splitter_close(both.by_pcre2);
        splitter_scratch_close(both.scratch);
    }
}

int main(void)
{
    check_patterns();
    check_behaviors();
    check_spaces();
    check_by_hand();
    return check_end();
}
