#include "base/text.h"

#include <stdbool.h>
#include <string.h>

enum { MOST = 4 /* bytes of a character or of an escaped byte */ };

/* Returns the bytes of the UTF-8 character that a text begins with; 0 if it does not begin with one. */
static int utf8_bytes(const unsigned char *text)
{
    const int bytes = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    if (text[0] > 0xf4)
        return 0;
    for (int i = 1; i < bytes; i++)
        if ((text[i] & 0xc0) != 0x80) /* true at the end of the text too */
            return 0;
    return bytes;
}

/* Consumes a character of the text, or a byte to be escaped, and writes it to out. Returns the bytes written. */
static size_t next_character(const char **text, char out[MOST + 1])
{
    const unsigned char *at = (const unsigned char *)*text;
    const int bytes = utf8_bytes(at);
    const bool control = at[0] < ' ' ? at[0] != '\t' && at[0] != '\n' : at[0] == 0x7f;
    const bool control_of_latin1 = at[0] == 0xc2 && bytes == 2 && at[1] < 0xa0;
    if (bytes == 0 || control || control_of_latin1) {
        snprintf(out, MOST + 1, "\\x%02x", at[0]);
        (*text)++;
        return MOST;
    }
    memcpy(out, at, (size_t)bytes);
    *text += bytes;
    return (size_t)bytes;
}

void text_printable(char *out, size_t capacity, const char *text)
{
    size_t used = 0;
    while (*text != '\0') {
        char piece[MOST + 1];
        const size_t bytes = next_character(&text, piece);
        if (used + bytes >= capacity)
            break;
        memcpy(out + used, piece, bytes);
        used += bytes;
    }
    out[used] = '\0';
}

const char *text_short(char out[TEXT_SHORT], const char *text)
{
    static const char more[] = "...";
    size_t bytes = strnlen(text, TEXT_SHORT);
    const bool cut = bytes > TEXT_SHORT - sizeof more;
    if (cut) {
        bytes = TEXT_SHORT - sizeof more;
        while (bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80)
            bytes--;
    }
    memcpy(out, text, bytes);
    strcpy(out + bytes, cut ? more : "");
    return out;
}

void text_print(FILE *file, const char *text)
{
    while (*text != '\0') {
        char piece[MOST + 1];
        const size_t bytes = next_character(&text, piece);
        fwrite(piece, 1, bytes, file);
    }
}
