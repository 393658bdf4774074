/* Reads and writes UTF-8 (RFC 3629). */
#ifndef TOKENIZER_UTF8_H
#define TOKENIZER_UTF8_H

#include <stdint.h>

enum { UTF8_MOST = 4, UTF8_CODE_POINTS = 0x110000 };

/* Returns the code point at `text`, valid UTF-8, and sets its length in bytes. */
static inline uint32_t utf8_read(const unsigned char *text, int *length)
{
    uint32_t lead = text[0];
    if (lead < 0x80) {
        *length = 1;
        return lead;
    }
    if (lead < 0xe0) {
        *length = 2;
        return (lead & 0x1f) << 6 | (text[1] & 0x3fu);
    }
    if (lead < 0xf0) {
        *length = 3;
        return (lead & 0x0f) << 12 | (text[1] & 0x3fu) << 6 | (text[2] & 0x3fu);
    }
    *length = 4;
    return (lead & 0x07) << 18 | (text[1] & 0x3fu) << 12 | (text[2] & 0x3fu) << 6 | (text[3] & 0x3fu);
}

/* Writes a code point, which is not a surrogate; returns its length in bytes. */
static inline int utf8_write(unsigned char out[UTF8_MOST], uint32_t code)
{
    if (code < 0x80) {
        out[0] = (unsigned char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (unsigned char)(0xc0 | code >> 6);
        out[1] = (unsigned char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (unsigned char)(0xe0 | code >> 12);
        out[1] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (unsigned char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (unsigned char)(0xf0 | code >> 18);
    out[1] = (unsigned char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (unsigned char)(0x80 | (code & 0x3f));
    return 4;
}

/* Returns the number of leading bytes that are valid UTF-8, without surrogates and overlong forms. */
int64_t utf8_valid(const unsigned char *text, int64_t bytes);

#endif
