#include "infer/words.h"

#include <stdbool.h>
#include <string.h>

/* Returns the bytes of the blank with which the text begins, 0 if there is none. */
static int64_t blank_length(const unsigned char *text, int64_t bytes)
{
    /* U+0085, U+00A0; U+1680, U+2028, U+2029, U+202F, U+205F, U+3000; the range below covers U+2000 to U+200A */
    static const char *const blanks[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\xa8",
                                         "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    if ((*text >= '\t' && *text <= '\r') || (*text >= 0x1c && *text <= ' '))
        return 1;
    if (*text < 0xc2)
        return 0;
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
        const int64_t length = (int64_t)strlen(blanks[i]);
        if (length <= bytes && memcmp(text, blanks[i], (size_t)length) == 0)
            return length;
    }
    const bool spaces = bytes >= 3 && text[0] == 0xe2 && text[1] == 0x80 && text[2] >= 0x80 && text[2] <= 0x8a;
    return spaces ? 3 : 0;
}

int64_t words_count(const char *text, int64_t bytes)
{
    int64_t words = 1;
    bool blank = false;
    for (int64_t i = 0; i < bytes;) {
        const int64_t length = blank_length((const unsigned char *)text + i, bytes - i);
        words += length > 0 && !blank;
        blank = length > 0;
        i += blank ? length : 1;
    }
    return words;
}
