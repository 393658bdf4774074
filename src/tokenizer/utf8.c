#include "tokenizer/utf8.h"

#include <string.h>

/* Returns the length in bytes of the valid multi-byte character at `text`; 0: none. */
static int valid_character(const unsigned char *text, int64_t bytes)
{
    unsigned char lead = text[0], low = 0x80, high = 0xbf; /* bounds of the second byte */
    int length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead < 0xc2 || lead > 0xf4 || bytes < length)
        return 0;
    if (lead == 0xe0)
        low = 0xa0;
    else if (lead == 0xed)
        high = 0x9f;
    else if (lead == 0xf0)
        low = 0x90;
    else if (lead == 0xf4)
        high = 0x8f;
    if (text[1] < low || text[1] > high)
        return 0;
    for (int i = 2; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

int64_t utf8_valid(const unsigned char *text, int64_t bytes)
{
    int64_t at = 0;
    while (at < bytes) {
        uint64_t word;
        if (bytes - at >= (int64_t)sizeof word) {
            memcpy(&word, text + at, sizeof word);
            if ((word & 0x8080808080808080u) == 0) {
                at += (int64_t)sizeof word;
                continue;
            }
        }
        int length = text[at] < 0x80 ? 1 : valid_character(text + at, bytes - at);
        if (length == 0)
            break;
        at += length;
    }
    return at;
}
