/* The bytes that the characters of a byte-level vocabulary stand for. */
#include "tokenizer/json_members.h"
#include "tokenizer/utf8.h"

/* Returns the byte that a character stands for, -1: none. In byte-level files, bytes that are printable in Latin-1
 * stand for themselves; all other bytes, in order, are written as U+0100 and following. Source: encoder.py of GPT-2. */
static int character_byte(uint32_t character)
{
    enum { FIRST = 0x21, MIDDLE = 0x7f, MIDDLE_END = 0xa1, HYPHEN = 0xad /* soft hyphen */ };
    if (character >= 0x100) {
        uint32_t index = character - 0x100;
        if (index < FIRST)
            return (int)index;
        index -= FIRST;
        return index < MIDDLE_END - MIDDLE ? (int)index + MIDDLE : index == MIDDLE_END - MIDDLE ? HYPHEN : -1;
    }
    bool printable = character >= FIRST && (character < MIDDLE || character >= MIDDLE_END) && character != HYPHEN;
    return printable ? (int)character : -1;
}

int64_t member_decode_bytes(char *out, const char *text, int64_t length)
{
    int64_t used = 0;
    for (int64_t at = 0; at < length;) {
        int read, byte = character_byte(utf8_read((const unsigned char *)text + at, &read));
        if (byte < 0)
            return -1;
        out[used++] = (char)byte;
        at += read;
    }
    return used;
}
