/* Makes small tokenizer files for tests: a tokenizer.json and a rank file. */
#ifndef TESTS_TOKENIZER_FILES_H
#define TESTS_TOKENIZER_FILES_H

#include "tokenizer/utf8.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Ids 0 to 255 of the tokenizer.json are bytes; then follow the tokens of these merges, in order, and the added
 * tokens. */
static const char *const merge_texts[] = {"h e", "l l", "he ll", "hell o", "a a", "\xc4\xa0 w", "1 2", "12 3", "a b"};
enum { MERGES = sizeof merge_texts / sizeof *merge_texts, FIRST_ADDED = 256 + MERGES };

static const char added_tokens[] = "{\"id\":265,\"content\":\"<s>\",\"special\":true},"
                                   "{\"id\":266,\"content\":\"</s>\",\"special\":true},"
                                   "{\"id\":267,\"content\":\"<sep>\",\"lstrip\":true,\"rstrip\":true},"
                                   "{\"id\":268,\"content\":\"word\",\"single_word\":true},"
                                   "{\"id\":269,\"content\":\"  \",\"normalized\":true}";

/* Writes a byte as tokenizer.json does (encoder.py of GPT-2); returns the number of bytes written. */
static inline int byte_character(char out[UTF8_MOST], int byte)
{
    bool printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    uint32_t shifted = byte <= 0x20 ? 0x100 + (uint32_t)byte : byte == 0xad ? 0x143 : 0x121 + (uint32_t)byte - 0x7f;
    return utf8_write((unsigned char *)out, printable ? (uint32_t)byte : shifted);
}

/* Appends formatted text at *end. */
static inline void put(char **end, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline void put(char **end, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    *end += vsprintf(*end, format, arguments);
    va_end(arguments);
}

/* Appends the bytes as members of "vocab", each followed by a comma. */
static inline void put_bytes(char **end)
{
    for (int byte = 0; byte < 256; byte++) {
        char character[UTF8_MOST];
        int length = byte_character(character, byte);
        put(end, "\"%s%.*s\":%d,", byte == '"' || byte == '\\' ? "\\" : "", length, character, byte);
    }
}

/* Appends the tokenizer.json, less than 16 KiB. */
static inline void put_json(char **end)
{
    put(end, "{\"added_tokens\":[%s],\"normalizer\":null,", added_tokens);
    put(end, "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},");
    put(end, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},"
             "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[265]}}},");
    put(end, "\"decoder\":{\"type\":\"ByteLevel\"},");
    put(end,
        "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":{");
    put_bytes(end);
    for (int i = 0; i < MERGES; i++) {
        const char *space = strchr(merge_texts[i], ' ');
        put(end, "%s\"%.*s%s\":%d", i == 0 ? "" : ",", (int)(space - merge_texts[i]), merge_texts[i], space + 1,
            256 + i);
    }
    put(end, "},\"merges\":[");
    for (int i = 0; i < MERGES; i++)
        put(end, "%s\"%s\"", i == 0 ? "" : ",", merge_texts[i]);
    put(end, "]}}");
}

/* Writes bytes 0 to 255 as ranks 0 to 255, then `more`. */
static inline void put_ranks(char *out, const char *more)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int byte = 0; byte < 256; byte++)
        put(&out, "%c%c== %d\n", alphabet[byte >> 2], alphabet[(byte & 3) << 4], byte);
    put(&out, "%s", more);
}

#endif
