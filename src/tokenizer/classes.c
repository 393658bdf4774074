#include "tokenizer/classes.h"
#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/utf8.h"

#include <pcre2.h>
#include <pthread.h>
#include <stdlib.h>

static struct character_classes classes;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Sets a bit for all characters that match. The text has all characters in order, so matches are ranges of them. */
static void classify(const unsigned char *text, size_t bytes, const char *pattern, enum character_class bit)
{
    int code;
    PCRE2_SIZE where;
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &where, NULL);
    if (compiled == NULL)
        error_fatal("PCRE2 does not know Unicode's classes: error %d in %s", code, pattern);
    pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE); /* a failure only makes matching slower */
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(compiled, NULL);
    size_t at = 0;
    while (pcre2_match(compiled, text, bytes, at, PCRE2_NO_UTF_CHECK, match, NULL) > 0) {
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(match);
        int length;
        for (size_t i = ends[0]; i < ends[1]; i += (size_t)length)
            classes.of[utf8_read(text + i, &length)] |= (uint8_t)bit;
        at = ends[1];
    }
    pcre2_match_data_free(match);
    pcre2_code_free(compiled);
}

static void make(void)
{
    unsigned char *text = memory_grow(NULL, (int64_t)UTF8_CODE_POINTS * UTF8_MOST);
    size_t bytes = 0;
    for (uint32_t code = 0; code < UTF8_CODE_POINTS; code++)
        if (code < 0xd800 || code > 0xdfff)
            bytes += (size_t)utf8_write(text + bytes, code);
    classify(text, bytes, "\\p{L}+", CLASS_LETTER);
    classify(text, bytes, "\\p{N}+", CLASS_NUMBER);
    classify(text, bytes, "[" CLASSES_SPACE "]+", CLASS_SPACE);
    classify(text, bytes, "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]+", CLASS_WORD);
    free(text);
}

const struct character_classes *classes_get(void)
{
    pthread_once(&once, make);
    return &classes;
}
